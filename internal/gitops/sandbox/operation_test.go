package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/gitops/sandbox/gitsource"
	"github.com/davit-cd/davit/internal/promo"
)

func TestStartSyncOnce(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	one := w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, "")})
	ref := w.deployed("app", "")
	start := func(id string) error {
		return w.StartSync(t.Context(), ref, promo.SyncRequest{ID: id, Revision: one})
	}
	if err := start("a"); err != nil {
		t.Fatal(err)
	}
	for _, wait := range []time.Duration{0, 50 * time.Millisecond} { // pending, then under way
		w.advance(wait)
		if err := start("a"); err != nil {
			t.Errorf("the same id: %v", err)
		}
		if err := start("b"); promo.CodeOf(err) != promo.CodeConflict {
			t.Errorf("another id: got %v, want a conflict", err)
		}
	}
	w.advance(time.Second)
	if err := start("a"); err != nil || w.get(ref).PendingOperation != nil {
		t.Errorf("the same id once done: %v, %+v", err, w.get(ref).PendingOperation)
	}
	w.advance(time.Second)
	if got := len(w.get(ref).History); got != 2 {
		t.Errorf("%d syncs in the history, want the first and one more", got)
	}
	if err := w.StartSync(t.Context(), promo.ApplicationRef{Name: "nope"}, promo.SyncRequest{ID: "x"}); promo.CodeOf(err) != promo.CodeNotFound {
		t.Errorf("unknown application: %v", err)
	}
}

func TestSyncOptions(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason  string
		o       promo.SyncOptions
		phase   promo.OperationPhase
		message string
		images  string
		service string // the sync status of the Service
		history int
	}{
		"plain": {
			reason: "everything is applied", phase: promo.OperationSucceeded, message: "successfully synced (all tasks run)",
			images: "example.com/checkout:2.0.0", service: "Synced", history: 2,
		},
		"dry run": {
			reason: "nothing changes, nothing is remembered", o: promo.SyncOptions{DryRun: true}, phase: promo.OperationSucceeded,
			message: "successfully synced (dry run)", images: "example.com/checkout:1.0.0", service: "OutOfSync", history: 1,
		},
		"selected": {
			reason: "only what is named changes; a partial sync is no history", phase: promo.OperationSucceeded,
			o:       promo.SyncOptions{Resources: []promo.ResourceRef{theDeployment()}},
			message: "successfully synced", images: "example.com/checkout:2.0.0", service: "OutOfSync", history: 1,
		},
		"selected nothing": {
			reason: "a name that is not there is an error", phase: promo.OperationFailed,
			o:       promo.SyncOptions{Resources: []promo.ResourceRef{{Kind: "Pod", Name: "x"}}},
			message: "none of the selected resources", images: "example.com/checkout:1.0.0", service: "OutOfSync", history: 1,
		},
		"all others": {
			reason: "accepted, without an effect that shows", phase: promo.OperationSucceeded,
			o:       promo.SyncOptions{Force: true, Replace: true, ServerSideApply: true, ApplyOutOfSyncOnly: true, PrunePropagation: "foreground"},
			message: "successfully synced", images: "example.com/checkout:2.0.0", service: "Synced", history: 2,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, ""), "app/s.yaml": service})
			ref := w.deployed("app", "")
			two := w.commit(map[string]string{
				"app/d.yaml": workload("Deployment", "2.0.0", 2, ""), "app/s.yaml": strings.Replace(service, "port: 80", "port: 81", 1),
			})
			w.sync(ref, "x", two, tc.o)
			w.advance(5 * time.Second)
			a := w.get(ref)
			if a.LastOperation.Phase != tc.phase || !strings.Contains(a.LastOperation.Message, tc.message) {
				t.Errorf("%s: %s %q", tc.reason, a.LastOperation.Phase, a.LastOperation.Message)
			}
			var port string
			for _, r := range a.Resources {
				if r.Kind == "Service" {
					port = string(r.Sync)
				}
			}
			if strings.Join(a.Images, " ") != tc.images || port != tc.service || len(a.History) != tc.history {
				t.Errorf("%s: images %v, service %s, history %v", tc.reason, a.Images, port, a.History)
			}
		})
	}
}

func TestNamespaces(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit(map[string]string{"app/s.yaml": service})
	ref := w.declare("app", "")
	start := func(id string, o promo.SyncOptions) promo.Operation {
		if err := w.StartSync(t.Context(), ref, promo.SyncRequest{ID: id, Options: o}); err != nil {
			t.Fatal(err)
		}
		w.advance(time.Second)
		return *w.get(ref).LastOperation
	}
	if got := start("a", promo.SyncOptions{}); got.Phase != promo.OperationFailed || !strings.Contains(got.Message, `namespaces "shop" not found`) {
		t.Errorf("got %+v", got)
	}
	if got := start("b", promo.SyncOptions{CreateNamespace: true}); got.Phase != promo.OperationSucceeded {
		t.Errorf("got %+v", got)
	}
	if got := start("c", promo.SyncOptions{}); got.Phase != promo.OperationSucceeded {
		t.Errorf("the namespace stays: %+v", got)
	}
}

func TestRetryAndTerminate(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit(map[string]string{"app/s.yaml": service})
	ref := w.declare("app", "")
	w.advance(time.Second)
	if err := w.Terminate(t.Context(), ref); err != nil {
		t.Errorf("nothing to terminate is no error: %v", err)
	}
	o := promo.SyncOptions{RetryLimit: 3, RetryBackoff: 10 * time.Second, RetryFactor: 2, RetryMax: 15 * time.Second}
	if err := w.StartSync(t.Context(), ref, promo.SyncRequest{ID: "a", Options: o}); err != nil {
		t.Fatal(err)
	}
	w.advance(time.Second)
	if last := w.get(ref).LastOperation; last.Phase != promo.OperationRunning || !strings.Contains(last.Message, "Retrying attempt #1 at 12:00PM") {
		t.Errorf("got %+v", last)
	}
	w.advance(10 * time.Second)
	if last := w.get(ref).LastOperation; !strings.Contains(last.Message, "attempt #2") {
		t.Errorf("got %+v", last)
	}
	w.namespaces["shop"] = true // someone makes the namespace
	w.advance(15 * time.Second) // 20 s, but at most 15 s
	if last := w.get(ref).LastOperation; last.Phase != promo.OperationSucceeded {
		t.Errorf("got %+v", last)
	}

	two := w.commit(map[string]string{"app/s.yaml": strings.Replace(service, "port: 80", "port: 81", 1)})
	for name, wait := range map[string]time.Duration{"pending": 0, "under way": 100 * time.Millisecond} {
		w.sync(ref, name, two, promo.SyncOptions{})
		w.advance(wait)
		if err := w.Terminate(t.Context(), ref); err != nil {
			t.Fatal(err)
		}
		if got := w.get(ref).LastOperation.Phase; got != promo.OperationTerminating {
			t.Errorf("%s: %s", name, got)
		}
		w.advance(time.Second)
		a := w.get(ref)
		if last := a.LastOperation; last.ID != name || last.Phase != promo.OperationFailed || last.Message != "Operation terminated" || a.Sync != promo.SyncOutOfSync {
			t.Errorf("%s: %+v, %s", name, last, a.Sync)
		}
	}
}

func TestHistoryIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	one := w.commit(map[string]string{"app/s.yaml": service})
	ref := w.deployed("app", "  revisionHistoryLimit: 2\n")
	for _, id := range []string{"a", "b", "c"} {
		w.sync(ref, id, one, promo.SyncOptions{})
		w.advance(time.Second)
	}
	h := w.get(ref).History
	if len(h) != 2 || h[0].ID != 2 || h[1].ID != 3 {
		t.Errorf("got %+v", h)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, "")})
	ref := w.deployed("app", "")
	two := w.commit(map[string]string{"app/d.yaml": workload("Deployment", "2.0.0", 2, "")})
	before := w.get(ref)

	w.sync(ref, "op-2", two, promo.SyncOptions{})
	w.open(nil) // as after kill -9: the old cluster was neither closed nor run on
	if got := w.get(ref).PendingOperation; got == nil || got.ID != "op-2" {
		t.Fatalf("an accepted request is lost: %+v", got)
	}
	if diff := cmp.Diff(before.History, w.get(ref).History); diff != "" {
		t.Error(diff)
	}
	w.advance(100 * time.Millisecond)
	w.advance(200 * time.Millisecond) // saved while running
	w.open(nil)
	w.advance(300 * time.Millisecond)
	if last := w.get(ref).LastOperation; last.ID != "op-2" || last.Phase != promo.OperationSucceeded {
		t.Errorf("the operation goes on: %+v", last)
	}
	w.open(nil) // in the middle of the rollout
	w.advance(300 * time.Millisecond)
	if got := brief(w.get(ref)); got != "Synced Progressing" {
		t.Errorf("the rollout goes on: %s", got)
	}
	w.advance(5 * time.Second)
	if got := brief(w.get(ref)); got != "Synced Healthy" || len(w.get(ref).History) != 2 {
		t.Errorf("in the end: %s %+v", got, w.get(ref).History)
	}
	w.edit(ref, LiveEdit{Resource: theDeployment(), Replicas: new(9)})
	w.open(nil)
	w.advance(5 * time.Second)
	if got := brief(w.get(ref)); got != "OutOfSync Healthy" {
		t.Errorf("an edit survives: %s", got)
	}
}

func TestBrokenState(t *testing.T) {
	t.Parallel()
	for name, text := range map[string]string{"not JSON": "{", "a later version": `{"version": 99}`} {
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "c.json"), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := New(Options{Name: "c", Dir: dir, Source: gitsource.New()}); err == nil || !strings.Contains(err.Error(), "c.json") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, ""), "other/s.yaml": service})
	ref := w.deployed("app", "")
	before := w.get(ref)
	w.declare("app", "")
	w.advance(time.Second)
	if diff := cmp.Diff(before, w.get(ref)); diff != "" {
		t.Errorf("applying the same again changed something: %s", diff)
	}
	w.declare("other", automated)
	w.advance(5 * time.Second)
	a := w.get(ref)
	if a.Path != "other" || !a.AutoSync || a.Sync != promo.SyncOutOfSync || len(a.Resources) != 2 || !a.Resources[1].RequiresPruning {
		t.Errorf("a changed manifest: %+v", a)
	}
	elsewhere := strings.Replace(manifest(w.bare, "app", ""), "name: us-east", "name: eu-west", 1)
	if err := w.Apply([]byte(elsewhere)); err == nil || !strings.Contains(err.Error(), `line 9: spec.destination of "checkout" is not cluster "us-east"`) {
		t.Errorf("another cluster's application: %v", err)
	}
	if err := w.Apply([]byte("kind: Pod")); promo.CodeOf(err) != promo.CodeConfiguration {
		t.Errorf("got %v", err)
	}
	if apps, err := w.Applications(t.Context()); err != nil || len(apps) != 1 {
		t.Errorf("got %v, %v", apps, err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	for name, o := range map[string]Options{
		"no name":   {Dir: t.TempDir(), Source: gitsource.New()},
		"a path":    {Name: "../x", Dir: t.TempDir(), Source: gitsource.New()},
		"no source": {Name: "a", Dir: t.TempDir()},
		"no dir":    {Name: "a", Source: gitsource.New()},
	} {
		if _, err := New(o); promo.CodeOf(err) != promo.CodeConfiguration {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// flaky is a source that can be switched off.
type flaky struct {
	GitSource
	mu   sync.Mutex
	down bool
}

func (f *flaky) set(down bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.down = down
}

func (f *flaky) Resolve(ctx context.Context, repo, revision string) (string, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.down {
		return "", errors.New("connection refused")
	}
	return f.GitSource.Resolve(ctx, repo, revision)
}

func (f *flaky) Tree(ctx context.Context, repo, commit string) (fs.FS, error) {
	return f.GitSource.Tree(ctx, repo, commit)
}

func TestGitIsAway(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	source := &flaky{GitSource: gitsource.New()}
	w.source = source
	one := w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, "")})
	ref := w.deployed("app", "")
	source.set(true)
	if err := w.Refresh(t.Context(), ref, true); err != nil {
		t.Fatal(err)
	}
	w.advance(time.Second)
	a := w.get(ref)
	if brief(a) != "Unknown Healthy" || a.Revision != one || !strings.Contains(a.HealthMessage, "connection refused") {
		t.Errorf("got %s at %s: %s", brief(a), a.Revision, a.HealthMessage)
	}
	if _, err := w.Manifests(t.Context(), ref, ""); promo.CodeOf(err) != promo.CodeConnectivity {
		t.Errorf("got %v", err)
	}
	w.sync(ref, "a", one, promo.SyncOptions{RetryLimit: 1, RetryBackoff: time.Second})
	w.advance(500 * time.Millisecond)
	source.set(false)
	w.advance(5 * time.Second)
	a = w.get(ref)
	if brief(a) != "Synced Healthy" || a.LastOperation.Phase != promo.OperationSucceeded {
		t.Errorf("got %s, %+v", brief(a), a.LastOperation)
	}
}

func TestSyncWaves(t *testing.T) {
	t.Parallel()
	waved := func(name string, wave, annotations string) string {
		return strings.NewReplacer("metadata: {name: checkout}", "metadata: {name: "+name+", annotations: {argocd.argoproj.io/sync-wave: \""+wave+"\"}}").
			Replace(workload("Deployment", "1.0.0", 1, annotations))
	}
	w := newWorld(t, nil)
	w.commit(map[string]string{"app/a.yaml": waved("first", "-1", ""), "app/b.yaml": waved("second", "5", "")})
	ref := w.declare("app", "")
	w.advance(time.Second)
	w.sync(ref, "good", "", promo.SyncOptions{})
	health := func() (string, string) {
		r := w.get(ref).Resources
		return string(r[0].Health), string(r[1].Health)
	}
	for _, step := range []struct {
		after         time.Duration
		first, second string
		phase         promo.OperationPhase
	}{
		{time.Second, "Progressing", "Missing", promo.OperationRunning},
		{1500 * time.Millisecond, "Healthy", "Progressing", promo.OperationRunning},
		{2 * time.Second, "Healthy", "Healthy", promo.OperationSucceeded},
	} {
		w.advance(step.after)
		first, second := health()
		if last := w.get(ref).LastOperation; first != step.first || second != step.second || last.Phase != step.phase {
			t.Errorf("got %s, %s, %+v, want %+v", first, second, last, step)
		}
	}
	w.commit(map[string]string{"app/a.yaml": waved("first", "-1", "davit.dev/sandbox-fail: hang"), "app/b.yaml": waved("second", "5", "davit.dev/sandbox-start: 1m")})
	w.sync(ref, "bad", "", promo.SyncOptions{})
	w.advance(10 * time.Second)
	last := w.get(ref).LastOperation
	if last.Phase != promo.OperationFailed || !strings.Contains(last.Message, `Deployment "first" exceeded its progress deadline`) {
		t.Errorf("a wave that fails ends the operation: %+v", last)
	}
	if _, second := health(); second != "Healthy" {
		t.Errorf("the next wave was not written, yet it is %s", second)
	}
}

func TestARequestThatCannotBeSavedIsRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	one := w.commit(map[string]string{"app/s.yaml": service})
	ref := w.deployed("app", "")
	if err := os.Mkdir(filepath.Join(w.dir, "us-east.json.new"), 0o700); err != nil { // stands in the way, as a full disk would
		t.Fatal(err)
	}
	err := w.StartSync(t.Context(), ref, promo.SyncRequest{ID: "x", Revision: one})
	if err == nil || w.get(ref).PendingOperation != nil {
		t.Errorf("got %v, %+v", err, w.get(ref).PendingOperation)
	}
	if err := os.Remove(filepath.Join(w.dir, "us-east.json.new")); err != nil {
		t.Fatal(err)
	}
	w.sync(ref, "x", one, promo.SyncOptions{})
	w.advance(time.Second)
	if last := w.get(ref).LastOperation; last.ID != "x" || last.Phase != promo.OperationSucceeded {
		t.Errorf("got %+v", last)
	}
}
