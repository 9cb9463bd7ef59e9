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
	synced := map[string]string{}
	for _, t := range req.Targets {
		apps, err := k.Fleet.Linked(ctx, req.Project, req.Service, req.Environment, t)
		if err != nil {
			return err
		}
		for _, a := range apps {
			if a.Sync != promo.SyncSynced || a.Health != promo.HealthHealthy {
				return nil
			}
			synced[t.Name] = a.Revision
		}
		if len(apps) == 0 {
			return nil
		}
	}
	if why, err := k.differs(ctx, repo, head, req.Service, req.Environment, synced); err != nil || why != "" {
		return err
	}
	entry := promo.KnownGood{
		Project: req.Project, Service: req.Service.Name, Environment: req.Environment, Commit: head, KnownGood: true,
	}
	return k.add(ctx, repo, entry, req.Service)
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
		res.Reason, err = k.differs(ctx, repo, req.Entry.Commit, req.Service, req.Entry.Environment, req.Synced)
		if err != nil {
			return MarkResult{}, err
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

// differs says which target's paths at commit are not what was synced there, "" where all are.
func (k *Keeper) differs(ctx context.Context, repo *git.Repo, commit string, service plan.Service, environment string, synced map[string]string) (string, error) {
	for _, target := range slices.Sorted(maps.Keys(synced)) {
		if synced[target] == commit {
			continue
		}
		want, err := paths(ctx, repo, synced[target], service, environment, target, synced)
		if err != nil {
			return "", err
		}
		got, err := paths(ctx, repo, commit, service, environment, target, synced)
		if err != nil {
			return "", err
		}
		if !maps.Equal(want, got) {
			return fmt.Sprintf("target %s was synced to %s, whose files differ from those of %s", target, synced[target], commit), nil
		}
	}
	return "", nil
}

// paths returns the ids of everything that a target reads at a commit: the owned paths without the folders that
// belong to other targets, and the shared ones.
func paths(ctx context.Context, repo *git.Repo, commit string, service plan.Service, environment, target string, targets map[string]string) (map[string]string, error) {
	out := map[string]string{}
	tree, err := repo.Tree(ctx, commit)
	if err != nil {
		return nil, err
	}
	for _, owned := range service.Owned[environment] {
		names, err := tree.List(owned)
		for i := range names {
			names[i] = strings.TrimSuffix(names[i], "/") // List marks directories
		}
		if err != nil || !slices.ContainsFunc(names, func(n string) bool { _, ok := targets[n]; return ok }) {
			names = nil // a file, or a folder without folders of targets: one id stands for all of it
			if err := hash(ctx, repo, commit, owned, out); err != nil {
				return nil, err
			}
		}
		for _, n := range names {
			if _, other := targets[n]; other && n != target {
				continue
			}
			if err := hash(ctx, repo, commit, path.Join(owned, n), out); err != nil {
				return nil, err
			}
		}
	}
	for _, p := range service.Shared {
		if err := hash(ctx, repo, commit, p, out); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// hash notes the id of what is at a path; nothing there is an id of its own.
func hash(ctx context.Context, repo *git.Repo, commit, p string, into map[string]string) error {
	id, err := repo.TreeHash(ctx, commit, p)
	if err != nil && promo.CodeOf(err) != promo.CodeNotFound {
		return err
	}
	into[p] = id
	return nil
}
