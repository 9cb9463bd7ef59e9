package sandbox

import (
	"context"
	"maps"
	"slices"
	"time"

	"github.com/davit-cd/davit/internal/gitops/sandbox/appspec"
	"github.com/davit-cd/davit/internal/gitops/sandbox/render"
	"github.com/davit-cd/davit/internal/promo"
)

// level says how much a refresh does; a higher one includes the lower.
type level int

const (
	levelLive    level = iota // compare live objects with the manifests at hand
	levelResolve              // resolve the target revision first
	levelHard                 // and render it even if that was done before
)

// refresh plans a comparison. The caller holds c.mu.
func (c *Cluster) refresh(a *app, when time.Time, l level) {
	a.level = max(a.level, l)
	if when.Before(a.staleUntil) {
		when = a.staleUntil
	}
	key := a.key()
	c.at("refresh "+key, when, func(ctx context.Context) { c.compare(ctx, key) })
}

// compare brings an application's sync status and health up to date, then considers an automated sync.
func (c *Cluster) compare(ctx context.Context, key string) {
	c.mu.Lock()
	a, ok := c.apps[key]
	if !ok {
		c.mu.Unlock()
		return
	}
	spec, l, loaded := a.Spec, a.level, a.loaded
	a.level = levelLive
	c.mu.Unlock()

	var t target
	read := l >= levelResolve || !loaded
	if read {
		t = c.load(ctx, spec, spec.Source.TargetRevision, l == levelHard)
		if ctx.Err() != nil {
			return
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if read && a.Spec.Source == spec.Source && a.Spec.Destination == spec.Destination {
		c.setTarget(a, t)
	}
	c.setStatus(a)
	c.publish(a)
	c.autoSync(a)
}

// target is an application's manifests at a revision, or why there are none.
type target struct {
	commit  string
	objects []render.Object
	err     error
}

// setTarget remembers what is wanted. If that cannot be found out, the revision stays the last one known.
func (c *Cluster) setTarget(a *app, t target) {
	if t.err != nil && a.targetErr == nil {
		c.log.Warn("comparison failed", "application", a.key(), "error", t.err)
	}
	a.loaded, a.targetErr = true, t.err
	if t.commit != "" {
		a.Status.Revision = t.commit
	}
	a.target = t.objects
}

// load resolves a revision and renders it.
func (c *Cluster) load(ctx context.Context, spec appspec.Application, revision string, again bool) target {
	ctx, cancel := context.WithTimeout(ctx, c.timings.Read)
	defer cancel()
	commit, err := c.source.Resolve(ctx, spec.Source.RepoURL, revision)
	if err != nil {
		return target{err: asPromo(err)}
	}
	objects, err := c.render(ctx, spec, commit, again)
	return target{commit: commit, objects: objects, err: err}
}

func (c *Cluster) render(ctx context.Context, spec appspec.Application, commit string, again bool) ([]render.Object, error) { //nolint:revive // a hard refresh differs in nothing else
	id := cacheID{spec.Source.RepoURL, commit, spec.Source.Path, spec.Destination.Namespace, spec.Source.Recurse}
	if objects, ok := c.cache.get(id); ok && !again {
		return objects, nil
	}
	tree, err := c.source.Tree(ctx, spec.Source.RepoURL, commit)
	if err != nil {
		return nil, asPromo(err)
	}
	objects, err := render.Render(tree, spec.Source.Path, render.Options{
		Recurse: spec.Source.Recurse, Namespace: spec.Destination.Namespace,
	})
	if ctx.Err() != nil {
		return nil, promo.Errorf(promo.CodeTimeout, "read %q: %w", spec.Source.RepoURL, ctx.Err())
	}
	if err != nil {
		return nil, err
	}
	c.cache.put(id, objects)
	return objects, nil
}

// setStatus compares the live objects with the target. The caller holds c.mu.
func (c *Cluster) setStatus(a *app) {
	now := c.clock.Now()
	s := &a.Status
	s.Resources = c.resources(a, now)
	s.Images = c.imagesOf(a)
	s.ReconciledAt = now
	s.Health, s.HealthMessage = aggregate(s.Resources)
	for _, r := range s.Resources {
		if l := c.objects[keyOf(r)]; l != nil && s.Health == promo.HealthDegraded && r.Health == s.Health {
			if why := l.podTrouble(); why != "" {
				s.HealthMessage += " (" + why + ")"
				break
			}
		}
	}
	if a.targetErr != nil {
		s.Sync, s.HealthMessage = promo.SyncUnknown, "ComparisonError: "+a.targetErr.Error()
		if len(s.Resources) == 0 {
			s.Health = promo.HealthUnknown
		}
		return
	}
	s.Sync = promo.SyncSynced
	if slices.ContainsFunc(s.Resources, func(r promo.Resource) bool { return r.Sync == promo.SyncOutOfSync }) {
		s.Sync = promo.SyncOutOfSync
	}
}

// resources lists what is wanted or live, sorted by key.
func (c *Cluster) resources(a *app, now time.Time) []promo.Resource {
	wanted := map[render.Key]render.Object{}
	for _, o := range a.target {
		wanted[o.Key()] = o
	}
	all := map[render.Key]render.Object{}
	for key, l := range c.objects {
		if l.Owner == a.key() {
			all[key] = l.Live
		}
	}
	maps.Copy(all, wanted)
	out := make([]promo.Resource, 0, len(all))
	for _, key := range sortedKeys(all) {
		o := all[key]
		r := promo.Resource{Group: o.Group(), Version: o.Version(), Kind: o.Kind(), Namespace: o.Namespace(), Name: o.Name()}
		_, isWanted := wanted[key]
		l := c.objects[key]
		switch {
		case a.targetErr != nil:
			r.Sync = promo.SyncUnknown
		case !isWanted:
			r.Sync, r.RequiresPruning = promo.SyncOutOfSync, true
		case l == nil || l.Owner != a.key() || !same(merge(l.Live, l.Applied, o), l.Live):
			r.Sync = promo.SyncOutOfSync
		default:
			r.Sync = promo.SyncSynced
		}
		if l == nil {
			r.Health = promo.HealthMissing
		} else {
			r.Health, r.Message = l.healthOf(now, c.timings)
		}
		out = append(out, r)
	}
	return out
}

func sortedKeys(m map[render.Key]render.Object) []render.Key {
	return slices.SortedFunc(maps.Keys(m), render.Key.Compare)
}

func (c *Cluster) imagesOf(a *app) []string {
	var out []string
	for _, l := range c.objects {
		if l.Owner == a.key() {
			out = append(out, images(l.Live)...)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// autoSync asks for an operation when the policy says so. The caller holds c.mu.
func (c *Cluster) autoSync(a *app) {
	policy, s := a.Spec.SyncPolicy, &a.Status
	if !policy.Automated || s.Sync != promo.SyncOutOfSync || a.Request != nil {
		return
	}
	if len(a.target) == 0 {
		return // as Argo CD: a commit without any manifest is taken for a mistake
	}
	onlyPruning := !slices.ContainsFunc(s.Resources, func(r promo.Resource) bool {
		return r.Sync == promo.SyncOutOfSync && !r.RequiresPruning
	})
	if onlyPruning && !policy.Prune {
		return
	}
	now := c.clock.Now()
	if last := s.LastOperation; last != nil && last.Revision == s.Revision {
		// This revision was tried. Only a drift after a success is worth another try.
		if !policy.SelfHeal || last.Phase != promo.OperationSucceeded {
			return
		}
		if again := last.FinishedAt.Add(c.timings.SelfHeal); now.Before(again) {
			c.refresh(a, again, levelLive)
			return
		}
	}
	retry := policy.Retry
	err := c.ask(a, promo.SyncRequest{Revision: s.Revision, InitiatedBy: "automated", Options: promo.SyncOptions{
		Prune: policy.Prune, ApplyOutOfSyncOnly: policy.ApplyOutOfSyncOnly, CreateNamespace: policy.CreateNamespace,
		RetryLimit: retry.Limit, RetryBackoff: retry.Wait, RetryFactor: retry.Factor, RetryMax: retry.Max,
	}})
	if err != nil { // the next comparison tries again
		c.log.Error("automated sync not started", "application", a.key(), "error", err)
	}
}
