package sandbox

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
)

func TestFirstDeployment(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	commit := w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, ""), "app/s.yaml": service})
	ref := w.declare("app", "")
	if got := brief(w.get(ref)); got != "Unknown Unknown" {
		t.Errorf("before the first comparison: %s", got)
	}
	w.advance(time.Second)
	a := w.get(ref)
	if brief(a) != "OutOfSync Missing" || a.Revision != commit || a.LastOperation != nil {
		t.Errorf("without auto-sync nothing is deployed: %s at %s", brief(a), a.Revision)
	}
	w.sync(ref, "op-1", commit, promo.SyncOptions{})
	w.advance(500 * time.Millisecond)
	a = w.get(ref)
	want := "apps/Deployment shop/checkout: Waiting for rollout to finish: 0 of 2 updated replicas are available..."
	if brief(a) != "Synced Progressing" || a.HealthMessage != want {
		t.Errorf("while pods start: %s, %q", brief(a), a.HealthMessage)
	}
	w.advance(2 * time.Second)
	a = w.get(ref)
	if brief(a) != "Synced Healthy" || a.HealthMessage != "" {
		t.Errorf("in the end: %s %q", brief(a), a.HealthMessage)
	}
	if diff := cmp.Diff([]string{"example.com/checkout:1.0.0"}, a.Images); diff != "" {
		t.Error(diff)
	}
	if len(a.History) != 1 || a.History[0].ID != 0 || a.History[0].Revision != commit {
		t.Errorf("history %+v", a.History)
	}
	if diff := cmp.Diff(map[string]string{"davit.dev/promote": "shop/checkout/prod"}, a.Annotations); diff != "" {
		t.Errorf("annotations of others are left out: %s", diff)
	}
	if a.Cluster != "us-east" || a.Namespace != "argocd" || a.LastOperation.ID != "op-1" || a.LastOperation.InitiatedBy != "davit" {
		t.Errorf("got %+v", a)
	}
}

// TestEventOrder asserts the order seen on a real Argo CD: the three traps.
func TestEventOrder(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	one := w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, "")})
	ref := w.deployed("app", "")
	two := w.commit(map[string]string{"app/d.yaml": workload("Deployment", "2.0.0", 2, "")})
	names := map[string]string{one: "one", two: "two"}

	seen := w.events(ref)
	w.sync(ref, "op-2", two, promo.SyncOptions{})
	w.advance(10 * time.Second)
	want := []string{
		"Synced@one Healthy pending:two last:Succeeded@one", // 2: the last operation is the previous one
		"Synced@one Healthy last:Running@two",
		"Synced@one Healthy last:Succeeded@two", // 3: the new operation beside the old status
		"Synced@two Progressing last:Succeeded@two",
		"Synced@two Healthy last:Succeeded@two",
	}
	if diff := cmp.Diff(want, transcript(seen.until(w.get(ref)), names)); diff != "" {
		t.Errorf("sync to the target revision: -want +got\n%s", diff)
	}

	// 1: a sync to a revision other than the target's stays OutOfSync.
	w.sync(ref, "op-3", one, promo.SyncOptions{})
	w.advance(10 * time.Second)
	want = []string{
		"Synced@two Healthy pending:one last:Succeeded@two",
		"Synced@two Healthy last:Running@one",
		"Synced@two Healthy last:Succeeded@one",
		"OutOfSync@two Progressing last:Succeeded@one",
		"OutOfSync@two Healthy last:Succeeded@one",
	}
	if diff := cmp.Diff(want, transcript(seen.until(w.get(ref)), names)); diff != "" {
		t.Errorf("sync to another revision: -want +got\n%s", diff)
	}
	w.advance(10 * time.Minute)
	if got := brief(w.get(ref)); got != "OutOfSync Healthy" {
		t.Errorf("it stays OutOfSync for ever, got %s", got)
	}

	// A bad release passes through Healthy before it shows.
	bad := w.commit(map[string]string{"app/d.yaml": workload("Deployment", "3.0.0", 2, "davit.dev/sandbox-fail: crashloop")})
	names[bad] = "bad"
	w.Notify("file://" + w.bare)
	w.advance(time.Second)
	seen.until(w.get(ref))
	w.sync(ref, "op-4", bad, promo.SyncOptions{})
	w.advance(10 * time.Second)
	want = []string{
		"OutOfSync@bad Healthy pending:bad last:Succeeded@one",
		"OutOfSync@bad Healthy last:Running@bad",
		"OutOfSync@bad Healthy last:Succeeded@bad",
		"Synced@bad Progressing last:Succeeded@bad",
		"Synced@bad Degraded last:Succeeded@bad",
	}
	if diff := cmp.Diff(want, transcript(seen.until(w.get(ref)), names)); diff != "" {
		t.Errorf("bad release: -want +got\n%s", diff)
	}
}

func TestStatusIsOlderThanTheEndOfAnOperation(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, "")})
	ref := w.deployed("app", "")
	two := w.commit(map[string]string{"app/d.yaml": workload("Deployment", "2.0.0", 2, "")})
	seen := w.events(ref)
	w.sync(ref, "op-2", two, promo.SyncOptions{})
	w.advance(5 * time.Second)
	for _, a := range seen.until(w.get(ref)) {
		last := a.LastOperation
		if last.ID != "op-2" || last.Phase != promo.OperationSucceeded {
			continue
		}
		if fresh := a.ReconciledAt.After(last.FinishedAt); fresh != (a.Revision == two) {
			t.Errorf("reconciled at %s, finished at %s, yet revision is %s", a.ReconciledAt, last.FinishedAt, a.Revision)
		}
	}
}

func TestKustomizeOverlay(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	one := w.commit(map[string]string{
		"base/kustomization.yaml":          "resources: [d.yaml, s.yaml]\n",
		"base/d.yaml":                      workload("Deployment", "1.0.0", 1, ""),
		"base/s.yaml":                      service,
		"overlays/prod/kustomization.yaml": "resources: [../../base]\nimages: [{name: example.com/checkout, newTag: 1.1.0}]\nreplicas: [{name: checkout, count: 3}]\n",
	})
	ref := w.deployed("overlays/prod", "")
	if diff := cmp.Diff([]string{"example.com/checkout:1.1.0"}, w.get(ref).Images); diff != "" {
		t.Error(diff)
	}
	before, err := w.Manifests(t.Context(), ref, one)
	if err != nil {
		t.Fatal(err)
	}
	w.commit(map[string]string{"base/s.yaml": strings.Replace(service, "port: 80", "port: 81", 1)})
	w.Notify(w.bare) // not the URL the application names
	w.advance(time.Second)
	if got := w.get(ref).Sync; got != promo.SyncSynced {
		t.Errorf("noticed without notice: %s", got)
	}
	w.Notify("file://" + w.bare)
	w.advance(time.Second)
	a := w.get(ref)
	if a.Sync != promo.SyncOutOfSync {
		t.Errorf("a change of the base makes the overlay %s", a.Sync)
	}
	after, err := w.Manifests(t.Context(), ref, "")
	if err != nil || string(before) == string(after) || !strings.Contains(string(after), "port: 81") {
		t.Errorf("manifests at the target revision (%v):\n%s", err, after)
	}
	again, err := w.Manifests(t.Context(), ref, one)
	if err != nil || string(before) != string(again) {
		t.Errorf("manifests of one commit differ between two readings (%v)", err)
	}
}

func TestPollNoticesGit(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 1, "")})
	ref := w.deployed("app", "")
	two := w.commit(map[string]string{"app/d.yaml": workload("Deployment", "2.0.0", 1, "")})
	w.advance(61 * time.Second)
	if a := w.get(ref); a.Sync != promo.SyncOutOfSync || a.Revision != two {
		t.Errorf("got %s at %s", a.Sync, a.Revision)
	}
}

func TestFailuresOnDemand(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		kind, annotations string
		after             time.Duration
		want, message     string
	}{
		"crash": {
			kind: "Deployment", annotations: "davit.dev/sandbox-fail: crashloop", after: 10 * time.Second, want: "Synced Degraded",
			message: `apps/Deployment shop/checkout: Deployment "checkout" exceeded its progress deadline (CrashLoopBackOff: back-off restarting failed container)`,
		},
		"image": {
			kind: "Deployment", annotations: "davit.dev/sandbox-fail: image-pull", after: 10 * time.Second, want: "Synced Degraded",
			message: "ImagePullBackOff",
		},
		"hang": {
			kind: "Deployment", annotations: "davit.dev/sandbox-fail: hang", after: 10 * time.Second, want: "Synced Degraded",
			message: `Deployment "checkout" exceeded its progress deadline`,
		},
		"crash is Progressing first": {
			kind: "Deployment", annotations: "davit.dev/sandbox-fail: crashloop", after: 4 * time.Second, want: "Synced Progressing",
			message: "0 out of 4 new replicas have been updated",
		},
		"a StatefulSet has no deadline": {
			kind: "StatefulSet", annotations: "davit.dev/sandbox-fail: crashloop", after: time.Hour, want: "Synced Progressing",
			message: "Waiting for 4 pods to be ready...",
		},
		"slow start": {
			kind: "Deployment", annotations: "davit.dev/sandbox-start: 20s", after: 12 * time.Second, want: "Synced Progressing",
			message: "2 out of 4 new replicas have been updated",
		},
		"slow start ends": {kind: "Deployment", annotations: "davit.dev/sandbox-start: 20s", after: 21 * time.Second, want: "Synced Healthy"},
		"beyond its deadline": {
			kind: "Deployment", annotations: "davit.dev/sandbox-start: 55m", after: 11 * time.Minute, want: "Synced Degraded",
			message: "exceeded its progress deadline",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.commit(map[string]string{"app/d.yaml": workload(tc.kind, "1.0.0", 4, "")})
			ref := w.deployed("app", "")
			bad := w.commit(map[string]string{"app/d.yaml": workload(tc.kind, "2.0.0", 4, tc.annotations)})
			w.sync(ref, "bad", bad, promo.SyncOptions{})
			w.advance(tc.after)
			a := w.get(ref)
			if brief(a) != tc.want || !strings.Contains(a.HealthMessage, tc.message) {
				t.Errorf("got %s, %q", brief(a), a.HealthMessage)
			}
		})
	}
}

func TestRollbackOfAFailedRolloutIsFast(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	one := w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 4, "")})
	ref := w.deployed("app", "")
	bad := w.commit(map[string]string{"app/d.yaml": workload("Deployment", "2.0.0", 4, "davit.dev/sandbox-fail: crashloop")})
	w.sync(ref, "bad", bad, promo.SyncOptions{})
	w.advance(10 * time.Second)
	w.sync(ref, "back", one, promo.SyncOptions{})
	w.advance(400 * time.Millisecond) // less than a rollout: the old pods never went away
	if a := w.get(ref); a.Health != promo.HealthHealthy {
		t.Errorf("got %s, %q", a.Health, a.HealthMessage)
	}
}

func TestBadManifests(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		files map[string]string
		want  string
	}{
		"kustomize error": {map[string]string{"app/kustomization.yaml": "resources: [gone.yaml]\n"}, "gone.yaml"},
		"broken yaml":     {map[string]string{"app/d.yaml": "a: [\n"}, "app/d.yaml"},
		"path is gone":    {map[string]string{"app/d.yaml": "", "other/d.yaml": service}, "app path does not exist"},
		"remote base":     {map[string]string{"app/kustomization.yaml": "resources: ['https://example.com/x']\n"}, "not a path in the repository"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 1, "")})
			ref := w.deployed("app", "")
			bad := w.commit(tc.files)
			w.Notify("file://" + w.bare)
			w.advance(time.Second)
			a := w.get(ref)
			if a.Sync != promo.SyncUnknown || !strings.HasPrefix(a.HealthMessage, "ComparisonError: ") || !strings.Contains(a.HealthMessage, tc.want) {
				t.Errorf("got %s, %q", a.Sync, a.HealthMessage)
			}
			w.sync(ref, "bad", bad, promo.SyncOptions{})
			w.advance(time.Second)
			if last := w.get(ref).LastOperation; last.Phase != promo.OperationError || !strings.Contains(last.Message, tc.want) {
				t.Errorf("got %s, %q", last.Phase, last.Message)
			}
			if _, err := w.Diff(t.Context(), ref, bad); promo.CodeOf(err) != promo.CodeConfiguration {
				t.Errorf("diff: %v", err)
			}
			w.git("revert", "--no-edit", "HEAD")
			w.git("push", "-q", w.bare, "HEAD:main")
			if err := w.Refresh(t.Context(), ref, false); err != nil {
				t.Fatal(err)
			}
			w.advance(time.Second)
			if got := brief(w.get(ref)); got != "Synced Healthy" {
				t.Errorf("after the revert: %s", got)
			}
		})
	}
}
