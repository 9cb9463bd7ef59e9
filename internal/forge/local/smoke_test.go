package local_test

import (
	"testing"

	"github.com/davit-cd/davit/internal/forge"
)

// TestPullRequest goes the whole way of one change.
func TestPullRequest(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.clone("ann")
	sha := c.change("release", "base/new.yaml", "x: 1\n", "Add new\n\nDavit-Operation: shop/checkout/1/dev.1/update/-")
	pr := w.propose("release")
	if pr.Number != 1 || pr.State != forge.StateOpen || pr.HeadSHA != sha || pr.BaseSHA != w.head("main") || !pr.Mergeable || pr.Checks != forge.ChecksNone {
		t.Fatalf("opened %+v", pr)
	}
	if again := w.propose("release"); again.Number != 1 {
		t.Fatalf("opened again as %d", again.Number)
	}
	spec := forge.MergeSpec{Repository: "deploy", Number: 1, ExpectHead: sha, DeleteBranch: true, By: bob()}
	merged, err := w.Merge(t.Context(), spec)
	w.ok(err)
	if merged.State != forge.StateMerged || merged.MergeSHA != w.head("main") || merged.ClosedBy != "bob" || w.head("release") != "" {
		t.Fatalf("merged %+v, branch %q", merged, w.head("release"))
	}
	if again, err := w.Merge(t.Context(), spec); err != nil || again.MergeSHA != merged.MergeSHA {
		t.Fatalf("merged again %+v: %v", again, err)
	}
	if again := w.propose("release"); again.Number != 1 || again.State != forge.StateMerged {
		t.Fatalf("found %+v after the merge", again)
	}
	if e := w.event(forge.EventMerged); e.Number != 1 || e.After != merged.MergeSHA || e.By != "bob" {
		t.Fatalf("event %+v", e)
	}
	c.git("fetch", "-q", "origin")
	if got := c.git("show", "origin/main:base/new.yaml"); got != "x: 1" {
		t.Fatalf("main has %q", got)
	}
}
