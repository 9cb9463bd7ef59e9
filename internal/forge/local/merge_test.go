package local_test

import (
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/promo"
)

func (w *world) merge(spec forge.MergeSpec) (forge.PullRequest, error) {
	w.t.Helper()
	spec.Repository = "deploy"
	if spec.By.Name == "" {
		spec.By = bob()
	}
	return w.Merge(w.t.Context(), spec)
}

const appYAML = "a: 1\nb: 2\nc: 3\nd: 4\ne: 5\nf: 6\ng: 7\nh: 8\ni: 9\n"

func TestMergeMethods(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason string
		method string
		// commits added to main by the merge, first-parent and all
		first, all int
		check      func(w *world, pr forge.PullRequest, base string)
	}{
		"merge": {
			reason: "a commit with base and head as parents", method: forge.MethodMerge, first: 1, all: 3,
			check: func(w *world, pr forge.PullRequest, base string) {
				w.same("parents", w.inspect("log", "-1", "--format=%P", "main"), base+" "+pr.HeadSHA)
				w.same("author", w.inspect("log", "-1", "--format=%an <%ae>", "main"), "bob <bob@example.com>")
				w.same("trailer", w.inspect("log", "-1", "--format=%(trailers:key=Davit-Pull-Request,valueonly)", "main"), "1")
			},
		},
		"squash": {
			reason: "one commit on the base by the author, committed by who merged", method: forge.MethodSquash, first: 1, all: 1,
			check: func(w *world, _ forge.PullRequest, base string) {
				w.same("parents", w.inspect("log", "-1", "--format=%P", "main"), base)
				w.same("people", w.inspect("log", "-1", "--format=%an %cn", "main"), "ann bob")
				w.same("subject", w.inspect("log", "-1", "--format=%s", "main"), "Change topic (#1)")
			},
		},
		"rebase": {
			reason: "the same commits on the new base", method: forge.MethodRebase, first: 2, all: 2,
			check: func(w *world, pr forge.PullRequest, base string) {
				w.same("subjects", w.inspect("log", "--format=%s %an %cn", base+"..main"), "second ann bob\nfirst ann bob")
				w.same("author's date", w.inspect("log", "-1", "--format=%ad", "main"), w.inspect("log", "-1", "--format=%ad", pr.HeadSHA))
				w.same("bottom", w.inspect("log", "-1", "--format=%P", "main~1"), base)
			},
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := start(t, nil)
			c := w.clone("ann")
			c.change("topic", "base/app.yaml", strings.Replace(appYAML, "a: 1", "a: 10", 1), "first")
			head := c.change("topic", "topic.yaml", "new: 1\n", "second")
			pr := w.propose("topic")
			// Main goes on elsewhere in the same file.
			c.git("switch", "-q", "main")
			base := c.more("main", "base/app.yaml", strings.Replace(appYAML, "i: 9", "i: 90", 1), "meanwhile")
			merged, err := w.merge(forge.MergeSpec{Number: pr.Number, ExpectHead: head, Method: tc.method})
			w.ok(err)
			w.same("merge", merged.MergeSHA, w.head("main"))
			want := strings.Replace(strings.Replace(appYAML, "a: 1", "a: 10", 1), "i: 9", "i: 90", 1)
			w.same("tree", w.inspect("show", "main:base/app.yaml"), strings.TrimSpace(want))
			w.same("files", w.inspect("diff", "--name-only", base, "main"), "base/app.yaml\ntopic.yaml")
			w.same("first parents", w.inspect("rev-list", "--first-parent", "--count", base+"..main"), fmt.Sprint(tc.first))
			w.same("commits", w.inspect("rev-list", "--count", base+"..main"), fmt.Sprint(tc.all))
			tc.check(w, merged, base)
			w.same("branch stays", w.head("topic"), head)
			w.inspect("fsck", "--strict", "--no-dangling")
		})
	}
}

func (w *world) same(what, got, want string) {
	w.t.Helper()
	if got != want {
		w.t.Fatalf("%s: %q, want %q", what, got, want)
	}
}

func TestRebaseOfWhatIsAhead(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	head := w.clone("ann").change("topic", "x.yaml", "x: 1\n", "first")
	pr := w.propose("topic")
	merged, err := w.merge(forge.MergeSpec{Number: pr.Number, Method: forge.MethodRebase})
	w.ok(err)
	w.same("merge", merged.MergeSHA, head)
	w.same("main", w.head("main"), head)
}

func TestMessages(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.clone("ann").change("topic", "x.yaml", "x: 1\n", "first")
	pr := w.propose("topic")
	_, err := w.merge(forge.MergeSpec{Number: pr.Number, Message: "Release v2\n\nDavit-Operation: a/b/1/dev.1/merge/-"})
	w.ok(err)
	w.same("message", w.inspect("log", "-1", "--format=%B", "main"), "Release v2\n\nDavit-Operation: a/b/1/dev.1/merge/-\nDavit-Pull-Request: 1")
}

func TestConflict(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.clone("ann")
	c.change("topic", "base/app.yaml", strings.Replace(appYAML, "a: 1", "a: 10", 1), "mine")
	pr := w.propose("topic")
	c.git("switch", "-q", "main")
	before := c.more("main", "base/app.yaml", strings.Replace(appYAML, "a: 1", "a: 11", 1), "theirs")
	got, err := w.Get(t.Context(), "deploy", pr.Number)
	w.ok(err)
	if !got.Conflicts || got.Mergeable {
		t.Fatalf("%+v, want a conflict", got)
	}
	for _, method := range []string{forge.MethodMerge, forge.MethodSquash, forge.MethodRebase} {
		_, err = w.merge(forge.MergeSpec{Number: pr.Number, Method: method})
		w.code(err, promo.CodeConflict, "conflicts")
	}
	w.same("main", w.head("main"), before)
	// Made anew on the new head by force, it merges.
	c.git("switch", "-q", "-C", "topic", "origin/main")
	c.git("commit", "-q", "--allow-empty", "-m", "anew")
	c.git("push", "-q", "-f", "origin", "topic")
	if got, err = w.Get(t.Context(), "deploy", pr.Number); err != nil || got.Conflicts || !got.Mergeable {
		t.Fatalf("%+v: %v", got, err)
	}
}

func TestRebaseConflictInTheMiddle(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.clone("ann")
	c.change("topic", "base/app.yaml", strings.Replace(appYAML, "a: 1", "a: 10", 1), "there")
	c.change("topic", "base/app.yaml", appYAML, "and back")
	c.change("topic", "x.yaml", "x: 1\n", "something")
	pr := w.propose("topic")
	c.git("switch", "-q", "main")
	c.more("main", "base/app.yaml", strings.Replace(appYAML, "a: 1", "a: 11", 1), "theirs")
	_, err := w.merge(forge.MergeSpec{Number: pr.Number, Method: forge.MethodRebase})
	w.code(err, promo.CodeConflict, "conflicts with branch")
	_, err = w.merge(forge.MergeSpec{Number: pr.Number, Method: forge.MethodSquash})
	w.ok(err)
}

func TestMergeAtAnotherHead(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.clone("ann")
	first := c.change("topic", "x.yaml", "x: 1\n", "first")
	pr := w.propose("topic")
	c.git("config", "user.name", "Mallory")
	second := c.change("topic", "x.yaml", "x: 666\n", "slipped in")
	_, err := w.merge(forge.MergeSpec{Number: pr.Number, ExpectHead: first})
	w.code(err, promo.CodeConflict, first, second, "Mallory")
	_, err = w.merge(forge.MergeSpec{Number: pr.Number, ExpectHead: second})
	w.ok(err)
	_, err = w.merge(forge.MergeSpec{Number: pr.Number, ExpectHead: first})
	w.code(err, promo.CodeConflict, "was merged at", second)
}

func TestMergeRefusals(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.clone("ann")
	c.change("topic", "x.yaml", "x: 1\n", "first")
	pr, err := w.Open(t.Context(), forge.Spec{Repository: "deploy", Head: "topic", Base: "main", Title: "T", Draft: true, Author: ann()})
	w.ok(err)
	_, err = w.merge(forge.MergeSpec{Number: pr.Number})
	w.code(err, promo.CodeConflict, "draft")
	_, err = w.SetDraft(t.Context(), "deploy", pr.Number, ann(), false)
	w.ok(err)
	_, err = w.merge(forge.MergeSpec{Number: pr.Number, Method: "octopus"})
	w.code(err, promo.CodeConfiguration, "octopus")
	w.ok(w.Close(t.Context(), "deploy", pr.Number, "not now"))
	w.ok(w.Close(t.Context(), "deploy", pr.Number, "again"))
	_, err = w.merge(forge.MergeSpec{Number: pr.Number})
	w.code(err, promo.CodeConflict, "closed")
	d, err := w.Details(t.Context(), "deploy", pr.Number)
	w.ok(err)
	if len(d.Comments) != 1 || d.ClosedBy != "davit" || d.State != forge.StateClosed {
		t.Fatalf("closed twice: %+v", d)
	}
	_, err = w.Reopen(t.Context(), "deploy", pr.Number, ann())
	w.ok(err)
	_, err = w.merge(forge.MergeSpec{Number: pr.Number})
	w.ok(err)
	w.ok(w.Close(t.Context(), "deploy", pr.Number, "too late"))
	_, err = w.Reopen(t.Context(), "deploy", pr.Number, ann())
	w.code(err, promo.CodeConflict, "merged")
	_, err = w.merge(forge.MergeSpec{Number: 99})
	w.code(err, promo.CodeNotFound)
}

func TestUnrelatedHistory(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.clone("ann")
	c.git("switch", "-q", "--orphan", "alien")
	c.more("alien", "x.yaml", "x: 1\n", "from elsewhere")
	pr := w.propose("alien")
	if !pr.Conflicts || pr.Mergeable {
		t.Fatalf("%+v, want no way to merge", pr)
	}
	_, err := w.merge(forge.MergeSpec{Number: pr.Number})
	w.code(err, promo.CodeConflict)
}

// TestConcurrentMergesAndPushes merges many pull requests while people push to the same base.
func TestConcurrentMergesAndPushes(t *testing.T) {
	t.Parallel()
	const n = 6
	w := start(t, nil)
	c := w.clone("ann")
	for i := range n {
		c.change(fmt.Sprint("topic-", i), fmt.Sprintf("t%d.yaml", i), "x: 1\n", fmt.Sprint("topic ", i))
		w.propose(fmt.Sprint("topic-", i))
	}
	pusher := w.clone("ann")
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			method := []string{forge.MethodMerge, forge.MethodSquash, forge.MethodRebase}[i%3]
			if _, err := w.merge(forge.MergeSpec{Number: i + 1, Method: method}); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Go(func() {
		for i := range n {
			pusher.git("commit", "-q", "--allow-empty", "-m", fmt.Sprint("push ", i))
			for {
				out, err := pusher.try("push", "-q", "origin", "HEAD:refs/heads/main")
				if err == nil {
					break
				}
				if !strings.Contains(out, "rejected") && !strings.Contains(out, "failed to update ref") && !strings.Contains(out, "cannot lock ref") {
					t.Errorf("push: %s", out)
					return
				}
				pusher.git("pull", "-q", "--rebase", "origin", "main")
			}
		}
	})
	wg.Wait()
	if t.Failed() {
		return
	}
	for i := range n {
		w.same("file", w.inspect("show", fmt.Sprintf("main:t%d.yaml", i)), "x: 1")
	}
	pushes := strings.Count(w.inspect("log", "--format=%s", "main"), "push ")
	if pushes != n {
		t.Fatalf("%d pushes on main, want %d: one was lost or came twice", pushes, n)
	}
	w.inspect("fsck", "--strict", "--no-dangling")
}
