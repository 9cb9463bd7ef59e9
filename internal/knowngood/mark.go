package knowngood

import (
	"context"
	"fmt"
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// Baseline records the branch's present commit as known-good where the environment has no history yet, if all its
// applications are Synced and Healthy there. Otherwise it records nothing; that is no error.
func (k *Keeper) Baseline(ctx context.Context, req BaselineRequest) error {
	known, err := k.History.History(ctx, req.Project, req.Service.Name, req.Environment, 1)
	if err != nil || len(known) > 0 {
		return err
	}
	repo, err := k.Repos.Repo(ctx, req.Project, req.Repository.Name)
	if err != nil {
		return err
	}
	head, err := repo.Head(ctx, req.Service.Branch)
	if err != nil {
		return err
	}
	at := place{repo: repo, project: req.Project, service: req.Service, environment: req.Environment}
	for _, t := range req.Targets {
		at.targets = append(at.targets, t.Name)
	}
	for _, t := range req.Targets {
		if good, err := k.settled(ctx, at, head, t); err != nil || !good {
			return err
		}
	}
	entry := promo.KnownGood{
		Project: req.Project, Service: req.Service.Name, Environment: req.Environment, Commit: head, KnownGood: true,
	}
	return k.add(ctx, repo, entry, req.Service)
}

// settled reports whether every application of a target is Synced, Healthy and as the commit says.
func (k *Keeper) settled(ctx context.Context, at place, commit string, t plan.Target) (bool, error) {
	apps, err := k.Fleet.Linked(ctx, at.project, at.service, at.environment, t)
	if err != nil {
		return false, err
	}
	for _, a := range apps {
		if a.Sync != promo.SyncSynced || a.Health != promo.HealthHealthy {
			return false, nil
		}
		why, err := at.differs(ctx, commit, t.Name, a.Revision)
		if code := promo.CodeOf(err); err != nil && code != promo.CodeNotFound && code != promo.CodeConfiguration {
			return false, err
		}
		if err != nil || why != "" {
			// An error here is a revision that is no commit of the repository: a chart's version, a commit since pruned.
			return false, nil //nolint:nilerr // such a revision proves nothing, which is no trouble
		}
	}
	return len(apps) > 0, nil
}

// Mark records what a stage brought into an environment. It is known-good only if each target's paths at the
// commit equal what that target was synced to.
func (k *Keeper) Mark(ctx context.Context, req MarkRequest) (MarkResult, error) {
	repo, err := k.Repos.Repo(ctx, req.Entry.Project, req.Repository.Name)
	if err != nil {
		return MarkResult{}, err
	}
	res := MarkResult{KnownGood: req.Entry.KnownGood}
	if res.KnownGood {
		at := place{
			repo: repo, project: req.Entry.Project, service: req.Service, environment: req.Entry.Environment,
			targets: slices.Sorted(maps.Keys(req.Synced)),
		}
		for _, t := range at.targets {
			if res.Reason, err = at.differs(ctx, req.Entry.Commit, t, req.Synced[t]); err != nil {
				return MarkResult{}, err
			}
			if res.Reason != "" {
				break
			}
		}
		res.KnownGood = res.Reason == ""
	}
	req.Entry.KnownGood = res.KnownGood
	if seen, err := k.recorded(ctx, req.Entry); err != nil || seen {
		return res, err
	}
	return res, k.add(ctx, repo, req.Entry, req.Service)
}

// recorded finds an earlier run of the same mark.
func (k *Keeper) recorded(ctx context.Context, e promo.KnownGood) (bool, error) {
	known, err := k.History.History(ctx, e.Project, e.Service, e.Environment, 1)
	if err != nil || len(known) == 0 {
		return false, err
	}
	return known[0].Commit == e.Commit && known[0].Promotion == e.Promotion && known[0].KnownGood == e.KnownGood, nil
}

func (k *Keeper) add(ctx context.Context, repo *git.Repo, e promo.KnownGood, service plan.Service) error {
	if e.KnownGood {
		if err := repo.Keep(ctx, e.Commit, slices.Concat(service.Owned[e.Environment], service.Shared)...); err != nil {
			return err
		}
	}
	return k.History.AddKnownGood(ctx, e)
}

// place is what the targets of an environment read of a repository.
type place struct {
	repo        *git.Repo
	project     string
	service     plan.Service
	environment string
	targets     []string
}

// differs says how a target's paths at commit differ from what was synced there, "" where they don't.
func (p place) differs(ctx context.Context, commit, target, synced string) (string, error) {
	if synced == commit {
		return "", nil
	}
	want, err := p.read(ctx, synced, target)
	if err != nil {
		return "", err
	}
	got, err := p.read(ctx, commit, target)
	if err != nil || maps.Equal(want, got) {
		return "", err
	}
	return fmt.Sprintf("target %s was synced to %s, whose files differ from those of %s", target, synced, commit), nil
}

// read returns the ids of everything that a target reads at a commit: the owned paths without the folders that
// belong to other targets, and the shared ones.
func (p place) read(ctx context.Context, commit, target string) (map[string]string, error) {
	tree, err := p.repo.Tree(ctx, commit)
	if err != nil {
		return nil, err
	}
	paths := slices.Clone(p.service.Shared)
	for _, owned := range p.service.Owned[p.environment] {
		paths = append(paths, p.parts(tree, owned, target)...)
	}
	return ids(ctx, p.repo, commit, paths)
}

// parts are the places below an owned path that a target reads: the path itself, or, where it holds folders of
// targets, what is in it but for the others' folders.
func (p place) parts(tree *git.Tree, owned, target string) []string {
	names, err := tree.List(owned)
	if err != nil {
		return []string{owned} // a file, or nothing: its id says which
	}
	for i := range names {
		names[i] = strings.TrimSuffix(names[i], "/") // List marks directories
	}
	if !slices.ContainsFunc(names, func(n string) bool { return slices.Contains(p.targets, n) }) {
		return []string{owned}
	}
	var out []string
	for _, n := range names {
		if n == target || !slices.Contains(p.targets, n) {
			out = append(out, path.Join(owned, n))
		}
	}
	return out
}

// ids returns the id of what is at each path of a commit; nothing there is an id of its own.
func ids(ctx context.Context, repo *git.Repo, commit string, paths []string) (map[string]string, error) {
	out := make(map[string]string, len(paths))
	for _, p := range paths {
		id, err := repo.TreeHash(ctx, commit, p)
		if err != nil && promo.CodeOf(err) != promo.CodeNotFound {
			return nil, err
		}
		out[p] = id
	}
	return out, nil
}
