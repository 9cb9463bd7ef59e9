package sandbox

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
)

func theDeployment() promo.ResourceRef {
	return promo.ResourceRef{Group: "apps", Kind: "Deployment", Name: "checkout"}
}

func (w *world) edit(ref promo.ApplicationRef, e LiveEdit) {
	w.t.Helper()
	if err := w.EditLive(w.t.Context(), ref, e); err != nil {
		w.t.Fatal(err)
	}
}

const automated = "  syncPolicy: {automated: {}, syncOptions: [CreateNamespace=true]}\n"

func TestDrift(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		edit LiveEdit
		want string
		diff []string // lines of the unified diff
	}{
		"replicas": {
			edit: LiveEdit{Resource: theDeployment(), Replicas: new(5)}, want: "OutOfSync Healthy",
			diff: []string{"-  replicas: 5", "+  replicas: 2"},
		},
		"image": {
			edit: LiveEdit{Resource: theDeployment(), Image: "example.com/checkout:hotfix"}, want: "OutOfSync Healthy",
			diff: []string{"-      - image: example.com/checkout:hotfix", "+      - image: example.com/checkout:1.0.0"},
		},
		"deletion": {
			edit: LiveEdit{Resource: theDeployment(), Delete: true}, want: "OutOfSync Missing",
			diff: []string{"+kind: Deployment"},
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, ""), "app/s.yaml": service})
			ref := w.deployed("app", automated) // without selfHeal the drift stays
			if diff, err := w.Diff(t.Context(), ref, ""); err != nil || len(diff) != 0 {
				t.Errorf("difference before the edit: %v, %v", diff, err)
			}
			w.edit(ref, tc.edit)
			w.advance(30 * time.Second)
			if got := brief(w.get(ref)); got != tc.want {
				t.Errorf("got %s, %s", got, w.get(ref).HealthMessage)
			}
			diff, err := w.Diff(t.Context(), ref, "")
			if err != nil || len(diff) != 1 || diff[0].Kind != "Deployment" || !strings.HasPrefix(diff[0].Unified, "--- live\n+++ desired\n@@") {
				t.Fatalf("diff %+v, %v", diff, err)
			}
			for _, line := range tc.diff {
				if !strings.Contains(diff[0].Unified, "\n"+line+"\n") {
					t.Errorf("line %q is not in\n%s", line, diff[0].Unified)
				}
			}
			w.sync(ref, "repair", "", promo.SyncOptions{})
			w.advance(5 * time.Second)
			if got := brief(w.get(ref)); got != "Synced Healthy" {
				t.Errorf("after a sync: %s", got)
			}
		})
	}
}

func TestSelfHeal(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	one := w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, "")})
	ref := w.deployed("app", "  syncPolicy: {automated: {selfHeal: true}, syncOptions: [CreateNamespace=true]}\n")
	for _, e := range []LiveEdit{
		{Resource: theDeployment(), Replicas: new(0)}, {Resource: theDeployment(), Image: "evil"}, {Resource: theDeployment(), Delete: true},
	} {
		seen := w.events(ref)
		w.edit(ref, e)
		w.advance(10 * time.Second)
		a := w.get(ref)
		if brief(a) != "Synced Healthy" || a.LastOperation.InitiatedBy != "automated" || a.Images[0] != "example.com/checkout:1.0.0" {
			t.Errorf("after %+v: %s %v", e, brief(a), a.Images)
		}
		if got := transcript(seen.until(a), map[string]string{one: "one"}); !strings.HasPrefix(got[0], "OutOfSync@one") {
			t.Errorf("the drift shows before it is healed: %v", got)
		}
	}
}

func TestAutoSync(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, "")})
	ref := w.deployed("app", automated)
	two := w.commit(map[string]string{"app/d.yaml": workload("Deployment", "2.0.0", 2, "")})
	w.Notify("file://" + w.bare)
	w.advance(5 * time.Second)
	a := w.get(ref)
	if brief(a) != "Synced Healthy" || a.Revision != two || a.LastOperation.Revision != two || !a.AutoSync || len(a.History) != 2 {
		t.Errorf("got %s at %s, %+v", brief(a), a.Revision, a.LastOperation)
	}
}

func TestAFailedAutoSyncIsNotTriedForEver(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, "")})
	ref := w.declare("app", "  syncPolicy: {automated: {selfHeal: true}, retry: {limit: 1, backoff: {duration: 2s}}}\n") // no namespace
	seen := w.events(ref)
	w.advance(10 * time.Second)
	count := len(seen.until(w.get(ref)))
	last := w.get(ref).LastOperation
	want := `one or more objects failed to apply, reason: namespaces "shop" not found (retried 1 times).`
	if last.Phase != promo.OperationFailed || last.Message != want {
		t.Errorf("got %s, %q", last.Phase, last.Message)
	}
	w.advance(30 * time.Second)
	if got := w.get(ref).LastOperation; !cmp.Equal(got, last) {
		t.Errorf("tried again: %+v after %d events", got, count)
	}
}

func TestPrune(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	keep := strings.Replace(service, "name: checkout", "name: kept, annotations: {argocd.argoproj.io/sync-options: Prune=false}", 1)
	w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, ""), "app/s.yaml": service, "app/k.yaml": keep})
	ref := w.deployed("app", automated)
	less := w.commit(map[string]string{"app/s.yaml": "", "app/k.yaml": ""})
	w.Notify("file://" + w.bare)
	w.advance(5 * time.Second)
	requires := func() []string {
		var names []string
		for _, r := range w.get(ref).Resources {
			if r.RequiresPruning {
				names = append(names, r.Name)
			}
		}
		return names
	}
	if diff := cmp.Diff([]string{"checkout", "kept"}, requires()); diff != "" || brief(w.get(ref)) != "OutOfSync Healthy" {
		t.Errorf("without prune: %s %s", brief(w.get(ref)), diff)
	}
	if n := len(w.get(ref).History); n != 1 {
		t.Errorf("auto-sync ran %d times: what only needs pruning is no reason", n)
	}
	w.sync(ref, "no-prune", less, promo.SyncOptions{})
	w.advance(5 * time.Second)
	a := w.get(ref)
	if a.Sync != promo.SyncOutOfSync || !strings.Contains(a.LastOperation.Message, "ignored (requires pruning): Service shop/checkout, Service shop/kept") {
		t.Errorf("got %s, %q", a.Sync, a.LastOperation.Message)
	}
	diff, err := w.Diff(t.Context(), ref, "")
	if err != nil || len(diff) != 2 || !diff[0].RequiresPruning || !strings.Contains(diff[0].Unified, "-kind: Service") {
		t.Errorf("diff %+v, %v", diff, err)
	}
	w.sync(ref, "prune", less, promo.SyncOptions{Prune: true})
	w.advance(5 * time.Second)
	if diff := cmp.Diff([]string{"kept"}, requires()); diff != "" {
		t.Errorf("with prune: %s", diff)
	}
}

func TestFieldsThatGitDoesNotNameAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	text := strings.Replace(workload("Deployment", "1.0.0", 2, ""), "  replicas: 2\n", "", 1)
	w.commit(map[string]string{"app/d.yaml": text})
	ref := w.deployed("app", "")
	w.edit(ref, LiveEdit{Resource: theDeployment(), Replicas: new(7)})
	w.advance(5 * time.Second)
	if got := brief(w.get(ref)); got != "Synced Healthy" {
		t.Errorf("an autoscaler's replicas are no drift, got %s", got)
	}
}

func TestSecretsAreMaskedInDiffs(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	secret := "apiVersion: v1\nkind: Secret\nmetadata: {name: s}\nstringData: {password: hunter1, user: root}\n"
	w.commit(map[string]string{"app/s.yaml": secret})
	ref := w.deployed("app", "")
	two := w.commit(map[string]string{"app/s.yaml": strings.Replace(secret, "hunter1", "hunter2", 1)})
	diff, err := w.Diff(t.Context(), ref, two)
	if err != nil || len(diff) != 1 {
		t.Fatalf("diff %+v, %v", diff, err)
	}
	text := diff[0].Unified
	if strings.Contains(text, "hunter") || strings.Contains(text, "root") || !strings.Contains(text, "+  password: ++++++++ (changed)") {
		t.Errorf("got\n%s", text)
	}
}

func TestEditLiveRefuses(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, ""), "app/c.yaml": "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"})
	ref := w.deployed("app", "")
	cases := map[string]struct {
		edit LiveEdit
		code promo.Code
	}{
		"nothing":      {LiveEdit{Resource: theDeployment()}, promo.CodeConfiguration},
		"two things":   {LiveEdit{Resource: theDeployment(), Image: "a", Delete: true}, promo.CodeConfiguration},
		"not there":    {LiveEdit{Resource: promo.ResourceRef{Kind: "Pod", Name: "x"}, Delete: true}, promo.CodeNotFound},
		"no container": {LiveEdit{Resource: theDeployment(), Image: "a", Container: "gone"}, promo.CodeNotFound},
		"no spec":      {LiveEdit{Resource: promo.ResourceRef{Kind: "ConfigMap", Name: "c"}, Replicas: new(1)}, promo.CodeConfiguration},
		"too many":     {LiveEdit{Resource: theDeployment(), Replicas: new(1 << 30)}, promo.CodeConfiguration},
		"negative":     {LiveEdit{Resource: theDeployment(), Replicas: new(-1)}, promo.CodeConfiguration},
	}
	for name, tc := range cases {
		if err := w.EditLive(t.Context(), ref, tc.edit); promo.CodeOf(err) != tc.code || err == nil {
			t.Errorf("%s: got %v, want %s", name, err, tc.code)
		}
	}
	w.advance(5 * time.Second)
	if got := brief(w.get(ref)); got != "Synced Healthy" {
		t.Errorf("a refused edit changed something: %s", got)
	}
}
