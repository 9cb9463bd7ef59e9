package sandbox

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/gitops/sandbox/gitsource"
	"github.com/davit-cd/davit/internal/promo"
)

// TestRun lets real time pass: nothing but the clock differs from the other tests.
func TestRun(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	commit := w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, "")})
	ms := time.Millisecond
	c, err := New(Options{Name: "us-east", Dir: t.TempDir(), Source: gitsource.New(), Timings: Timings{
		Pickup: ms, Apply: ms, Stale: ms, Rollout: 20 * ms, Save: ms,
	}})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	all, err := c.WatchAll(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Apply([]byte(manifest(w.bare, "app", automated))); err != nil {
		t.Fatal(err)
	}
	await := func(what string, is func(promo.Application) bool) {
		t.Helper()
		timeout := time.After(20 * time.Second)
		for {
			select {
			case a := <-all:
				if is(a) {
					return
				}
			case <-timeout:
				t.Fatalf("never %s", what)
			}
		}
	}
	await("deployed", func(a promo.Application) bool {
		return a.Revision == commit && a.Sync == promo.SyncSynced && a.Health == promo.HealthHealthy
	})
	two := w.commit(map[string]string{"app/d.yaml": workload("Deployment", "2.0.0", 2, "")})
	c.Notify("file://" + w.bare)
	await("updated", func(a promo.Application) bool {
		return a.Revision == two && a.Sync == promo.SyncSynced && a.Health == promo.HealthHealthy
	})
	cancel()
	if err := <-done; err != nil {
		t.Errorf("Run: %v", err)
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close: %v", err)
	}
	for range all { // ends, because Close ends all watches
	}
	if err := c.Close(); err != nil {
		t.Errorf("Close again: %v", err)
	}
}

func TestWatch(t *testing.T) {
	t.Parallel()
	w := newWorld(t, nil)
	w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, "")})
	ref := w.deployed("app", "")
	if _, err := w.Watch(t.Context(), promo.ApplicationRef{Name: "nope"}); promo.CodeOf(err) != promo.CodeNotFound {
		t.Errorf("got %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	in, err := w.Watch(ctx, promo.ApplicationRef{Namespace: "argocd", Name: "checkout"})
	if err != nil {
		t.Fatal(err)
	}
	if got := brief(<-in); got != "Synced Healthy" {
		t.Errorf("the present state comes first, got %s", got)
	}
	for i := range 3 * maxQueued { // a reader that sleeps
		w.mu.Lock()
		w.apps["argocd/checkout"].Status.URL = fmt.Sprint(i)
		w.publish(w.apps["argocd/checkout"])
		w.mu.Unlock()
	}
	count, last := 0, ""
	for last != fmt.Sprint(3*maxQueued-1) {
		last = (<-in).URL
		count++
	}
	if count > maxQueued+2 {
		t.Errorf("%d states were kept for a reader that sleeps", count)
	}
	cancel()
	for range in { // ends, because ctx did
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.watchers) > 0 {
		t.Errorf("%d watchers left", len(w.watchers))
	}
	_ = ref
}
