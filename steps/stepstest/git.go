package stepstest

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"

	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/testkit/gitserver"
	"github.com/davit-cd/davit/steps"
)

// gitPort gives steps the real Git of the product.
type gitPort struct{ repo *git.Repo }

func (g gitPort) Change(ctx context.Context, r steps.GitChange) (steps.GitResult, error) {
	req := git.ChangeRequest{
		Operation: r.Operation, Branch: r.Branch, Base: r.Base, Expect: r.Expect, Author: r.Author, Message: r.Message,
		Undo: r.Undo, Rebuild: r.Rebuild,
	}
	if r.Edit != nil {
		req.Edit = func(ctx context.Context, t *git.Tree) error { return r.Edit(ctx, t) }
	}
	c, err := g.repo.Change(ctx, req)
	return result(c), err
}

func result(c git.Change) steps.GitResult {
	out := steps.GitResult{Base: c.Base, Head: c.Head, Changed: c.Changed, Digest: c.Digest, Diff: c.Diff}
	for _, f := range c.Files {
		out.Files = append(out.Files, f.Path)
	}
	return out
}

func (g gitPort) Head(ctx context.Context, _, branch string) (string, error) {
	return g.repo.Head(ctx, branch)
}

func (g gitPort) Diff(ctx context.Context, _, base, head string) (steps.GitResult, error) {
	c, err := g.repo.DiffOf(ctx, base, head)
	return result(c), err
}

func (g gitPort) ReadFile(ctx context.Context, _, commit, path string) ([]byte, error) {
	return g.repo.ReadFile(ctx, commit, path)
}

func (g gitPort) DeleteBranch(ctx context.Context, _, branch, expect string) error {
	return g.repo.DeleteBranch(ctx, branch, expect)
}

// Compare implements steps.Comparer.
func (g gitPort) Compare(ctx context.Context, _, wanted, got string, paths []string) (steps.Relation, error) {
	r, err := g.repo.Relation(ctx, wanted, got, paths)
	kind := string(r.Kind)
	if r.Kind == git.DescendantDiffers {
		kind = steps.RelationOvertaken
	}
	return steps.Relation{Kind: kind, By: r.By.ID}, err
}

// Forge keeps pull requests; branches, conflicts and merges are those of the real repository.
type Forge struct {
	repo *gitserver.Repo
	mu   sync.Mutex
	prs  []*steps.PullRequest
	// Refuse, where set, is asked before a merge.
	Refuse func(pr steps.PullRequest) error
	Merges int
}

// Edit changes a pull request as people and other programs do.
func (f *Forge) Edit(number int, change func(*steps.PullRequest)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(f.prs[number-1])
}

// Open implements steps.Forge.
func (f *Forge) Open(_ context.Context, s steps.PullRequestSpec) (steps.PullRequest, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, pr := range f.prs {
		if pr.Head == s.Head && pr.State != "closed" {
			return f.look(pr), nil
		}
	}
	n := len(f.prs) + 1
	pr := &steps.PullRequest{
		Number: n, URL: fmt.Sprintf("https://git.example.com/acme/deploy/pulls/%d", n), State: "open", Head: s.Head,
		Base: s.Base, Author: s.Author.Name, Draft: s.Draft, Checks: "none",
	}
	f.prs = append(f.prs, pr)
	return f.look(pr), nil
}

// Get implements steps.Forge.
func (f *Forge) Get(_ context.Context, _ string, number int) (steps.PullRequest, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if number < 1 || number > len(f.prs) {
		return steps.PullRequest{}, promo.Errorf(promo.CodeNotFound, "no pull request %d", number)
	}
	return f.look(f.prs[number-1]), nil
}

// look reads from the repository what a forge shows of an open pull request.
func (f *Forge) look(pr *steps.PullRequest) steps.PullRequest {
	if pr.State != "open" {
		return *pr
	}
	pr.HeadSHA = f.repo.Head(pr.Head)
	pr.BaseSHA = strings.TrimSpace(f.repo.Git("merge-base", pr.Base, pr.HeadSHA))
	_, err := f.merged(pr)
	pr.Conflicts = err != nil
	pr.Mergeable = !pr.Conflicts && len(pr.Blocked) == 0
	return *pr
}

// merged makes the tree of the merge.
func (f *Forge) merged(pr *steps.PullRequest) (tree string, err error) {
	out, err := gitTry(f.repo, "merge-tree", "--write-tree", pr.Base, pr.HeadSHA)
	return strings.TrimSpace(out), err
}

func gitTry(r *gitserver.Repo, args ...string) (string, error) {
	return r.Server().TryGit(r.Dir, args...)
}

// Merge implements steps.Forge.
func (f *Forge) Merge(_ context.Context, s steps.MergeSpec) (steps.PullRequest, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	pr := f.prs[s.Number-1]
	if pr.State == "merged" && pr.HeadSHA == s.ExpectHead {
		return *pr, nil
	}
	f.look(pr)
	if f.Refuse != nil {
		if err := f.Refuse(*pr); err != nil {
			return steps.PullRequest{}, err
		}
	}
	if pr.State != "open" || pr.HeadSHA != s.ExpectHead || pr.Conflicts {
		return steps.PullRequest{}, promo.Errorf(promo.CodeConflict, "pull request %d can't be merged at %s", pr.Number, s.ExpectHead)
	}
	tree, err := f.merged(pr)
	if err != nil {
		return steps.PullRequest{}, promo.Errorf(promo.CodeConflict, "conflict")
	}
	args := []string{"commit-tree", tree, "-p", f.repo.Head(pr.Base), "-m", s.Message}
	if s.Method == "merge" {
		args = append(args, "-p", pr.HeadSHA)
	}
	pr.MergeSHA, pr.State, pr.MergedAt = strings.TrimSpace(f.repo.Git(args...)), "merged", Now
	f.repo.Git("update-ref", "refs/heads/"+pr.Base, pr.MergeSHA)
	if s.DeleteBranch {
		f.repo.Git("update-ref", "-d", "refs/heads/"+pr.Head)
	}
	f.Merges++
	return *pr, nil
}

// Close implements steps.Forge.
func (f *Forge) Close(_ context.Context, _ string, number int, _ string) error {
	f.Edit(number, func(pr *steps.PullRequest) { pr.State, pr.ClosedBy = "closed", "davit" })
	return nil
}

func (f *Forge) snapshot() string {
	f.mu.Lock()
	defer f.mu.Unlock()
	b, err := json.Marshal(f.prs)
	return fmt.Sprintln(string(b), err, f.Merges)
}
