package knowngood

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// foreignShown bounds the commits of other people that a preview lists.
const foreignShown = 50

// Preview works out what a rollback would do. Where it can't be done, Refusal says why; that is no error.
func (k *Keeper) Preview(ctx context.Context, t Target) (promo.Preview, error) {
	repo, err := k.Repos.Repo(ctx, t.Project, t.Repository.Name)
	if err != nil {
		return promo.Preview{}, err
	}
	head, err := repo.Head(ctx, t.Service.Branch)
	if err != nil {
		return promo.Preview{}, err
	}
	p := promo.Preview{From: head, Files: []string{}}
	if len(t.OwnedPaths()) == 0 {
		p.Refusal = fmt.Sprintf("service %q owns no paths in environment %q", t.Service.Name, t.Environment)
		return p, nil
	}
	known, refusal, err := k.choose(ctx, repo, t, head)
	if err != nil {
		return promo.Preview{}, err
	}
	p.To, p.Version, p.Refusal = known.Commit, known.Version, refusal
	if refusal != "" {
		return p, nil
	}
	return p, k.describe(ctx, repo, t, &p)
}

// describe fills in what lies between the known-good commit and the head.
func (k *Keeper) describe(ctx context.Context, repo *git.Repo, t Target, p *promo.Preview) error {
	change, err := repo.Preview(ctx, git.ChangeRequest{
		Operation: "preview", Branch: t.Service.Branch, Message: "preview", Edit: putBack(p.To, t.OwnedPaths()),
	})
	if err != nil {
		return err
	}
	for _, f := range change.Files {
		p.Files = append(p.Files, f.Path)
	}
	p.Diff = change.Diff
	if len(t.Service.Shared) > 0 {
		shared, err := repo.DiffOf(ctx, p.To, p.From, t.Service.Shared...)
		if err != nil {
			return err
		}
		for _, f := range shared.Files {
			p.Shared = append(p.Shared, f.Path)
		}
	}
	if len(p.Shared) > 0 {
		p.Readers = slices.DeleteFunc(slices.Sorted(maps.Keys(t.Service.Owned)), func(e string) bool { return e == t.Environment })
	}
	since, err := repo.Log(ctx, p.To, p.From, t.OwnedPaths(), foreignShown)
	if err != nil {
		return err
	}
	for _, c := range since {
		if c.Operation == "" {
			p.Foreign = append(p.Foreign, promo.Commit{SHA: c.ID, Author: c.Author, Subject: c.Subject, At: c.When})
		}
	}
	return nil
}

// choose finds the commit to go back to: the named one if it is known-good, otherwise the newest known-good one
// whose files are not those that are there now.
func (k *Keeper) choose(ctx context.Context, repo *git.Repo, t Target, head string) (promo.KnownGood, string, error) {
	known, err := k.History.History(ctx, t.Project, t.Service.Name, t.Environment, historyDepth)
	if err != nil {
		return promo.KnownGood{}, "", err
	}
	if t.To != "" {
		k, refusal := named(known, t.To)
		return k, refusal, nil
	}
	for _, e := range known {
		if (!e.KnownGood && !e.Pinned) || e.Commit == t.Not {
			continue
		}
		same, err := equal(ctx, repo, e.Commit, head, slices.Concat(t.OwnedPaths(), t.Service.Shared))
		if err != nil && promo.CodeOf(err) == promo.CodeNotFound {
			continue // the repository has lost it: it is no way back
		}
		if err != nil {
			return promo.KnownGood{}, "", err
		}
		if !same {
			return e, "", nil
		}
	}
	return promo.KnownGood{}, fmt.Sprintf("service %q has no known-good commit in environment %q that differs from the present state: "+
		"name one with --to after pinning it", t.Service.Name, t.Environment), nil
}

func named(known []promo.KnownGood, to string) (promo.KnownGood, string) {
	var found []promo.KnownGood
	for _, e := range known {
		if strings.HasPrefix(e.Commit, to) && !slices.ContainsFunc(found, func(o promo.KnownGood) bool { return o.Commit == e.Commit }) {
			found = append(found, e)
		}
	}
	switch {
	case len(found) == 0:
		return promo.KnownGood{}, fmt.Sprintf("commit %q is not in the history of the environment: `davit history` lists what is", to)
	case len(found) > 1:
		return promo.KnownGood{}, fmt.Sprintf("commit %q is ambiguous: %s and %s begin so", to, found[0].Commit, found[1].Commit)
	}
	for _, e := range known {
		if e.Commit == found[0].Commit && (e.KnownGood || e.Pinned) {
			return e, ""
		}
	}
	return promo.KnownGood{}, fmt.Sprintf("commit %s was never known to be good: pin it first if you know better", found[0].Commit)
}

// equal reports whether two commits hold the same under each of the paths.
func equal(ctx context.Context, repo *git.Repo, a, b string, paths []string) (bool, error) {
	if _, err := repo.Tree(ctx, a); err != nil {
		return false, err // a commit that is gone is not one that holds nothing
	}
	at, err := ids(ctx, repo, a, paths)
	if err != nil {
		return false, err
	}
	bt, err := ids(ctx, repo, b, paths)
	return maps.Equal(at, bt), err
}

// Write makes the owned paths byte for byte what they were at the known-good commit, and touches nothing else. It
// pushes; where the branch refuses that, or the delivery says so, it goes by a pull request. Run again with the same
// operation it finds its own commit and goes on from there.
func (k *Keeper) Write(ctx context.Context, req WriteRequest) (WriteResult, error) {
	repo, err := k.Repos.Repo(ctx, req.Project, req.Repository.Name)
	if err != nil {
		return WriteResult{}, err
	}
	places := slices.Clone(req.OwnedPaths())
	if req.IncludeShared {
		places = append(places, req.Service.Shared...)
	}
	change := git.ChangeRequest{
		Operation: req.Operation, Branch: req.Service.Branch, Author: req.By, Message: message(req),
		Edit: putBack(req.To, places),
	}
	if req.Delivery != "pull-request" {
		got, err := repo.Change(ctx, change)
		if err == nil {
			return WriteResult{Commit: got.Head, Changed: got.Changed, Merged: true, Change: pushed(req, got)}, nil
		}
		if promo.CodeOf(err) != promo.CodeAuthorization {
			return WriteResult{}, err
		}
		k.Log.InfoContext(ctx, "branch refuses pushes, going by pull request", "rollback", req.ID, "error", err)
	}
	change.Base, change.Branch, change.Rebuild = req.Service.Branch, branch(req.ID), true
	return k.propose(ctx, repo, req, change)
}

// putBack makes places byte for byte what they were at a commit.
func putBack(commit string, places []string) func(context.Context, *git.Tree) error {
	return func(ctx context.Context, tree *git.Tree) error {
		for _, p := range places {
			if err := tree.CopyFrom(ctx, commit, p, p); err != nil {
				return err
			}
		}
		return nil
	}
}

// propose goes by a pull request that is merged as soon as its branch allows it.
func (k *Keeper) propose(ctx context.Context, repo *git.Repo, req WriteRequest, change git.ChangeRequest) (WriteResult, error) {
	// A merge deletes the branch: what an earlier call merged is found on the base, not made again.
	if merged, found, err := repo.FindOperation(ctx, req.Service.Branch, req.To, req.Operation); err != nil {
		return WriteResult{}, err
	} else if found {
		return WriteResult{Commit: merged, Changed: true, Merged: true, Change: plan.Change{Base: req.Service.Branch, Head: merged, Merged: merged, Changed: true}}, nil
	}
	got, err := repo.Change(ctx, change)
	if err != nil {
		return WriteResult{}, err
	}
	if !got.Changed && !got.Existing {
		return WriteResult{Commit: got.Head, Merged: true}, nil
	}
	c, waiting, err := k.Forge.Deliver(ctx, Delivery{
		Project: req.Project, Repository: req.Repository.Name, Branch: change.Branch, Head: got.Head, Base: req.Service.Branch,
		Title: title(req), Body: req.Reason, Operation: req.Operation, By: req.By,
	})
	if err != nil {
		return WriteResult{}, err
	}
	c.Digest, c.Changed = got.Digest, true
	return WriteResult{Commit: c.Merged, Changed: true, Merged: c.Merged != "", Waiting: waiting, Change: c}, nil
}

func pushed(req WriteRequest, got git.Change) plan.Change {
	return plan.Change{
		Branch: req.Service.Branch, Base: got.Base, Head: got.Head, Digest: got.Digest, Changed: got.Changed, Merged: got.Head,
		Author: req.By.Name,
	}
}

func branch(id string) string { return "davit/rollback/" + strings.ReplaceAll(id, "/", "-") }

func title(req WriteRequest) string {
	return fmt.Sprintf("Roll %s in %s back to %.10s", req.Service.Name, req.Environment, req.To)
}

func message(req WriteRequest) string {
	m := title(req)
	if req.Reason != "" {
		m += "\n\n" + req.Reason
	}
	return m
}
