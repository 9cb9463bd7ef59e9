package repos_test

import (
	"context"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/forge/local"
	"github.com/davit-cd/davit/internal/knowngood"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/repos"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/internal/testkit/gitserver"
	"github.com/davit-cd/davit/internal/testkit/releases"
	"github.com/davit-cd/davit/steps"
)

const (
	operation = "shop/release/1/prod.1/update/0"
	branch    = "davit/1"
)

type world struct {
	*releases.World
	t    *testing.T
	repo *gitserver.Repo
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: releases.New(t), t: t}
	w.repo = w.Create("deploy", map[string]string{"prod/values.yaml": "v: 1\n", "README.md": "hi\n"}, nil)
	return w
}

// open makes a change on a branch of its own with its pull request, as a step does.
func (w *world) open() plan.Change {
	w.t.Helper()
	head := w.Change("deploy", branch, "main", operation, map[string]string{"prod/values.yaml": "v: 2\n"})
	pr, err := w.Repos.Forge("shop").Open(w.t.Context(), steps.PullRequestSpec{
		Repository: "deploy", Head: branch, Base: "main", Title: "v2", Author: promo.Principal{Name: "ana"},
	})
	if err != nil {
		w.t.Fatal(err)
	}
	diff, err := w.Repos.Git("shop").Diff(w.t.Context(), "deploy", pr.BaseSHA, head)
	if err != nil {
		w.t.Fatal(err)
	}
	return plan.Change{Branch: branch, Base: "main", Head: head, Digest: diff.Digest, PR: pr.Number, URL: pr.URL, Changed: true}
}

func (w *world) read(c plan.Change) contract.ReadChangeResult {
	w.t.Helper()
	got, err := w.Repos.Read(w.t.Context(), "shop", contract.ReadChangeRequest{Project: "shop", Repository: "deploy", Change: c, Operation: operation})
	if err != nil {
		w.t.Fatal(err)
	}
	return got
}

func TestReadUnchanged(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.open()
	want := contract.ReadChangeResult{Change: c, State: "open", Checks: forge.ChecksNone}
	if diff := cmp.Diff(want, w.read(c)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	// What others add to the base is no part of the change.
	w.repo.Commit("main", "meanwhile", gitserver.Text(map[string]string{"README.md": "more\n"}))
	if diff := cmp.Diff(want, w.read(c)); diff != "" {
		t.Errorf("after a commit on the base: -want +got:\n%s", diff)
	}
	pushed := plan.Change{Branch: "main", Base: "main", Head: w.repo.Head("main"), Merged: w.repo.Head("main")}
	if diff := cmp.Diff(contract.ReadChangeResult{Change: pushed, State: "pushed"}, w.read(pushed)); diff != "" {
		t.Errorf("a pushed change: -want +got:\n%s", diff)
	}
}

func TestReadForeignCommit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.open()
	head := w.repo.Commit(branch, "one more thing", gitserver.Text(map[string]string{"prod/values.yaml": "v: 3\n"}))
	got := w.read(c)
	if got.Change.Head != head || got.Change.Digest == c.Digest || got.Change.Digest == "" || !strings.Contains(got.Change.Foreign, "Someone Else") {
		t.Errorf("got %+v, want head %s, another digest than %s and the author", got.Change, head, c.Digest)
	}
	// Davit's own new commit for the same operation is nobody else's.
	own := w.Change("deploy", "davit/2", "main", operation, map[string]string{"prod/values.yaml": "v: 5\n"})
	w.repo.Git("update-ref", "refs/heads/"+branch, own)
	got = w.read(c)
	if got.Change.Head != own || got.Change.Foreign != "" || got.Change.Digest == c.Digest {
		t.Errorf("made anew by Davit: got %+v", got.Change)
	}
	// The same content on a newer base is the same change.
	w.repo.Git("update-ref", "refs/heads/"+branch, w.repo.Commit("side", "x", gitserver.Text(map[string]string{"x": "x"})))
	base := w.repo.Commit("main", "meanwhile", gitserver.Text(map[string]string{"README.md": "more\n"}))
	w.repo.Git("update-ref", "refs/heads/davit/3", base)
	same := w.Change("deploy", "davit/3", "", operation, map[string]string{"prod/values.yaml": "v: 2\n"})
	w.repo.Git("update-ref", "refs/heads/"+branch, same)
	got = w.read(c)
	if got.Change.Head != same || got.Change.Digest != c.Digest || got.Change.Foreign != "" {
		t.Errorf("the same change on a newer base: got %+v, want digest %s", got.Change, c.Digest)
	}
}

func TestReadEnded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.open()
	bob := promo.Principal{Name: "bob"}
	if err := w.Forge.CloseBy(t.Context(), "deploy", c.PR, bob, "no"); err != nil {
		t.Fatal(err)
	}
	if got := w.read(c); got.State != "closed" || got.ClosedBy != "bob" || got.Change.Merged != "" {
		t.Errorf("closed: got %+v", got)
	}
	if _, err := w.Forge.Reopen(t.Context(), "deploy", c.PR, bob); err != nil {
		t.Fatal(err)
	}
	merged, err := w.Repos.Forge("shop").Merge(t.Context(), steps.MergeSpec{Repository: "deploy", Number: c.PR, ExpectHead: c.Head, Method: "squash", DeleteBranch: true, By: bob})
	if err != nil {
		t.Fatal(err)
	}
	got := w.read(c)
	if got.State != "merged" || got.Change.Merged != merged.MergeSHA || got.Change.Merged != w.repo.Head("main") || got.Change.Digest != c.Digest {
		t.Errorf("merged: got %+v, want %s", got, merged.MergeSHA)
	}
}

func TestReadConflictsAndChecks(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.open()
	if err := w.Forge.SetStatus(t.Context(), "deploy", c.Head, forge.Status{Context: "ci", State: forge.StatusFailure, By: "ci"}); err != nil {
		t.Fatal(err)
	}
	w.repo.Commit("main", "the same line", gitserver.Text(map[string]string{"prod/values.yaml": "v: 9\n"}))
	if got := w.read(c); !got.Conflicts || got.Checks != forge.ChecksFailed || got.State != "open" {
		t.Errorf("got %+v", got)
	}
	c.PR = 77
	_, err := w.Repos.Read(t.Context(), "shop", contract.ReadChangeRequest{Repository: "deploy", Change: c})
	if err == nil || promo.CodeOf(err) != promo.CodeNotFound {
		t.Errorf("a pull request that nobody has: got %v", err)
	}
}

func TestCleanUp(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		before func(w *world, c *plan.Change)
		branch bool // is there afterwards
		state  string
	}{
		"open": {"closed, and its branch deleted", func(*world, *plan.Change) {}, false, "closed"},
		"closed by a person": {"the branch still goes", func(w *world, c *plan.Change) {
			must(w.t, w.Forge.CloseBy(w.t.Context(), "deploy", c.PR, promo.Principal{Name: "bob"}, ""))
		}, false, "closed"},
		"merged": {"nothing is left to do", func(w *world, c *plan.Change) {
			_, err := w.Forge.Merge(w.t.Context(), forge.MergeSpec{Repository: "deploy", Number: c.PR, ExpectHead: c.Head, By: promo.Principal{Name: "bob"}})
			must(w.t, err)
		}, true, "merged"},
		"a foreign commit": {"the branch is not Davit's alone", func(w *world, _ *plan.Change) {
			w.repo.Commit(branch, "mine", gitserver.Text(map[string]string{"x": "x"}))
		}, true, "closed"},
		"a foreign commit that was seen": {"nor is it after the run has read it", func(w *world, c *plan.Change) {
			w.repo.Commit(branch, "mine", gitserver.Text(map[string]string{"x": "x"}))
			*c = w.read(*c).Change
		}, true, "closed"},
		"the branch is gone": {"that is as wanted", func(w *world, _ *plan.Change) {
			w.repo.Git("update-ref", "-d", "refs/heads/"+branch)
		}, false, "closed"},
		"an unknown head": {"what can't be compared is not deleted", func(_ *world, c *plan.Change) { c.Head = "" }, true, "closed"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			c := w.open()
			tc.before(w, &c)
			main := w.repo.Head("main")
			for range 2 {
				must(t, w.Repos.CleanUp(t.Context(), "shop", contract.CleanUpRequest{Repository: "deploy", Changes: []plan.Change{c}, Reason: "the promotion failed"}))
				pr, err := w.Forge.Details(t.Context(), "deploy", c.PR)
				must(t, err)
				if there := w.repo.Head(branch) != ""; there != tc.branch || pr.State != tc.state || w.repo.Head("main") != main {
					t.Errorf("%s: the branch is there: %v, the pull request is %s, main moved: %v", tc.reason, there, pr.State, w.repo.Head("main") != main)
				}
				if name == "open" && (len(pr.Comments) != 1 || !strings.Contains(pr.Comments[0].Body, "the promotion failed")) {
					t.Errorf("the comments are %+v", pr.Comments)
				}
			}
		})
	}
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestCleanUpSparesTheBase(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.repo.Head("main")
	w.repo.Git("update-ref", "refs/heads/staging", head)
	for _, b := range []string{"main", "staging"} {
		must(t, w.Repos.CleanUp(t.Context(), "shop", contract.CleanUpRequest{
			Repository: "deploy", Changes: []plan.Change{{Branch: b, Base: b, Head: head, Changed: true}},
		}))
		if w.repo.Head(b) != head {
			t.Errorf("a branch that was pushed to was deleted: %s", b)
		}
	}
}

func TestCleanUpTrouble(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	c := w.open()
	w.Repos.Local.Forge = troubled{w.Forge}
	err := w.Repos.CleanUp(t.Context(), "shop", contract.CleanUpRequest{Repository: "deploy", Changes: []plan.Change{c}})
	if promo.CodeOf(err) != promo.CodeConnectivity {
		t.Errorf("a forge that does not answer is no clean-up that is done: %v", err)
	}
	c.PR = 77 // gone from the forge
	w.Repos.Local.Forge = w.Forge
	must(t, w.Repos.CleanUp(t.Context(), "shop", contract.CleanUpRequest{Repository: "deploy", Changes: []plan.Change{c}}))
	if got := w.repo.Head(branch); got != "" {
		t.Errorf("the branch of a pull request that is gone stays at %s", got)
	}
}

// troubled is a forge that can't be read.
type troubled struct{ *local.Forge }

func (troubled) Get(context.Context, string, int) (forge.PullRequest, error) {
	return forge.PullRequest{}, promo.Errorf(promo.CodeConnectivity, "no route")
}

func (w *world) deliver(head string) (plan.Change, string, error) {
	return w.Repos.Deliver(w.t.Context(), knowngood.Delivery{
		Project: "shop", Repository: "deploy", Branch: branch, Head: head, Base: "main", Title: "Roll back", Body: "why", Operation: operation,
		By: promo.Principal{Name: "ana"},
	})
}

func TestDeliver(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.Change("deploy", branch, "main", operation, map[string]string{"prod/values.yaml": "v: 2\n"})
	must(t, w.Forge.Protect(t.Context(), "deploy", "main", &forge.Protection{RequiredReviews: 1, RequiredChecks: []string{"ci"}}))
	for range 2 {
		c, waiting, err := w.deliver(head)
		if err != nil || c.Merged != "" || c.PR != 1 || c.Head != head || c.Author != "ana" || !strings.Contains(waiting, "approvals") || !strings.Contains(waiting, "ci") {
			t.Fatalf("blocked: got %+v, %q, %v", c, waiting, err)
		}
	}
	must(t, w.Forge.Protect(t.Context(), "deploy", "main", nil))
	c, waiting, err := w.deliver(head)
	if err != nil || waiting != "" || c.Merged == "" || c.Merged != w.repo.Head("main") {
		t.Fatalf("free: got %+v, %q, %v", c, waiting, err)
	}
	if text := w.repo.Git("log", "-1", "--format=%B", "main"); !strings.Contains(text, "Davit-Operation: "+operation) {
		t.Errorf("the merge does not carry its operation:\n%s", text)
	}
	again, waiting, err := w.deliver(head)
	if err != nil || waiting != "" || again.Merged != c.Merged || again.PR != 1 {
		t.Errorf("merged before: got %+v, %q, %v", again, waiting, err)
	}
}

func TestDeliverForeignHead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.Change("deploy", branch, "main", operation, map[string]string{"prod/values.yaml": "v: 2\n"})
	w.repo.Commit(branch, "mine", gitserver.Text(map[string]string{"x": "x"}))
	main := w.repo.Head("main")
	c, waiting, err := w.deliver(head)
	if err != nil || c.Merged != "" || !strings.Contains(waiting, "Someone Else") || w.repo.Head("main") != main {
		t.Errorf("another commit than the rollback's: got %+v, %q, %v", c, waiting, err)
	}
}

func TestDeliverConflict(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	head := w.Change("deploy", branch, "main", operation, map[string]string{"prod/values.yaml": "v: 2\n"})
	w.repo.Commit("main", "the same line", gitserver.Text(map[string]string{"prod/values.yaml": "v: 9\n"}))
	c, waiting, err := w.deliver(head)
	if err != nil || c.Merged != "" || !strings.Contains(waiting, "could not be merged yet") {
		t.Errorf("got %+v, %q, %v", c, waiting, err)
	}
}

func TestCompare(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	one := w.repo.Head("main")
	two := w.repo.Commit("main", "elsewhere", gitserver.Text(map[string]string{"README.md": "2\n"}))
	three := w.repo.Commit("main", "here", gitserver.Text(map[string]string{"prod/values.yaml": "v: 3\n"}))
	side := w.Change("deploy", branch, "main", "op", map[string]string{"x": "x"})
	four := w.repo.Commit("main", "more", gitserver.Text(map[string]string{"README.md": "4\n"}))
	cases := map[string]struct {
		wanted, got string
		want        steps.Relation
	}{
		"same":             {two, two, steps.Relation{Kind: steps.RelationSame}},
		"descendant equal": {one, two, steps.Relation{Kind: steps.RelationDescendantEqual}},
		"overtaken":        {one, four, steps.Relation{Kind: steps.RelationOvertaken, By: three}},
		"ancestor":         {three, one, steps.Relation{Kind: steps.RelationAncestor}},
		"unrelated":        {four, side, steps.Relation{Kind: steps.RelationUnrelated}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := w.Repos.Compare(t.Context(), "shop", "deploy", tc.wanted, tc.got, []string{"prod"})
			if diff := cmp.Diff(tc.want, got); err != nil || diff != "" {
				t.Errorf("%v, -want +got:\n%s", err, diff)
			}
		})
	}
	if _, err := w.Repos.Compare(t.Context(), "shop", "deploy", one, "main", nil); promo.CodeOf(err) != promo.CodeConfiguration {
		t.Errorf("a branch is no commit: got %v", err)
	}
}

func TestGitPort(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx, git := t.Context(), w.Repos.Git("shop")
	req := steps.GitChange{
		Repository: "deploy", Operation: "op", Branch: "main", Author: promo.Principal{Name: "ana"}, Message: "m",
		Edit: func(_ context.Context, tree steps.Tree) error {
			return tree.Write("prod/values.yaml", []byte("v: 2\n"))
		},
	}
	for range 2 {
		got, err := git.Change(ctx, req)
		if err != nil || !got.Changed || got.Head != w.repo.Head("main") || len(got.Files) != 1 || got.Digest == "" {
			t.Fatalf("a change that was made before is still a change: got %+v, %v", got, err)
		}
	}
	head, err := git.Head(ctx, "deploy", "main")
	must(t, err)
	if data, err := git.ReadFile(ctx, "deploy", head, "prod/values.yaml"); err != nil || string(data) != "v: 2\n" {
		t.Errorf("got %q, %v", data, err)
	}
	w.repo.Git("update-ref", "refs/heads/old", head)
	must(t, git.DeleteBranch(ctx, "deploy", "old", head))
	if w.repo.Head("old") != "" {
		t.Error("the branch is still there")
	}
}

func TestRepoOfAnotherProvider(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.Repos.Definitions = provider("github")
	if _, err := w.Repos.Repo(t.Context(), "shop", "deploy"); promo.CodeOf(err) != promo.CodeConfiguration {
		t.Errorf("got %v", err)
	}
}

type provider string

func (p provider) Repository(context.Context, string, string) (*spec.RepositorySpec, error) {
	return &spec.RepositorySpec{Provider: string(p)}, nil
}

var _ repos.Definitions = provider("")
