package repos

import (
	"context"
	"strings"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/knowngood"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// Read says what a change looks like now: its head and digest, who else pushed to its branch, its pull request.
func (r *Repos) Read(ctx context.Context, project string, req contract.ReadChangeRequest) (contract.ReadChangeResult, error) {
	c := req.Change
	if c.PR == 0 {
		return contract.ReadChangeResult{Change: c, State: "pushed"}, nil
	}
	pr, err := r.Local.Forge.Get(ctx, req.Repository, c.PR)
	if err != nil {
		return contract.ReadChangeResult{}, err
	}
	res := contract.ReadChangeResult{Change: c, State: pr.State, ClosedBy: pr.ClosedBy, Checks: pr.Checks, Conflicts: pr.Conflicts}
	res.Change.Merged = pr.MergeSHA
	if pr.HeadSHA == c.Head || pr.HeadSHA == "" {
		return res, nil
	}
	repo, err := r.Repo(ctx, project, req.Repository)
	if err != nil {
		return contract.ReadChangeResult{}, err
	}
	diff, err := repo.DiffOf(ctx, pr.BaseSHA, pr.HeadSHA)
	if err != nil {
		return contract.ReadChangeResult{}, err
	}
	res.Change.Head, res.Change.Digest = pr.HeadSHA, diff.Digest
	commits, err := repo.Log(ctx, diff.Base, pr.HeadSHA, nil, foreignSearched)
	if err != nil {
		return contract.ReadChangeResult{}, err
	}
	for _, k := range commits {
		if k.Operation != req.Operation {
			res.Change.Foreign = k.Author
			break
		}
	}
	return res, nil
}

// foreignSearched is how many commits of a pull request are looked at for a foreign author; Davit makes one.
const foreignSearched = 100

// CleanUp closes pull requests that were not merged and deletes their branches. What is gone already is fine.
func (r *Repos) CleanUp(ctx context.Context, project string, req contract.CleanUpRequest) error {
	repo, err := r.Repo(ctx, project, req.Repository)
	if err != nil {
		return err
	}
	for _, c := range req.Changes {
		merged, err := r.closePR(ctx, req, c.PR)
		if err != nil {
			return err
		}
		// A branch with other people's commits stays: it is not Davit's to throw away. Nor is one that was pushed to
		// directly, or of which nothing is known.
		if merged || c.Foreign != "" || c.Head == "" || c.Branch == c.Base {
			continue
		}
		err = repo.DeleteBranch(ctx, c.Branch, c.Head)
		if code := promo.CodeOf(err); err != nil && code != promo.CodeNotFound && code != promo.CodeConflict {
			return err
		}
	}
	return nil
}

// closePR closes a pull request unless it is merged; number 0 is none.
func (r *Repos) closePR(ctx context.Context, req contract.CleanUpRequest, number int) (merged bool, err error) {
	if number == 0 {
		return false, nil
	}
	pr, err := r.Local.Forge.Get(ctx, req.Repository, number)
	switch {
	case err != nil && promo.CodeOf(err) == promo.CodeNotFound:
		return false, nil
	case err != nil:
		return false, err
	case pr.State == forge.StateMerged:
		return true, nil
	}
	return false, r.Local.Forge.Close(ctx, req.Repository, number, "Closed by Davit: "+req.Reason)
}

// Deliver opens a rollback's pull request and merges it once its branch allows that. One that somebody closed is a
// Conflict, and not opened again.
func (r *Repos) Deliver(ctx context.Context, req knowngood.Delivery) (plan.Change, string, error) {
	earlier, err := r.Local.Forge.List(ctx, forge.Filter{Repository: req.Repository, Head: req.Branch, Limit: 1})
	if err != nil {
		return plan.Change{}, "", err
	}
	if len(earlier) > 0 && earlier[0].State == forge.StateClosed {
		return plan.Change{}, "", promo.Errorf(promo.CodeConflict, "the rollback's pull request %d was closed by %s", earlier[0].Number, earlier[0].ClosedBy)
	}
	pr, err := r.Local.Forge.Open(ctx, forge.Spec{
		Repository: req.Repository, Head: req.Branch, Base: req.Base, Title: req.Title, Body: req.Body, Author: req.By,
	})
	if err != nil {
		return plan.Change{}, "", err
	}
	change := plan.Change{Branch: req.Branch, Base: req.Base, Head: pr.HeadSHA, PR: pr.Number, URL: pr.URL, Merged: pr.MergeSHA, Author: req.By.Name}
	switch {
	case pr.State == forge.StateMerged:
		return change, "", nil
	case len(pr.Blocked) > 0:
		return change, "pull request " + pr.URL + " waits for " + strings.Join(pr.Blocked, ", "), nil
	}
	merged, err := r.Local.Forge.Merge(ctx, forge.MergeSpec{
		Repository: req.Repository, Number: pr.Number, ExpectHead: req.Head, Method: forge.MethodMerge, DeleteBranch: true,
		Message: req.Title + "\n\nDavit-Operation: " + req.Operation, By: req.By,
	})
	if promo.CodeOf(err) == promo.CodeConflict {
		return change, "pull request " + pr.URL + " could not be merged yet: " + err.Error(), nil
	}
	if err != nil {
		return change, "", err
	}
	change.Merged = merged.MergeSHA
	return change, "", nil
}
