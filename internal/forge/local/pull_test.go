package local_test

import (
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/forge/local"
	"github.com/davit-cd/davit/internal/promo"
)

func (w *world) diff(what string, got, want any) {
	w.t.Helper()
	if d := cmp.Diff(want, got); d != "" {
		w.t.Fatalf("%s (-want +got):\n%s", what, d)
	}
}

func TestOpenRefusals(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.clone("ann")
	c.change("topic", "x.yaml", "x: 1\n", "first")
	c.git("push", "-q", "origin", "origin/main:refs/heads/same")
	base := forge.Spec{Repository: "deploy", Head: "topic", Base: "main", Title: "T", Author: ann()}
	tests := map[string]struct {
		alter func(s *forge.Spec)
		code  promo.Code
		word  string
	}{
		"no repository": {func(s *forge.Spec) { s.Repository = "nope" }, promo.CodeNotFound, "nope"},
		"bad name":      {func(s *forge.Spec) { s.Repository = "../etc" }, promo.CodeConfiguration, "../etc"},
		"no head":       {func(s *forge.Spec) { s.Head = "nope" }, promo.CodeNotFound, "nope"},
		"no base":       {func(s *forge.Spec) { s.Base = "nope" }, promo.CodeNotFound, "nope"},
		"an option":     {func(s *forge.Spec) { s.Head = "--upload-pack=x" }, promo.CodeConfiguration, "name"},
		"a pattern":     {func(s *forge.Spec) { s.Head = "to*" }, promo.CodeConfiguration, "name"},
		"itself":        {func(s *forge.Spec) { s.Head = "main" }, promo.CodeConfiguration, "itself"},
		"no title":      {func(s *forge.Spec) { s.Title = " " }, promo.CodeConfiguration, "title"},
		"long body":     {func(s *forge.Spec) { s.Body = strings.Repeat("x", 1<<20) }, promo.CodeConfiguration, "text"},
		"nothing new":   {func(s *forge.Spec) { s.Head = "same" }, promo.CodeConflict, "nothing"},
	}
	for name, tc := range tests {
		spec := base
		tc.alter(&spec)
		_, err := w.Open(t.Context(), spec)
		if err == nil || promo.CodeOf(err) != tc.code || !strings.Contains(err.Error(), tc.word) {
			t.Errorf("%s: error %v, want %s with %q", name, err, tc.code, tc.word)
		}
	}
}

func TestListDetailsDiffCommits(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.clone("ann")
	c.change("one", "base/app.yaml", strings.Replace(appYAML, "a: 1", "a: 10", 1), "Set a\n\nDavit-Operation: op-1")
	c.change("one", "x.yaml", "x: 1\n", "Add x")
	c.change("two", "y.yaml", "y: 1\n", "Add y")
	pr, err := w.Open(t.Context(), forge.Spec{
		Repository: "deploy", Head: "one", Base: "main", Title: "One", Body: "why", Labels: []string{"b", "a", "b"}, Reviewers: []string{"bob"}, Author: ann(),
	})
	w.ok(err)
	two := w.propose("two")
	w.ok(w.Comment(t.Context(), "deploy", pr.Number, bob(), "looks fine"))
	w.code(w.Comment(t.Context(), "deploy", pr.Number, bob(), " "), promo.CodeConfiguration)
	// Main goes on: the diff stays that of the pull request alone.
	c.git("switch", "-q", "main")
	c.more("main", "z.yaml", "z: 1\n", "meanwhile")

	d, err := w.Details(t.Context(), "deploy", pr.Number)
	w.ok(err)
	w.diff("labels", d.Labels, []string{"a", "b"})
	w.diff("text", []string{d.Title, d.Body, d.Author, d.Comments[0].Body}, []string{"One", "why", "ann", "looks fine"})
	if len(d.Timeline) < 2 || d.Timeline[0].Type != forge.EventOpened {
		t.Fatalf("timeline %+v", d.Timeline)
	}
	diff, err := w.Diff(t.Context(), "deploy", pr.Number)
	w.ok(err)
	if !strings.Contains(diff, "-a: 1\n+a: 10\n") || !strings.Contains(diff, "+x: 1") || strings.Contains(diff, "z.yaml") {
		t.Fatalf("diff:\n%s", diff)
	}
	commits, err := w.Commits(t.Context(), "deploy", pr.Number)
	w.ok(err)
	if len(commits) != 2 || commits[0].Subject != "Set a" || commits[0].Operation != "op-1" || commits[1].Subject != "Add x" || commits[1].SHA != d.HeadSHA {
		t.Fatalf("commits %+v", commits)
	}

	_, err = w.merge(forge.MergeSpec{Number: pr.Number, Method: forge.MethodSquash, DeleteBranch: true})
	w.ok(err)
	after, err := w.Diff(t.Context(), "deploy", pr.Number)
	w.ok(err)
	w.diff("diff after merge and deletion", after, diff)
	list := func(f forge.Filter) []int {
		t.Helper()
		f.Repository = "deploy"
		out := []int{}
		prs, err := w.List(t.Context(), f)
		w.ok(err)
		for _, p := range prs {
			out = append(out, p.Number)
		}
		return out
	}
	w.diff("all", list(forge.Filter{}), []int{2, 1})
	w.diff("open", list(forge.Filter{State: forge.StateOpen}), []int{2})
	w.diff("head", list(forge.Filter{Head: "one"}), []int{1})
	w.diff("page", list(forge.Filter{Limit: 1, Before: two.Number}), []int{1})
	everywhere, err := w.List(t.Context(), forge.Filter{Limit: 1})
	w.ok(err)
	if len(everywhere) != 1 || everywhere[0].Number != two.Number {
		t.Fatalf("of all repositories: %+v", everywhere)
	}
	w.ok(w.Maintain(t.Context()))
}

func TestLargeDiffIsCut(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	w.clone("ann").change("topic", "big.txt", strings.Repeat("all work and no play\n", 100_000), "big")
	pr := w.propose("topic")
	diff, err := w.Diff(t.Context(), "deploy", pr.Number)
	w.ok(err)
	if len(diff) > local.MaxDiff+100 || !strings.Contains(diff[len(diff)-100:], "cut off") {
		t.Fatalf("%d bytes, end %q", len(diff), diff[len(diff)-100:])
	}
}

func TestBranchUsedAgain(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.clone("ann")
	c.change("release", "x.yaml", "x: 1\n", "first")
	first := w.propose("release")
	_, err := w.merge(forge.MergeSpec{Number: first.Number})
	w.ok(err)
	c.change("release", "x.yaml", "x: 2\n", "second")
	second := w.propose("release")
	if second.Number == first.Number || second.State != forge.StateOpen {
		t.Fatalf("the second use gave %+v", second)
	}
	// Deleting the branch with one of them waits for the other.
	c.git("push", "-q", "origin", "origin/main:refs/heads/stable")
	w.ok(w.Close(t.Context(), "deploy", second.Number, ""))
	third := w.propose("release")
	if third.Number == second.Number {
		t.Fatal("a closed pull request was found again")
	}
	_, err = w.Reopen(t.Context(), "deploy", second.Number, ann())
	w.code(err, promo.CodeConflict, "another one")
}

func TestCreateRefusals(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	for _, name := range []string{"", "..", "a/b", "x.git", "-x", ".hidden", "a b", strings.Repeat("x", 300)} {
		_, err := w.Create(t.Context(), local.CreateSpec{Name: name})
		w.code(err, promo.CodeConfiguration)
	}
	_, err := w.Create(t.Context(), local.CreateSpec{Name: "ok", Branch: "-x"})
	w.code(err, promo.CodeConfiguration)
	_, err = w.Create(t.Context(), local.CreateSpec{Name: "ok", Seed: fstest.MapFS{"link": {Mode: 0o777 | 1<<27}}})
	w.code(err, promo.CodeConfiguration, "regular file")
	_, err = w.Repository(t.Context(), "ok")
	w.code(err, promo.CodeNotFound)
	r, err := w.Create(t.Context(), local.CreateSpec{Name: "empty"})
	w.ok(err)
	if r.DefaultBranch != "main" || r.Name != "empty" {
		t.Fatalf("created %+v", r)
	}
	all, err := w.Repositories(t.Context())
	w.ok(err)
	if len(all) != 2 {
		t.Fatalf("%d repositories", len(all))
	}
}
