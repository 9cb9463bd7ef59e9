package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/gitops/sandbox/gitsource"
	"github.com/davit-cd/davit/internal/gitops/sandbox/prom"
	"github.com/davit-cd/davit/internal/promo"
)

// manualClock moves only when told.
type manualClock struct {
	mu  sync.Mutex
	now time.Time
}

func (c *manualClock) Now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *manualClock) After(time.Duration) <-chan time.Time { return nil }

func (c *manualClock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now = c.now.Add(d)
}

// world is a bare repository made with the git program and a cluster whose time the test moves.
type world struct {
	*Cluster
	t     *testing.T
	clock *manualClock
	dir   string // of the cluster's state
	work  string // a clone to commit from
	bare  string
}

func newWorld(t *testing.T, metrics *prom.DB) *world {
	t.Helper()
	w := &world{t: t, clock: &manualClock{now: time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)}, dir: t.TempDir(), work: t.TempDir()}
	w.bare = filepath.Join(t.TempDir(), "deploy.git")
	w.git("init", "-q", "-b", "main")
	w.git("init", "-q", "--bare", "-b", "main", w.bare)
	w.open(metrics)
	return w
}

func (w *world) open(metrics *prom.DB) {
	w.t.Helper()
	c, err := New(Options{Name: "us-east", Dir: w.dir, Source: gitsource.New(), Clock: w.clock, Metrics: metrics})
	if err != nil {
		w.t.Fatal(err)
	}
	w.Cluster = c
	w.t.Cleanup(func() { _ = c.Close() })
}

func (w *world) git(args ...string) string {
	w.t.Helper()
	cmd := exec.CommandContext(w.t.Context(), "git", args...)
	cmd.Dir = w.work
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
		"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
	out, err := cmd.CombinedOutput()
	if err != nil {
		w.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return strings.TrimSpace(string(out))
}

// commit writes files (an empty text deletes), pushes them to main and returns the commit.
func (w *world) commit(files map[string]string) string {
	w.t.Helper()
	for name, text := range files {
		full := filepath.Join(w.work, name)
		if text == "" {
			w.git("rm", "-q", name)
			continue
		}
		if err := os.MkdirAll(filepath.Dir(full), 0o750); err != nil {
			w.t.Fatal(err)
		}
		if err := os.WriteFile(full, []byte(text), 0o600); err != nil {
			w.t.Fatal(err)
		}
	}
	w.git("add", "-A")
	w.git("commit", "-qm", "change")
	w.git("push", "-q", w.bare, "HEAD:main")
	return w.git("rev-parse", "HEAD")
}

// declare applies an Application "checkout" with more lines of spec.
func (w *world) declare(path, more string) promo.ApplicationRef {
	w.t.Helper()
	if err := w.Apply([]byte(manifest(w.bare, path, more))); err != nil {
		w.t.Fatal(err)
	}
	return promo.ApplicationRef{Name: "checkout"}
}

func manifest(repo, path, more string) string {
	return fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: checkout
  labels: {davit.dev/environment: prod}
  annotations: {davit.dev/promote: shop/checkout/prod, example.com/other: x}
spec:
  source: {repoURL: %q, path: %s, targetRevision: main}
  destination: {name: us-east, namespace: shop}
%s`, "file://"+repo, path, more)
}

// advance moves time, stopping at each planned task.
func (w *world) advance(d time.Duration) {
	w.t.Helper()
	for d > 0 {
		wait := min(w.runDue(w.t.Context()), d)
		w.clock.add(wait)
		d -= wait
	}
	w.runDue(w.t.Context())
}

func (w *world) get(ref promo.ApplicationRef) promo.Application {
	w.t.Helper()
	a, err := w.Get(w.t.Context(), ref)
	if err != nil {
		w.t.Fatal(err)
	}
	return a
}

func (w *world) sync(ref promo.ApplicationRef, id, revision string, o promo.SyncOptions) {
	w.t.Helper()
	o.CreateNamespace = true
	if err := w.StartSync(w.t.Context(), ref, promo.SyncRequest{ID: id, Revision: revision, InitiatedBy: "davit", Options: o}); err != nil {
		w.t.Fatal(err)
	}
}

// deployed brings a fresh application at path to main, synced and healthy.
func (w *world) deployed(path, more string) promo.ApplicationRef {
	w.t.Helper()
	ref := w.declare(path, more)
	w.advance(time.Second)
	if w.get(ref).LastOperation == nil {
		w.sync(ref, "first", "main", promo.SyncOptions{})
	}
	w.advance(5 * time.Second)
	if got := brief(w.get(ref)); got != "Synced Healthy" {
		w.t.Fatalf("first deployment is %s: %s", got, w.get(ref).HealthMessage)
	}
	return ref
}

func brief(a promo.Application) string { return string(a.Sync) + " " + string(a.Health) }

// events returns the states that were sent since the last call, up to the present one.
type events struct {
	w   *world
	ref promo.ApplicationRef
	in  <-chan promo.Application
}

func (w *world) events(ref promo.ApplicationRef) *events {
	w.t.Helper()
	in, err := w.Watch(w.t.Context(), ref)
	if err != nil {
		w.t.Fatal(err)
	}
	<-in // the present state
	return &events{w: w, ref: ref, in: in}
}

func (e *events) until(now promo.Application) []promo.Application {
	e.w.t.Helper()
	var out []promo.Application
	timeout := time.After(10 * time.Second)
	for {
		select {
		case a, open := <-e.in:
			if !open {
				e.w.t.Fatal("the watch ended")
			}
			if out = append(out, a); cmp.Equal(a, now) {
				return out
			}
		case <-timeout:
			e.w.t.Fatalf("the last state was never sent; got %d states", len(out))
		}
	}
}

// transcript writes states as short lines and leaves out repetitions.
func transcript(states []promo.Application, names map[string]string) []string {
	name := func(revision string) string {
		if n, ok := names[revision]; ok {
			return n
		}
		return revision
	}
	var out []string
	for _, a := range states {
		line := fmt.Sprintf("%s@%s %s", a.Sync, name(a.Revision), a.Health)
		if a.PendingOperation != nil {
			line += " pending:" + name(a.PendingOperation.Revision)
		}
		if a.LastOperation != nil {
			line += fmt.Sprintf(" last:%s@%s", a.LastOperation.Phase, name(a.LastOperation.Revision))
		}
		if len(out) == 0 || out[len(out)-1] != line {
			out = append(out, line)
		}
	}
	return out
}

// workload is a Deployment with a pod template's annotations.
func workload(kind, image string, replicas int, annotations string) string {
	return fmt.Sprintf(`apiVersion: apps/v1
kind: %s
metadata: {name: checkout}
spec:
  replicas: %d
  selector: {matchLabels: {app: checkout}}
  template:
    metadata: {labels: {app: checkout}, annotations: {%s}}
    spec:
      containers:
        - {name: app, image: "example.com/checkout:%s"}
`, kind, replicas, annotations, image)
}

const service = "apiVersion: v1\nkind: Service\nmetadata: {name: checkout}\nspec: {ports: [{port: 80}]}\n"
