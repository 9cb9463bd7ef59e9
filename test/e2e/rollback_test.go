package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/kustomize/api/krusty"
	"sigs.k8s.io/kustomize/kyaml/filesys"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

// envPath is the REST path of the world's service in an environment.
func (w *world) envPath(env string, verb ...string) string {
	return strings.Join(append([]string{"/api/projects/default/services", w.name, "environments", w.env(env)}, verb...), "/")
}

// rollback starts a rollback by REST and waits for its end.
func (w *world) rollback(env string, req api.RollbackRequest) promo.Rollback {
	w.t.Helper()
	var r promo.Rollback
	w.s.must(w.t, manager, http.MethodPost, w.envPath(env, "rollback"), req, &r)
	return w.rolledBack(r.ID, promo.PhaseSucceeded)
}

func (w *world) rolledBack(id string, phase promo.Phase) promo.Rollback {
	w.t.Helper()
	r := w.rollbackReaches(id, "has ended", func(r promo.Rollback) bool { return r.Phase.Final() })
	if r.Phase != phase {
		w.t.Fatalf("want %s, got rollback %s", phase, toJSON(r))
	}
	return r
}

func (w *world) rollbackReaches(id, what string, wanted func(promo.Rollback) bool) promo.Rollback {
	w.t.Helper()
	var r promo.Rollback
	eventually(w.t, "rollback "+id+": "+what, func() (bool, string) {
		r = promo.Rollback{}
		w.s.must(w.t, developer, http.MethodGet, "/api/projects/default/rollbacks/"+strings.TrimPrefix(id, "default/"), nil, &r)
		return wanted(r), toJSON(r)
	})
	return r
}

func (w *world) history(env string) []promo.KnownGood {
	w.t.Helper()
	var out []promo.KnownGood
	w.s.must(w.t, developer, http.MethodGet, w.envPath(env, "history"), nil, &out)
	return out
}

// trees returns the ids of everything below the given paths at a commit, by name; all of it without paths.
func (w *world) trees(commit string, paths ...string) map[string]string {
	w.t.Helper()
	out := map[string]string{}
	for _, line := range strings.Split(w.git(append([]string{"ls-tree", "-r", commit, "--"}, paths...)...), "\n") {
		if meta, name, ok := strings.Cut(line, "\t"); ok {
			out[name] = meta
		}
	}
	return out
}

// rendered returns the manifests of a target at a commit, as Kustomize itself builds them.
func (w *world) rendered(commit string, p place) string {
	w.t.Helper()
	out := w.t.TempDir()
	w.git("--work-tree="+out, "checkout", "-q", commit, "--", ".")
	w.git("reset", "-q", "--hard", "origin/main")
	m, err := krusty.MakeKustomizer(krusty.MakeDefaultOptions()).Run(filesys.MakeFsOnDisk(), filepath.Join(out, "services", w.name, dir(p)))
	if err != nil {
		w.t.Fatal(err)
	}
	y, err := m.AsYaml()
	if err != nil {
		w.t.Fatal(err)
	}
	return string(y)
}

// runs demands that the target runs exactly what the manifests at main say, healthy.
func (w *world) runs(p place, commit string) {
	w.t.Helper()
	a := w.app(w.name, p)
	if a.Sync != promo.SyncSynced || a.Health != promo.HealthHealthy {
		w.t.Errorf("%s is %s and %s", p.agent, a.Sync, a.Health)
	}
	if a.LastOperation == nil || a.LastOperation.Revision != commit {
		w.t.Errorf("%s was last synced to %s, not to %s", p.agent, toJSON(a.LastOperation), commit)
	}
	var diff []promo.ResourceDiff
	w.s.must(w.t, developer, http.MethodGet, "/api/sandbox/clusters/"+p.agent+"/applications/"+w.name+"-"+p.target+"/diff", nil, &diff)
	if len(diff) > 0 {
		w.t.Errorf("%s differs from Git: %s", p.agent, toJSON(diff))
	}
}

func (w *world) only(env string) []place {
	return slices.DeleteFunc(slices.Clone(w.places), func(p place) bool { return p.env != w.env(env) })
}

// TestRollback ships a release to production, rolls it back and compares trees, manifests and clusters.
func TestRollback(t *testing.T) {
	t.Parallel()
	w := newWorld(t, commonServer(t))
	w.apply(prod)
	good := w.pull()
	id := w.start("prod-"+w.name, "v1.1.0")
	w.waits(id)
	w.approve(manager, id)
	w.ends(id, promo.PhaseSucceeded)
	w.pull()
	w.write("services/"+w.name+"/prod/us/notes.txt", "by hand\n")
	w.write("README.md", "not of any service\n")
	foreign := w.push("notes and a readme")
	before := w.trees(foreign)

	h := w.history("prod")
	if len(h) != 2 || !h[0].KnownGood || h[0].Version != "v1.1.0" || h[0].Promotion != id || !h[1].KnownGood || h[1].Promotion != "" || h[1].Commit != good {
		t.Fatalf("history: %s", toJSON(h))
	}
	w.s.cli(t, "--as", developer, "history", "--service", w.name, "--environment", w.env("prod"), "-o", "json").says(t, 0, `"knownGood": true`, good)

	// The head differs from v1.1.0's commit by the notes: back to the baseline, two releases ago, by name.
	w.s.cli(t, "--as", manager, "rollback", "--service", w.name, "--environment", w.env("prod"), "--to", good[:12], "--dry-run").
		says(t, 0, "notes.txt", "notes and a readme", "kustomization.yaml")
	if got := w.pull(); got != foreign {
		t.Fatalf("the dry run moved main to %s", got)
	}
	res := w.s.cli(t, "--as", manager, "rollback", "--service", w.name, "--environment", w.env("prod"), "--to", good[:12], "--reason", "too slow", "--wait", "-o", "json")
	var r promo.Rollback
	if err := json.Unmarshal([]byte(res.Stdout), &r); err != nil || res.Code != 0 || r.Phase != promo.PhaseSucceeded {
		t.Fatalf("rollback: %v %+v", err, res)
	}
	if len(r.Preview.Foreign) == 0 || r.Preview.Foreign[0].Subject != "notes and a readme" {
		t.Errorf("foreign commits: %s", toJSON(r.Preview.Foreign))
	}
	head := w.pull()
	if head != r.Commit {
		t.Errorf("main is at %s, the rollback says %s", head, r.Commit)
	}
	owned := "services/" + w.name + "/prod"
	if diff := cmp.Diff(w.trees(good, owned), w.trees(head, owned)); diff != "" {
		t.Errorf("owned paths (-known-good +now):\n%s", diff)
	}
	now := w.trees(head)
	for _, m := range []map[string]string{before, now} {
		for name := range m {
			if strings.HasPrefix(name, owned+"/") {
				delete(m, name)
			}
		}
	}
	if diff := cmp.Diff(before, now); diff != "" {
		t.Errorf("what the rollback had no business with (-before +now):\n%s", diff)
	}
	for _, p := range w.only("prod") {
		if diff := cmp.Diff(w.rendered(good, p), w.rendered(head, p)); diff != "" {
			t.Errorf("manifests of %s (-known-good +now):\n%s", p.target, diff)
		}
		w.runs(p, head)
	}
	if h := w.history("prod"); len(h) != 3 || !h[0].KnownGood || h[0].Commit != head {
		t.Errorf("history after the rollback: %s", toJSON(h))
	}
	w.held()
}

// held checks that automatic promotions pause after a rollback until a person releases the environment.
func (w *world) held() {
	w.t.Helper()
	id := w.startWith("prod-"+w.name, api.RunRequest{Automatic: true, Inputs: map[string]any{"version": "v1.2.0"}})
	w.waits(id)
	w.approve(manager, id)
	p := w.reach(id, "is paused", func(p promo.Promotion) bool { return p.Phase == promo.PhasePaused })
	if !strings.Contains(describe(p), "too slow") && !strings.Contains(describe(p), "rolled back") {
		w.t.Errorf("the reason of the hold is not shown: %s", describe(p))
	}
	w.s.cli(w.t, "--as", manager, "hold", "--release", "--service", w.name, "--environment", w.env("prod")).says(w.t, 0, "released")
	w.ends(id, promo.PhaseSucceeded)
}

// TestRollbackShared goes back over a bad change in base/, which every environment reads.
func TestRollbackShared(t *testing.T) {
	t.Parallel()
	for _, shared := range []string{"include", "paths-only"} {
		t.Run(shared, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, commonServer(t))
			w.apply(direct)
			good := w.start("direct-"+w.name, "v1.1.0")
			w.ends(good, promo.PhaseSucceeded)
			known := w.pull()
			base := "services/" + w.name + "/base/deployment.yaml"
			b, err := os.ReadFile(filepath.Join(w.clone, base))
			if err != nil {
				t.Fatal(err)
			}
			w.write(base, strings.Replace(string(b), "replicas: 1", "replicas: 2", 1))
			w.push("more replicas for everybody")
			w.ends(w.start("direct-"+w.name, "v1.2.0"), promo.PhaseSucceeded)
			bad := w.pull()

			w.s.refused(t, manager, http.MethodPost, w.envPath("dev", "rollback"), api.RollbackRequest{To: known}, http.StatusConflict,
				base, "include", "paths-only", w.env("prod"))
			w.rollback("dev", api.RollbackRequest{To: known, Shared: shared})
			head := w.pull()
			dev := w.only("dev")[0]
			same := w.rendered(known, dev) == w.rendered(head, dev)
			if want := shared == "include"; same != want {
				t.Errorf("manifests equal the known-good ones: %t, want %t", same, want)
			}
			if diff := cmp.Diff(w.trees(known, "services/"+w.name+"/dev"), w.trees(head, "services/"+w.name+"/dev")); diff != "" {
				t.Errorf("owned paths (-known-good +now):\n%s", diff)
			}
			from := bad
			if shared == "include" {
				from = known
			}
			if diff := cmp.Diff(w.trees(from, "services/"+w.name+"/base"), w.trees(head, "services/"+w.name+"/base")); diff != "" {
				t.Errorf("base (-want +now):\n%s", diff)
			}
			w.runs(dev, head)
		})
	}
}

// TestRollbackAbortsWhatIsInFlight rolls back while a promotion waits in production.
func TestRollbackAbortsWhatIsInFlight(t *testing.T) {
	t.Parallel()
	w := newWorld(t, commonServer(t))
	w.apply(strings.Replace(prod, "{name: sync, type: Sync, spec: {prune: true}}", "{name: sync, type: Sync, spec: {prune: true}}\n        - {name: soak, type: Wait, spec: {duration: 10m}}", 1))
	good := w.pull()
	id := w.start("prod-"+w.name, "v1.1.0")
	w.waits(id)
	w.approve(manager, id)
	w.reach(id, "soaks in the first wave", func(p promo.Promotion) bool {
		return slices.ContainsFunc(p.Stages[0].Steps, func(s promo.Step) bool { return s.Name == "soak" && s.Phase == promo.PhaseRunning })
	})
	r := w.rollback("prod", api.RollbackRequest{Reason: "stop it"})
	if r.To != good {
		t.Errorf("went back to %s, not the baseline %s", r.To, good)
	}
	p := w.ends(id, promo.PhaseAborted)
	if !strings.Contains(p.Message, "rollback") && !strings.Contains(p.Message, developer) {
		t.Errorf("the promotion does not say why it was aborted: %q", p.Message)
	}
	if open := w.pulls("open"); len(open) > 0 {
		t.Errorf("pull requests left open: %s", toJSON(open))
	}
	if heads := w.git("ls-remote", "--heads", "origin"); strings.Count(heads, "refs/heads/") != 1 {
		t.Errorf("branches left: %s", heads)
	}
	head := w.pull()
	for _, p := range w.only("prod") {
		if diff := cmp.Diff(w.rendered(good, p), w.rendered(head, p)); diff != "" {
			t.Errorf("manifests of %s (-known-good +now):\n%s", p.target, diff)
		}
	}
	w.runs(w.only("prod")[0], head)
}

// TestRollbackOfProtectedBranch goes by a pull request that says what is missing.
func TestRollbackOfProtectedBranch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, commonServer(t))
	w.apply(direct)
	good := w.pull()
	w.ends(w.start("direct-"+w.name, "v1.1.0"), promo.PhaseSucceeded)
	protect := api.ProtectRequest{Protected: true, RequiredReviews: 1}
	w.s.refused(t, developer, http.MethodPut, "/api/repositories/"+w.name+"/branches/main/protection", protect, http.StatusForbidden)
	w.s.must(t, admin, http.MethodPut, "/api/repositories/"+w.name+"/branches/main/protection", protect, nil)
	var r promo.Rollback
	w.s.must(t, manager, http.MethodPost, w.envPath("dev", "rollback"), api.RollbackRequest{Reason: "back"}, &r)
	r = w.rollbackReaches(r.ID, "waits for a review", func(r promo.Rollback) bool {
		if r.Phase.Final() {
			t.Fatalf("ended: %s", toJSON(r))
		}
		return strings.Contains(r.Message, "required approvals")
	})
	open := w.pulls("open")
	if len(open) != 1 || !strings.Contains(r.Message, "/"+strconv.Itoa(open[0].Number)) {
		t.Fatalf("pull requests %s; message %q", toJSON(open), r.Message)
	}
	w.s.must(t, admin, http.MethodPost, "/api/pull-requests/"+w.name+"/"+strconv.Itoa(open[0].Number)+"/review",
		api.ReviewRequest{State: "approved", Head: open[0].HeadSHA}, nil)
	w.rolledBack(r.ID, promo.PhaseSucceeded)
	head := w.pull()
	if diff := cmp.Diff(w.trees(good, "services/"+w.name+"/dev"), w.trees(head, "services/"+w.name+"/dev")); diff != "" {
		t.Errorf("owned paths (-known-good +now):\n%s", diff)
	}
	w.runs(w.only("dev")[0], head)
}

// TestFailureRollsBack ships a release with a bad error rate: verification catches it in the first wave.
func TestFailureRollsBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, commonServer(t))
	good := w.pull()
	w.apply(prodOnlyWithRollback)
	id := w.start("guarded-"+w.name, "v6.6.6")
	w.waits(id)
	w.approve(manager, id)
	p := w.ends(id, promo.PhaseFailed)
	if p.Rollback == "" || p.Error == nil || p.Error.Code != promo.CodeVerification {
		t.Fatalf("want a rollback after the verdict Verification: %s", describe(p))
	}
	r := w.rolledBack(p.Rollback, promo.PhaseSucceeded)
	if !r.Automatic || r.Promotion != id || r.To == "" {
		t.Errorf("rollback: %s", toJSON(r))
	}
	head := w.pull()
	for _, pl := range w.only("prod") {
		if diff := cmp.Diff(w.rendered(good, pl), w.rendered(head, pl)); diff != "" {
			t.Errorf("manifests of %s (-known-good +now):\n%s", pl.target, diff)
		}
		w.runs(pl, head)
	}
	if open := w.pulls("open"); len(open) > 0 {
		t.Errorf("pull requests left open: %s", toJSON(open))
	}
	var holds []promo.Hold
	w.s.must(t, developer, http.MethodGet, "/api/projects/default/holds", nil, &holds)
	if !slices.ContainsFunc(holds, func(h promo.Hold) bool {
		return h.Service == w.name && h.Environment == w.env("prod") && h.Reason != ""
	}) {
		t.Errorf("no hold with a reason: %s", toJSON(holds))
	}
}

// TestPin goes back to a commit that only a person knows to be good.
func TestPin(t *testing.T) {
	t.Parallel()
	w := newWorld(t, commonServer(t))
	w.apply(direct)
	w.ends(w.start("direct-"+w.name, "v1.1.0"), promo.PhaseSucceeded)
	one := w.pull()
	w.ends(w.start("direct-"+w.name, "v1.2.0"), promo.PhaseSucceeded)
	w.s.refused(t, manager, http.MethodPost, w.envPath("dev", "rollback"), api.RollbackRequest{To: strings.Repeat("0", 40)}, http.StatusConflict, "history")
	w.s.cli(t, "--as", manager, "pin", one, "--service", w.name, "--environment", w.env("dev")).says(t, 0, "pinned")
	if h := w.history("dev"); !slices.ContainsFunc(h, func(k promo.KnownGood) bool { return k.Commit == one && k.Pinned }) {
		t.Errorf("history: %s", toJSON(h))
	}
}
