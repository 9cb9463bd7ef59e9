// Package forgetest is the suite that every forge passes: what package forge promises, asked of a real server. It
// knows nothing of how a forge works. Start reading at Run.
package forgetest

import (
	"context"
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/promo"
)

// Forge is what is asked of a forge.
type Forge interface {
	Open(ctx context.Context, spec forge.Spec) (forge.PullRequest, error)
	Get(ctx context.Context, repository string, number int) (forge.PullRequest, error)
	Merge(ctx context.Context, spec forge.MergeSpec) (forge.PullRequest, error)
	Close(ctx context.Context, repository string, number int, comment string) error
}

// World is a forge with an empty-handed repository whose branch main holds the file "app.yaml" ("a: 1\n").
type World struct {
	Forge      Forge
	Repository string
	// Commit makes a commit on a branch, from main if it is new, and returns it.
	Commit func(t *testing.T, branch, file, content string) string
	// Head returns a branch's head, "" where there is none.
	Head func(t *testing.T, branch string) string
	// Author opens, By merges.
	Author, By promo.Principal
}

// Run runs the suite; make gives each test a world of its own.
func Run(t *testing.T, newWorld func(t *testing.T) World) {
	t.Helper()
	for name, test := range map[string]func(t *testing.T, w World){
		"open finds what it opened":             testOpenTwice,
		"open finds what is merged":             testOpenMerged,
		"open says what is missing":             testOpenMissing,
		"merge takes only the expected head":    testExpectedHead,
		"merge again at that head succeeds":     testMergeTwice,
		"merge refuses a conflict":              testConflict,
		"squash leaves one commit's tree":       testSquash,
		"close again does nothing":              testClose,
		"a push moves the head":                 testPush,
		"a pull request that is not there":      testMissing,
		"the branch goes when it was asked for": testDeleteBranch,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newWorld(t))
		})
	}
}

func (w World) open(t *testing.T, head string) forge.PullRequest {
	t.Helper()
	pr, err := w.Forge.Open(t.Context(), forge.Spec{Repository: w.Repository, Head: head, Base: "main", Title: "Change " + head, Author: w.Author})
	if err != nil {
		t.Fatal(err)
	}
	return pr
}

func (w World) get(t *testing.T, number int) forge.PullRequest {
	t.Helper()
	pr, err := w.Forge.Get(t.Context(), w.Repository, number)
	if err != nil {
		t.Fatal(err)
	}
	return pr
}

func (w World) merge(t *testing.T, number int, head string) (forge.PullRequest, error) {
	t.Helper()
	return w.Forge.Merge(t.Context(), forge.MergeSpec{Repository: w.Repository, Number: number, ExpectHead: head, Method: forge.MethodMerge, By: w.By})
}

func want(t *testing.T, err error, code promo.Code, words ...string) {
	t.Helper()
	if err == nil || promo.CodeOf(err) != code {
		t.Fatalf("error %v, want code %s", err, code)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			t.Fatalf("error %q does not say %q", err, word)
		}
	}
}

func testOpenTwice(t *testing.T, w World) {
	base, head := w.Head(t, "main"), w.Commit(t, "topic", "x.yaml", "x: 1\n")
	pr := w.open(t, "topic")
	if pr.State != forge.StateOpen || pr.Head != "topic" || pr.HeadSHA != head || pr.Base != "main" || pr.BaseSHA != base || pr.URL == "" || !pr.Mergeable {
		t.Fatalf("opened %+v", pr)
	}
	if again := w.open(t, "topic"); again.Number != pr.Number {
		t.Fatalf("opened as %d and again as %d", pr.Number, again.Number)
	}
}

func testOpenMerged(t *testing.T, w World) {
	head := w.Commit(t, "topic", "x.yaml", "x: 1\n")
	pr := w.open(t, "topic")
	if _, err := w.merge(t, pr.Number, head); err != nil {
		t.Fatal(err)
	}
	if again := w.open(t, "topic"); again.Number != pr.Number || again.State != forge.StateMerged || again.MergeSHA == "" {
		t.Fatalf("after the merge: %+v", again)
	}
	w.Commit(t, "topic", "x.yaml", "x: 2\n")
	if next := w.open(t, "topic"); next.Number == pr.Number || next.State != forge.StateOpen {
		t.Fatalf("new commits on a merged branch: %+v", next)
	}
}

func testOpenMissing(t *testing.T, w World) {
	_, err := w.Forge.Open(t.Context(), forge.Spec{Repository: w.Repository, Head: "nope", Base: "main", Title: "T", Author: w.Author})
	want(t, err, promo.CodeNotFound, "nope")
}

func testExpectedHead(t *testing.T, w World) {
	first := w.Commit(t, "topic", "x.yaml", "x: 1\n")
	pr := w.open(t, "topic")
	second := w.Commit(t, "topic", "x.yaml", "x: 2\n")
	before := w.Head(t, "main")
	_, err := w.merge(t, pr.Number, first)
	want(t, err, promo.CodeConflict, first, second)
	if w.Head(t, "main") != before {
		t.Fatal("a refused merge moved the base")
	}
	if _, err := w.merge(t, pr.Number, second); err != nil {
		t.Fatal(err)
	}
}

func testMergeTwice(t *testing.T, w World) {
	head := w.Commit(t, "topic", "x.yaml", "x: 1\n")
	pr := w.open(t, "topic")
	merged, err := w.merge(t, pr.Number, head)
	if err != nil || merged.State != forge.StateMerged || merged.MergeSHA != w.Head(t, "main") || merged.MergedAt.IsZero() {
		t.Fatalf("merged %+v: %v", merged, err)
	}
	again, err := w.merge(t, pr.Number, head)
	if err != nil || again.MergeSHA != merged.MergeSHA {
		t.Fatalf("again %+v: %v", again, err)
	}
	_, err = w.merge(t, pr.Number, strings.Repeat("1", len(head)))
	want(t, err, promo.CodeConflict, head)
}

func testConflict(t *testing.T, w World) {
	head := w.Commit(t, "topic", "app.yaml", "a: 2\n")
	pr := w.open(t, "topic")
	w.Commit(t, "main", "app.yaml", "a: 3\n")
	if got := w.get(t, pr.Number); !got.Conflicts || got.Mergeable {
		t.Fatalf("%+v, want a conflict", got)
	}
	_, err := w.merge(t, pr.Number, head)
	want(t, err, promo.CodeConflict)
}

func testSquash(t *testing.T, w World) {
	w.Commit(t, "topic", "x.yaml", "x: 1\n")
	head := w.Commit(t, "topic", "x.yaml", "x: 2\n")
	pr := w.open(t, "topic")
	merged, err := w.Forge.Merge(t.Context(), forge.MergeSpec{
		Repository: w.Repository, Number: pr.Number, ExpectHead: head, Method: forge.MethodSquash, Message: "One\n\nDavit-Operation: op", By: w.By,
	})
	if err != nil || merged.MergeSHA != w.Head(t, "main") || merged.MergeSHA == head {
		t.Fatalf("squashed %+v: %v", merged, err)
	}
}

func testClose(t *testing.T, w World) {
	head := w.Commit(t, "topic", "x.yaml", "x: 1\n")
	pr := w.open(t, "topic")
	for range 2 {
		if err := w.Forge.Close(t.Context(), w.Repository, pr.Number, "not now"); err != nil {
			t.Fatal(err)
		}
	}
	if got := w.get(t, pr.Number); got.State != forge.StateClosed {
		t.Fatalf("closed %+v", got)
	}
	_, err := w.merge(t, pr.Number, head)
	want(t, err, promo.CodeConflict)
}

func testPush(t *testing.T, w World) {
	w.Commit(t, "topic", "x.yaml", "x: 1\n")
	pr := w.open(t, "topic")
	second := w.Commit(t, "topic", "x.yaml", "x: 2\n")
	if got := w.get(t, pr.Number); got.HeadSHA != second || got.State != forge.StateOpen {
		t.Fatalf("after the push: %+v", got)
	}
}

func testMissing(t *testing.T, w World) {
	_, err := w.Forge.Get(t.Context(), w.Repository, 4711)
	want(t, err, promo.CodeNotFound)
	_, err = w.merge(t, 4711, "")
	want(t, err, promo.CodeNotFound)
	want(t, w.Forge.Close(t.Context(), w.Repository, 4711, ""), promo.CodeNotFound)
}

func testDeleteBranch(t *testing.T, w World) {
	head := w.Commit(t, "topic", "x.yaml", "x: 1\n")
	pr := w.open(t, "topic")
	spec := forge.MergeSpec{Repository: w.Repository, Number: pr.Number, ExpectHead: head, Method: forge.MethodMerge, DeleteBranch: true, By: w.By}
	for range 2 {
		if got, err := w.Forge.Merge(t.Context(), spec); err != nil || got.HeadSHA != head {
			t.Fatalf("merged %+v: %v", got, err)
		}
	}
	if w.Head(t, "topic") != "" {
		t.Fatal("the branch is still there")
	}
}
