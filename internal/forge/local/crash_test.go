package local_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/forge/local"
)

// dying is a store that dies at the nth save of a pull request, as a kill -9 would have it.
type dying struct {
	local.Store
	saves int
}

var errKilled = errors.New("killed")

func (d *dying) SavePullRequest(ctx context.Context, repository string, number int, state, head string, doc []byte) error {
	if d.saves--; d.saves < 0 {
		return errKilled
	}
	return d.Store.SavePullRequest(ctx, repository, number, state, head, doc)
}

// TestKilledMerge kills the forge at every save of a merge and opens it again. Whatever was done, exactly one merge
// comes of it.
func TestKilledMerge(t *testing.T) {
	t.Parallel()
	for _, method := range []string{forge.MethodMerge, forge.MethodSquash, forge.MethodRebase} {
		for saves := range 4 {
			t.Run(method+"/"+string(rune('0'+saves)), func(t *testing.T) {
				t.Parallel()
				w := start(t, nil)
				c := w.clone("ann")
				head := c.change("topic", "x.yaml", "x: 1\n", "first")
				pr := w.propose("topic")
				c.git("switch", "-q", "main")
				base := c.more("main", "y.yaml", "y: 1\n", "meanwhile")
				spec := forge.MergeSpec{Number: pr.Number, ExpectHead: head, Method: method, DeleteBranch: true}

				w.Stop()
				real := w.opts.Store
				w.opts.Store = &dying{real, saves}
				w.open()
				_, err := w.merge(spec)
				if (err != nil) != (saves < 3) {
					t.Fatalf("after %d saves: %v", saves, err)
				}
				if err != nil && !errors.Is(err, errKilled) {
					t.Fatal(err)
				}
				reached := w.inspect("rev-parse", "refs/heads/main")
				if (reached != base) != (saves >= 1) {
					t.Fatalf("main is at %s after %d saves, base %s", reached, saves, base)
				}

				w.Stop()
				w.opts.Store = real
				w.open()
				got, err := w.Get(t.Context(), "deploy", pr.Number)
				w.ok(err)
				if saves >= 1 && (got.State != forge.StateMerged || got.MergeSHA != reached || got.ClosedBy != "bob") {
					t.Fatalf("after the restart: %+v", got)
				}
				if saves == 0 && got.State != forge.StateOpen {
					t.Fatalf("after the restart: %+v", got)
				}
				got, err = w.merge(spec)
				w.ok(err)
				if got.State != forge.StateMerged || got.MergeSHA != w.head("main") || w.head("topic") != "" {
					t.Fatalf("merged again: %+v, branch %q", got, w.head("topic"))
				}
				if n := w.inspect("rev-list", "--count", "--first-parent", base+"..main"); n != "1" {
					t.Fatalf("%s commits on main, want one merge", n)
				}
			})
		}
	}
}

// TestKilledBeforeTheRef leaves an intent whose commit never reached the base.
func TestKilledBeforeTheRef(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.clone("ann")
	c.change("topic", "x.yaml", "x: 1\n", "first")
	pr := w.propose("topic")
	doc, err := w.store.PullRequest(t.Context(), "deploy", pr.Number)
	w.ok(err)
	text := strings.TrimSuffix(string(doc), "}") + `,"merging":{"result":"` + strings.Repeat("a", 40) + `","by":"bob","at":"2026-01-01T00:00:00Z"}}`
	w.ok(w.store.SavePullRequest(t.Context(), "deploy", pr.Number, forge.StateOpen, "topic", []byte(text)))
	w.Stop()
	w.open()
	got, err := w.Get(t.Context(), "deploy", pr.Number)
	w.ok(err)
	w.same("state", got.State, forge.StateOpen)
	_, err = w.merge(forge.MergeSpec{Number: pr.Number})
	w.ok(err)
}

// TestMissedPush moves refs behind the forge's back, as a kill between a push and its notice does.
func TestMissedPush(t *testing.T) {
	t.Parallel()
	w := start(t, &forge.Protection{RequiredReviews: 1, DismissStale: true})
	c := w.clone("ann")
	first := c.change("topic", "x.yaml", "x: 1\n", "first")
	pr := w.propose("topic")
	_, err := w.review(pr.Number, bob(), forge.ReviewApproved, first)
	w.ok(err)
	w.Stop()
	c.git("switch", "-q", "topic")
	c.git("commit", "-q", "--allow-empty", "-m", "second")
	c.git("push", "-q", w.Dir("deploy"), "topic")
	second := c.git("rev-parse", "HEAD")
	w.open()
	w.blocked(pr.Number, "0 of 1 required approvals")
	if e := w.event(forge.EventSynchronize); e.Before != first || e.After != second {
		t.Fatalf("event %+v", e)
	}
}

func TestRestart(t *testing.T) {
	t.Parallel()
	w := start(t, &forge.Protection{RequiredReviews: 1})
	c := w.clone("ann")
	first := c.change("topic", "x.yaml", "x: 1\n", "first")
	pr := w.propose("topic")
	_, err := w.review(pr.Number, bob(), forge.ReviewApproved, first)
	w.ok(err)
	w.ok(w.Comment(t.Context(), "deploy", pr.Number, bob(), "fine"))
	before, err := w.Details(t.Context(), "deploy", pr.Number)
	w.ok(err)
	w.Stop()
	w.open()
	after, err := w.Details(t.Context(), "deploy", pr.Number)
	w.ok(err)
	w.diff("after the restart", after, before)
	again, err := w.Create(t.Context(), local.CreateSpec{Name: "deploy", Seed: seed(), Author: bob()})
	w.ok(err)
	if again.Protection["main"].RequiredReviews != 1 {
		t.Fatalf("created again: %+v", again)
	}
}
