package render_test

import (
	"errors"
	"fmt"
	"io/fs"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/gitops/sandbox/render"
	"github.com/davit-cd/davit/internal/promo"
)

const deployment = `# a comment
apiVersion: apps/v1
kind: Deployment
metadata: {name: checkout}
spec:
  replicas: 2
  selector: {matchLabels: {app: checkout}}
  template:
    metadata: {labels: {app: checkout}}
    spec:
      containers:
        - {name: app, image: "example.com/checkout:1.0.0"}
`

func commit(files map[string]string) fs.FS {
	out := fstest.MapFS{}
	for name, text := range files {
		out[name] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	return out
}

func keys(objects []render.Object) []string {
	var out []string
	for _, o := range objects {
		out = append(out, o.Key().String())
	}
	return out
}

func TestRender(t *testing.T) {
	t.Parallel()
	overlay := "resources: [../../base]\nimages: [{name: example.com/checkout, newTag: 2.0.0}]\nreplicas: [{name: checkout, count: 5}]\n"
	cases := map[string]struct {
		reason string
		files  map[string]string
		dir    string
		o      render.Options
		want   []string
	}{
		"plain": {
			reason: "every manifest of the directory counts, other files and sub-directories do not",
			files: map[string]string{
				"app/a.yaml": deployment + "---\napiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n", "app/b.json": `{"apiVersion":"v1","kind":"Service","metadata":{"name":"s"}}`,
				"app/README.md": "no: [yaml", "app/sub/x.yaml": "apiVersion: v1\nkind: Secret\nmetadata: {name: x}\n", "values.yaml": "a: 1",
			},
			dir: "app", o: render.Options{Namespace: "shop"},
			want: []string{"ConfigMap shop/c", "Service shop/s", "apps/Deployment shop/checkout"},
		},
		"recurse": {
			reason: "sub-directories count when asked for; cluster-scoped objects get no namespace",
			files:  map[string]string{"app/sub/n.yml": "apiVersion: v1\nkind: Namespace\nmetadata: {name: team}\n"},
			dir:    "app", o: render.Options{Recurse: true, Namespace: "shop"},
			want: []string{"Namespace team"},
		},
		"list": {
			reason: "a List is its items",
			files:  map[string]string{"l.yaml": "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: b}}\n"},
			dir:    ".", want: []string{"ConfigMap a", "ConfigMap b"},
		},
		"kustomize": {
			reason: "an overlay may use a base outside its own directory",
			files: map[string]string{
				"base/kustomization.yaml": "resources: [d.yaml]\nconfigMapGenerator: [{name: conf, files: [app.properties], options: {disableNameSuffixHash: true}}]\n",
				"base/d.yaml":             deployment, "base/app.properties": "a=b\n",
				"overlays/prod/kustomization.yaml": overlay,
			},
			dir: "overlays/prod", o: render.Options{Namespace: "shop"},
			want: []string{"ConfigMap shop/conf", "apps/Deployment shop/checkout"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := render.Render(commit(tc.files), tc.dir, tc.o)
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, keys(got)); diff != "" {
				t.Errorf("%s: -want +got\n%s", tc.reason, diff)
			}
		})
	}
}

func TestOverlayChangesFields(t *testing.T) {
	t.Parallel()
	got, err := render.Render(commit(map[string]string{
		"base/kustomization.yaml":          "resources: [d.yaml]\n",
		"base/d.yaml":                      deployment,
		"overlays/prod/kustomization.yaml": "resources: [../../base]\nimages: [{name: example.com/checkout, newTag: 2.0.0}]\npatches: [{path: p.yaml}]\n",
		"overlays/prod/p.yaml":             "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: checkout}\nspec: {replicas: 5}\n",
	}), "overlays/prod", render.Options{})
	if err != nil {
		t.Fatal(err)
	}
	text, err := render.YAML(got)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"image: example.com/checkout:2.0.0", "replicas: 5"} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%q is missing in\n%s", want, text)
		}
	}
}

func TestRenderRefuses(t *testing.T) {
	t.Parallel()
	kustomization := func(text string) map[string]string {
		return map[string]string{"app/kustomization.yaml": text, "app/d.yaml": deployment}
	}
	cases := map[string]struct {
		files map[string]string
		dir   string
		want  string
	}{
		"missing path":       {dir: "nowhere", want: "app path does not exist"},
		"outside":            {dir: "../etc", want: "leaves the repository"},
		"absolute":           {dir: "/etc", want: "leaves the repository"},
		"helm":               {files: map[string]string{"app/Chart.yaml": "name: x"}, want: "Helm charts are not supported"},
		"broken yaml":        {files: map[string]string{"app/d.yaml": "a: [1"}, want: "app/d.yaml: yaml"},
		"no object":          {files: map[string]string{"app/d.yaml": "- 1"}, want: "a Kubernetes object is a mapping"},
		"no kind":            {files: map[string]string{"app/d.yaml": "apiVersion: v1"}, want: "no kind"},
		"no name":            {files: map[string]string{"app/d.yaml": "apiVersion: v1\nkind: ConfigMap"}, want: "no metadata.name"},
		"twice":              {files: map[string]string{"app/a.yaml": deployment, "app/b.yaml": deployment}, want: "declared more than once"},
		"hook":               {files: map[string]string{"app/a.yaml": "apiVersion: batch/v1\nkind: Job\nmetadata: {name: j, annotations: {argocd.argoproj.io/hook: PreSync}}"}, want: "sync hook"},
		"missing base":       {files: kustomization("resources: [../gone]"), want: "gone"},
		"remote base":        {files: kustomization("resources: ['https://example.com/x?ref=v1']"), want: "not a path in the repository"},
		"github base":        {files: kustomization("resources: ['github.com/acme/x/y']"), want: "not a path in the repository"},
		"scp base":           {files: kustomization("resources: ['git@example.com:acme/x']"), want: "not a path in the repository"},
		"remote patch":       {files: kustomization("resources: [d.yaml]\npatches: [{Path: 'http://127.0.0.1/p'}]"), want: "not a path in the repository"},
		"remote generator":   {files: kustomization("configMapGenerator: [{name: a, files: ['k=http://127.0.0.1/p']}]"), want: "not a path in the repository"},
		"plugin":             {files: kustomization("resources: [d.yaml]\ngenerators: [g.yaml]"), want: `field "generators" is not supported`},
		"helm in kustomize":  {files: kustomization("helmCharts: [{name: x}]"), want: `field "helmCharts" is not supported`},
		"folded field":       {files: kustomization("Resources: ['https://example.com/x']"), want: `field "Resources" is not supported`},
		"outside in overlay": {files: kustomization("resources: [../../../etc]"), want: "etc"},
		"cycle":              {files: kustomization("resources: [../app]"), want: "cycle"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if tc.dir == "" {
				tc.dir = "app"
			}
			_, err := render.Render(commit(tc.files), tc.dir, render.Options{})
			var refused *promo.Error
			if !errors.As(err, &refused) || refused.Code != promo.CodeConfiguration || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want a Configuration error with %q", err, tc.want)
			}
		})
	}
}

func TestNoSymlinkIsFollowed(t *testing.T) {
	t.Parallel()
	files := fstest.MapFS{
		"secret.yaml": {Data: []byte(deployment), Mode: 0o644},
		"app/l.yaml":  {Data: []byte("../secret.yaml"), Mode: fs.ModeSymlink | 0o777},
	}
	if _, err := render.Render(files, "app", render.Options{}); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("got %v, want a refusal of the link", err)
	}
	files["app/kustomization.yaml"] = &fstest.MapFile{Data: []byte("resources: [l.yaml]"), Mode: 0o644}
	if _, err := render.Render(files, "app", render.Options{}); err == nil {
		t.Error("kustomize followed a link")
	}
}

func TestAliasesAreBounded(t *testing.T) {
	t.Parallel()
	bomb := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: bomb}\na0: &a0 [x, x, x, x, x, x, x, x, x, x]\n"
	for i := range 9 {
		bomb += fmt.Sprintf("a%d: &a%d [%s*a%d]\n", i+1, i+1, strings.Repeat(fmt.Sprintf("*a%d, ", i), 9), i)
	}
	cases := map[string]map[string]string{
		"plain":         {"app/d.yaml": bomb},
		"resource":      {"app/kustomization.yaml": "resources: [d.txt]", "app/d.txt": bomb},
		"kustomization": {"app/kustomization.yaml": bomb},
		"itself":        {"app/d.yaml": "a: &a [*a]\n"},
	}
	for name, files := range cases {
		if _, err := render.Render(commit(files), "app", render.Options{}); err == nil || !strings.Contains(err.Error(), "aliases") {
			t.Errorf("%s: got %v, want a refusal of the aliases", name, err)
		}
	}
	few := strings.Replace(deployment, "{app: checkout}}\n", "&l {app: checkout}}\n", 1)
	few = strings.Replace(few, "labels: {app: checkout}", "labels: *l", 1)
	for name, files := range map[string]map[string]string{
		"plain": {"app/d.yaml": few}, "kustomize": {"app/kustomization.yaml": "resources: [d.yaml]", "app/d.yaml": few},
	} {
		got, err := render.Render(commit(files), "app", render.Options{})
		if err != nil || render.String(got[0].Fields, "spec", "template", "metadata", "labels", "app") != "checkout" {
			t.Errorf("%s: aliases are no harm: %v", name, err)
		}
	}
}

func FuzzParse(f *testing.F) {
	f.Add([]byte(deployment))
	f.Add([]byte("a: &a [*a]\n---\n? [x]\n: y\n"))
	f.Add([]byte("apiVersion: v1\nkind: List\nitems: [{kind: X}, 1]\n"))
	f.Fuzz(func(t *testing.T, data []byte) {
		objects, err := render.Parse(data)
		if err != nil {
			return
		}
		text, err := render.YAML(objects)
		if err != nil {
			t.Fatal(err)
		}
		again, err := render.Parse(text)
		if err != nil {
			t.Fatalf("%v in what was written:\n%s", err, text)
		}
		if diff := cmp.Diff(objects, again); diff != "" {
			t.Errorf("written and read again: %s", diff)
		}
	})
}

func TestRenderBounds(t *testing.T) {
	t.Parallel()
	big := commit(map[string]string{"app/d.yaml": deployment + "# " + strings.Repeat("x", 5<<20)})
	if _, err := render.Render(big, "app", render.Options{}); err == nil || !strings.Contains(err.Error(), "bytes") {
		t.Errorf("got %v, want a refusal of the size", err)
	}
	many := commit(map[string]string{"app/d.yaml": strings.Repeat("---\n{apiVersion: v1, kind: ConfigMap, metadata: {name: a}}\n", 2001)})
	if _, err := render.Render(many, "app", render.Options{}); err == nil || !strings.Contains(err.Error(), "objects") {
		t.Errorf("got %v, want a refusal of the number", err)
	}
}
