package render

import (
	"fmt"
	"path"
	"slices"
	"strings"
	"sync"

	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/yaml"

	"github.com/davit-cd/davit/internal/promo"
)

// building serialises kustomize: its OpenAPI schema is a global that concurrent builds race on
// (kubernetes-sigs/kustomize#3659).
var building sync.Mutex //nolint:gochecknoglobals // guards another library's global

func kustomizationNames() []string {
	return []string{"kustomization.yaml", "kustomization.yml", "Kustomization"}
}

func isKustomization(name string) bool {
	return slices.Contains(kustomizationNames(), path.Base(name))
}

// build runs kustomize on dir. A panic of the library on hostile input becomes an error: it must not take
// down every cluster of the process.
func build(t *tree, dir string) (objects []Object, err error) {
	building.Lock()
	defer building.Unlock()
	defer func() {
		if p := recover(); p != nil {
			err = promo.Errorf(promo.CodeConfiguration, "kustomize build of %q stopped: %v", dir, p)
		}
	}()
	found, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(kustomizeFS{t}, path.Join("/", dir))
	if t.refused != nil { // kustomize takes a file that cannot be read for a missing one and says so
		return nil, t.refused
	}
	if err != nil {
		return nil, fmt.Errorf("kustomize build of %q: %w", dir, err)
	}
	text, err := found.AsYaml()
	if err != nil {
		return nil, fmt.Errorf("kustomize build of %q: %w", dir, err)
	}
	if len(text) > maxTotalBytes {
		return nil, fmt.Errorf("kustomize build of %q gives %d bytes, at most %d are kept", dir, len(text), maxTotalBytes)
	}
	return Parse(text)
}

// vet refuses a kustomization that would make kustomize reach outside the commit (network, programs, plugins)
// or that uses a field whose effect is unknown here.
func vet(name string, data []byte) error {
	var k map[string]any
	if err := yaml.UnmarshalStrict(data, &k); err != nil {
		return promo.Errorf(promo.CodeConfiguration, "%s: %w", name, err)
	}
	for field, value := range k {
		read, known := fieldPaths()[field]
		if !known {
			return promo.Errorf(promo.CodeConfiguration, "%s: field %q is not supported by sandbox clusters", name, field).
				WithHint("no Helm, plugins or custom OpenAPI; see the documentation of sandbox clusters")
		}
		for _, p := range read(value) {
			if !isLocal(p) {
				return promo.Errorf(promo.CodeConfiguration, "%s: %s: %q is not a path in the repository", name, field, p).
					WithHint("remote bases and files are not supported; copy them into the repository")
			}
		}
	}
	return nil
}

// isLocal is stricter than kustomize's own idea of a URL (scheme, user@host:, github.com/…, ?ref=).
func isLocal(p string) bool {
	return p != "" && !path.IsAbs(p) && !strings.ContainsAny(p, ":@?\\\x00\n") && !strings.Contains(p, "//") &&
		!strings.HasPrefix(strings.ToLower(p), "github.com")
}

// fieldPaths lists the fields of a kustomization that are allowed, each with the paths found in its value.
func fieldPaths() map[string]func(any) []string {
	none := func(any) []string { return nil }
	patches := func(v any) []string { return eachField(v, "path") }
	generated := func(v any) []string {
		files := append(eachField(v, "files"), append(eachField(v, "envs"), eachField(v, "env")...)...)
		for i, f := range files { // "key=path"
			if _, p, found := strings.Cut(f, "="); found {
				files[i] = p
			}
		}
		return files
	}
	return map[string]func(any) []string{
		"apiVersion": none, "kind": none, "metadata": none, "namespace": none, "namePrefix": none, "nameSuffix": none,
		"labels": none, "commonLabels": none, "commonAnnotations": none, "images": none, "replicas": none, "vars": none,
		"generatorOptions": none, "sortOptions": none, "buildMetadata": none,
		"resources": texts, "bases": texts, "components": texts, "configurations": texts,
		"patches": patches, "patchesJson6902": patches, "replacements": patches,
		"patchesStrategicMerge": oneLiners,
		"configMapGenerator":    generated, "secretGenerator": generated,
	}
}

// texts returns a string, or the strings of a list; anything else is kustomize's to refuse.
func texts(v any) []string {
	if s, ok := v.(string); ok {
		return []string{s}
	}
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		if s, ok := e.(string); ok {
			out = append(out, s)
		}
	}
	return out
}

// oneLiners leaves out inline patches, which have several lines and so are no URL to kustomize.
func oneLiners(v any) []string {
	return slices.DeleteFunc(texts(v), func(s string) bool { return strings.Contains(strings.TrimSpace(s), "\n") })
}

// eachField folds case, because encoding/json, with which kustomize reads the file, does.
func eachField(v any, field string) []string {
	list, _ := v.([]any)
	var out []string
	for _, e := range list {
		m, _ := e.(map[string]any)
		for key, value := range m {
			if strings.EqualFold(key, field) {
				out = append(out, texts(value)...)
			}
		}
	}
	return out
}
