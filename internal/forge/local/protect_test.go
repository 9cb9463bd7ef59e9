package local_test

import (
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/forge/local"
	"github.com/davit-cd/davit/internal/promo"
)

func (w *world) review(number int, by promo.Principal, state, head string) (forge.PullRequest, error) {
	w.t.Helper()
	return w.Review(w.t.Context(), local.ReviewSpec{Repository: "deploy", Number: number, By: by, State: state, HeadSHA: head})
}

func (w *world) status(commit, name, state string) {
	w.t.Helper()
	w.ok(w.SetStatus(w.t.Context(), "deploy", commit, forge.Status{Context: name, State: state, By: "ci"}))
}

func (w *world) blocked(number int, want ...string) {
	w.t.Helper()
	pr, err := w.Get(w.t.Context(), "deploy", number)
	w.ok(err)
	if got := strings.Join(pr.Blocked, "; "); got != strings.Join(want, "; ") || pr.Mergeable != (len(want) == 0) {
		w.t.Fatalf("blocked by %q (mergeable %t), want %q", got, pr.Mergeable, want)
	}
}

func TestProtectedPush(t *testing.T) {
	t.Parallel()
	w := start(t, &forge.Protection{AllowPush: []string{"davit"}})
	c := w.clone("ann")
	before := w.head("main")
	c.git("commit", "-q", "--allow-empty", "-m", "straight in")
	out, err := c.try("push", "origin", "HEAD:main")
	if err == nil || !strings.Contains(out, "branch main is protected: open a pull request") {
		t.Fatalf("push by ann: %v\n%s", err, out)
	}
	// All or nothing of one push, also with a large pack behind it.
	if out, err = c.try("push", "origin", "HEAD:main", "HEAD:refs/heads/other"); err == nil || w.head("other") != "" {
		t.Fatalf("push of two: %v\n%s", err, out)
	}
	w.same("main", w.head("main"), before)
	for reason, args := range map[string][]string{
		"only branches and tags":  {"push", "origin", "HEAD:refs/pull/1/head"},
		"may not be deleted":      {"push", "origin", ":main"},
		"only branches and tags ": {"push", "origin", "HEAD:refs/notes/x"},
	} {
		if out, err := c.try(args...); err == nil || !strings.Contains(out, strings.TrimSpace(reason)) {
			t.Fatalf("%v: %v\n%s", args, err, out)
		}
	}

	d := w.clone("davit")
	d.git("commit", "-q", "--allow-empty", "-m", "allowed")
	d.git("push", "-q", "origin", "HEAD:main")
	w.same("main", w.head("main"), d.git("rev-parse", "HEAD"))
	d.git("commit", "-q", "--amend", "--allow-empty", "-m", "rewritten")
	if out, err := d.try("push", "-f", "origin", "HEAD:main"); err == nil {
		t.Fatalf("a protected branch was rewritten:\n%s", out)
	}
	w.ok(w.Protect(t.Context(), "deploy", "main", nil))
	d.git("push", "-q", "-f", "origin", "HEAD:main")
}

func TestReviews(t *testing.T) {
	t.Parallel()
	w := start(t, &forge.Protection{RequiredReviews: 1, DismissStale: true})
	c := w.clone("ann")
	first := c.change("topic", "x.yaml", "x: 1\n", "first")
	pr := w.propose("topic")
	w.blocked(pr.Number, "0 of 1 required approvals")
	_, err := w.merge(forge.MergeSpec{Number: pr.Number})
	w.code(err, promo.CodeConflict, "0 of 1 required approvals")
	_, err = w.review(pr.Number, ann(), forge.ReviewApproved, first)
	w.code(err, promo.CodeAuthorization, "their own")
	_, err = w.review(pr.Number, bob(), "shrug", first)
	w.code(err, promo.CodeConfiguration)
	_, err = w.review(pr.Number, promo.Principal{}, forge.ReviewApproved, first)
	w.code(err, promo.CodeConfiguration)

	_, err = w.review(pr.Number, bob(), forge.ReviewApproved, first)
	w.ok(err)
	w.blocked(pr.Number)
	_, err = w.review(pr.Number, cid(), forge.ReviewChangesRequested, first)
	w.ok(err)
	w.blocked(pr.Number, `"cid" requested changes`)
	_, err = w.review(pr.Number, cid(), forge.ReviewCommented, first)
	w.ok(err)
	w.blocked(pr.Number, `"cid" requested changes`)
	_, err = w.review(pr.Number, cid(), forge.ReviewApproved, first)
	w.ok(err)
	w.blocked(pr.Number)
	if e := w.event(forge.EventReview); e.Number != pr.Number || e.After != first {
		t.Fatalf("event %+v", e)
	}

	second := c.change("topic", "x.yaml", "x: 2\n", "second")
	w.blocked(pr.Number, "0 of 1 required approvals")
	_, err = w.review(pr.Number, bob(), forge.ReviewApproved, first)
	w.code(err, promo.CodeConflict, second)
	_, err = w.review(pr.Number, bob(), forge.ReviewApproved, second)
	w.ok(err)
	_, err = w.merge(forge.MergeSpec{Number: pr.Number, ExpectHead: second})
	w.ok(err)
	_, err = w.review(pr.Number, bob(), forge.ReviewApproved, second)
	w.code(err, promo.CodeConflict, "merged")
}

func TestReviewsStayWithoutDismissal(t *testing.T) {
	t.Parallel()
	w := start(t, &forge.Protection{RequiredReviews: 1})
	c := w.clone("ann")
	first := c.change("topic", "x.yaml", "x: 1\n", "first")
	pr := w.propose("topic")
	_, err := w.review(pr.Number, bob(), forge.ReviewApproved, first)
	w.ok(err)
	c.change("topic", "x.yaml", "x: 2\n", "second")
	w.blocked(pr.Number)
}

func TestChecks(t *testing.T) {
	t.Parallel()
	w := start(t, &forge.Protection{RequiredChecks: []string{"ci/test"}})
	c := w.clone("ann")
	sha := c.change("topic", "x.yaml", "x: 1\n", "first")
	pr := w.propose("topic")
	checks := func(want string) {
		t.Helper()
		got, err := w.Get(t.Context(), "deploy", pr.Number)
		w.ok(err)
		w.same("checks", got.Checks, want)
	}
	checks(forge.ChecksPending)
	w.blocked(pr.Number, `check "ci/test" is pending`)
	w.status(sha, "ci/optional", forge.StatusFailure)
	checks(forge.ChecksPending)
	w.status(sha, "ci/test", forge.StatusFailure)
	checks(forge.ChecksFailed)
	_, err := w.merge(forge.MergeSpec{Number: pr.Number})
	w.code(err, promo.CodeConflict, `check "ci/test" is failure`)
	w.status(sha, "ci/test", forge.StatusSuccess)
	checks(forge.ChecksGreen)
	w.blocked(pr.Number)
	if e := w.event(forge.EventStatus); e.After != sha {
		t.Fatalf("event %+v", e)
	}
	c.change("topic", "x.yaml", "x: 2\n", "second") // green is green for one commit only
	checks(forge.ChecksPending)
	w.code(w.SetStatus(t.Context(), "deploy", strings.Repeat("1", 40), forge.Status{Context: "ci", State: forge.StatusSuccess}), promo.CodeNotFound)
	w.code(w.SetStatus(t.Context(), "deploy", "main", forge.Status{Context: "ci", State: forge.StatusSuccess}), promo.CodeConfiguration)
	w.code(w.SetStatus(t.Context(), "deploy", sha, forge.Status{Context: "ci", State: "odd"}), promo.CodeConfiguration)
}

func TestUpToDate(t *testing.T) {
	t.Parallel()
	w := start(t, &forge.Protection{UpToDate: true, AllowPush: []string{"ann"}})
	c := w.clone("ann")
	c.change("topic", "x.yaml", "x: 1\n", "first")
	pr := w.propose("topic")
	w.blocked(pr.Number)
	c.git("switch", "-q", "main")
	c.more("main", "y.yaml", "y: 1\n", "meanwhile")
	w.blocked(pr.Number, `branch "topic" is not up to date with "main"`)
	c.git("switch", "-q", "topic")
	c.git("merge", "-q", "main")
	c.git("push", "-q", "origin", "topic")
	w.blocked(pr.Number)
}

func TestBypass(t *testing.T) {
	t.Parallel()
	w := start(t, &forge.Protection{RequiredReviews: 2, AllowBypass: []string{"cid"}})
	w.clone("ann").change("topic", "x.yaml", "x: 1\n", "first")
	pr := w.propose("topic")
	_, err := w.merge(forge.MergeSpec{Number: pr.Number, Bypass: true, By: bob()})
	w.code(err, promo.CodeAuthorization, "bob", "0 of 2")
	_, err = w.merge(forge.MergeSpec{Number: pr.Number, Bypass: true, By: cid()})
	w.ok(err)
}
