package sandbox

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/gitops/sandbox/appspec"
	"github.com/davit-cd/davit/internal/gitops/sandbox/render"
	"github.com/davit-cd/davit/internal/promo"
)

// maxObjects bounds what one cluster holds.
const maxObjects = 20000

// request is the operation that is pending or under way.
type request struct {
	promo.SyncRequest
	// Started is set once the operation was picked up.
	Started bool `json:"started,omitempty"`
	// Retries counts the attempts after the first.
	Retries int `json:"retries,omitempty"`
	// Waves counts the sync waves that this attempt has written.
	Waves int `json:"waves,omitempty"`
}

// ask sets an operation, if that can be saved. The last operation stays what it was until this one is picked up.
// The caller holds c.mu.
func (c *Cluster) ask(a *app, r promo.SyncRequest) error {
	a.Request = &request{SyncRequest: r}
	a.Status.PendingOperation = &promo.Operation{ID: r.ID, Revision: r.Revision, InitiatedBy: r.InitiatedBy}
	if err := c.save(); err != nil {
		a.Request, a.Status.PendingOperation = nil, nil
		return err
	}
	c.publish(a)
	key := a.key()
	c.at("operation "+key, c.clock.Now().Add(c.timings.Pickup), func(ctx context.Context) { c.advance(ctx, key) })
	return nil
}

// advance takes an operation one step further: picked up, then applied, perhaps again.
func (c *Cluster) advance(ctx context.Context, key string) {
	c.mu.Lock()
	a, ok := c.apps[key]
	if !ok || a.Request == nil {
		c.mu.Unlock()
		return
	}
	r := a.Request
	if !r.Started {
		c.pickUp(a)
		c.mu.Unlock()
		return
	}
	spec := a.Spec
	terminating := a.Status.LastOperation.Phase == promo.OperationTerminating
	c.mu.Unlock()

	var t target
	if !terminating {
		t = c.load(ctx, spec, r.Revision, false)
		if ctx.Err() != nil {
			return // the operation goes on after the restart
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if a.Request != r {
		return
	}
	if a.Status.LastOperation.Phase == promo.OperationTerminating {
		c.finish(a, promo.OperationFailed, "Operation terminated")
		return
	}
	c.attempt(a, t)
}

func (c *Cluster) pickUp(a *app) {
	r := a.Request
	r.Started = true
	a.Status.PendingOperation = nil
	a.Status.LastOperation = &promo.Operation{
		ID: r.ID, Phase: promo.OperationRunning, Message: "one or more tasks are running",
		Revision: r.Revision, StartedAt: c.clock.Now(), InitiatedBy: r.InitiatedBy,
	}
	c.publish(a)
	key := a.key()
	c.at("operation "+key, c.clock.Now().Add(c.timings.Apply), func(ctx context.Context) { c.advance(ctx, key) })
}

// attempt applies a revision, or its next wave, or says why it can't be.
func (c *Cluster) attempt(a *app, t target) {
	if t.err != nil {
		c.retryOr(a, promo.OperationError, "ComparisonError: "+t.err.Error())
		return
	}
	last := copied(a.Status.LastOperation)
	last.Revision = t.commit
	a.Status.LastOperation = last
	p, err := c.planSync(a, t)
	if err != nil {
		c.retryOr(a, promo.OperationFailed, "one or more objects failed to apply, reason: "+err.Error())
		return
	}
	o := a.Request.Options
	if o.DryRun {
		c.finish(a, promo.OperationSucceeded, "successfully synced (dry run)")
		return
	}
	waiting, err := c.proceed(a, p)
	switch {
	case err != nil:
		c.retryOr(a, promo.OperationFailed, err.Error())
	case waiting != "":
		c.wait(a, waiting)
	default:
		message := c.prune(p.prune, o.Prune)
		if len(o.Resources) == 0 {
			c.remember(a, t.commit)
		}
		c.finish(a, promo.OperationSucceeded, message)
	}
}

func (c *Cluster) remember(a *app, commit string) {
	history := append(slices.Clone(a.Status.History), promo.HistoryEntry{ID: a.NextID, Revision: commit, DeployedAt: c.clock.Now()})
	a.NextID++
	a.Status.History = history[max(0, len(history)-a.Spec.HistoryLimit):]
}

// retryOr plans another attempt while the request allows one, or else ends the operation.
func (c *Cluster) retryOr(a *app, phase promo.OperationPhase, message string) {
	r := a.Request
	if r.Retries >= r.Options.RetryLimit {
		if r.Retries > 0 {
			message += fmt.Sprintf(" (retried %d times).", r.Retries)
		}
		c.finish(a, phase, message)
		return
	}
	wait := backoff(r.Options, r.Retries)
	r.Retries++
	r.Waves = 0
	when := c.clock.Now().Add(wait)
	c.later(a, when, fmt.Sprintf("%s. Retrying attempt #%d at %s.", message, r.Retries, when.Format(time.Kitchen)))
}

// later goes on with a running operation at a time and says meanwhile why.
func (c *Cluster) later(a *app, when time.Time, message string) {
	last := copied(a.Status.LastOperation)
	if last.Message != message {
		last.Message = message
		a.Status.LastOperation = last
		c.publish(a)
	}
	key := a.key()
	c.at("operation "+key, when, func(ctx context.Context) { c.advance(ctx, key) })
}

// backoff is the wait before the next attempt, with Argo CD's defaults.
func backoff(o promo.SyncOptions, retries int) time.Duration {
	wait, factor, limit := o.RetryBackoff, o.RetryFactor, o.RetryMax
	if wait <= 0 {
		wait = 5 * time.Second
	}
	if factor <= 0 {
		factor = 2
	}
	if limit <= 0 {
		limit = 3 * time.Minute
	}
	for range retries {
		if wait *= time.Duration(factor); wait >= limit {
			break
		}
	}
	return min(wait, limit)
}

// finish ends an operation. The status is left as it is: the next comparison comes Timings.Stale later, and until
// then a reader sees the new operation beside the old status, as on a real Argo CD.
func (c *Cluster) finish(a *app, phase promo.OperationPhase, message string) {
	now := c.clock.Now()
	last := copied(a.Status.LastOperation)
	last.Phase, last.Message, last.FinishedAt = phase, message, now
	a.Status.LastOperation = last
	a.Request = nil
	a.staleUntil = now.Add(c.timings.Stale)
	delete(c.schedule, "refresh "+a.key()) // what was planned comes after the stale moment too
	c.refresh(a, a.staleUntil, levelResolve)
	if err := c.save(); err != nil { // an operation that was seen to end must not run again
		c.log.Error("state not saved", "error", err)
	}
	c.publish(a)
}

// admit checks what an API server would refuse, before anything is changed.
func (c *Cluster) admit(a *app, wanted []render.Object) error {
	create := a.Request.Options.CreateNamespace || a.Spec.SyncPolicy.CreateNamespace
	known := func(ns string) bool {
		return ns == "" || c.namespaces[ns] || create && ns == a.Spec.Destination.Namespace ||
			slices.ContainsFunc(wanted, func(o render.Object) bool { return o.Kind() == "Namespace" && o.Name() == ns })
	}
	fresh := 0
	for _, o := range wanted {
		if !known(o.Namespace()) {
			return promo.Errorf(promo.CodeSync, "namespaces %q not found", o.Namespace())
		}
		if isWorkload(o) {
			if _, err := describe(o, c.timings); err != nil {
				return err
			}
		}
		if c.objects[o.Key()] == nil {
			fresh++
		}
	}
	if len(c.objects)+fresh > maxObjects {
		return promo.Errorf(promo.CodeSync, "cluster %q is full: at most %d objects", c.name, maxObjects)
	}
	return nil
}

func (c *Cluster) write(a *app, wanted []render.Object) error {
	now := c.clock.Now()
	if a.Request.Options.CreateNamespace || a.Spec.SyncPolicy.CreateNamespace {
		c.namespaces[a.Spec.Destination.Namespace] = true
	}
	replace := a.Request.Options.Replace || a.Spec.SyncPolicy.Replace
	for _, o := range wanted {
		key := o.Key()
		l := c.objects[key]
		switch {
		case l == nil:
			l = &liveObject{Live: o.Clone()}
			c.objects[key] = l
		case replace:
			l.Live = o.Clone()
		default:
			l.Live = merge(l.Live, l.Applied, o)
		}
		l.Owner, l.Applied = a.key(), o.Clone()
		if o.Kind() == "Namespace" && o.Group() == "" {
			c.namespaces[o.Name()] = true
		}
		if err := l.react(now, c.timings); err != nil {
			return err
		}
		c.watchWorkload(key, now)
	}
	return nil
}

// prune deletes what the target no longer has, or says that it was left.
func (c *Cluster) prune(keys []render.Key, allowed bool) string { //nolint:revive // allowed is the request's own option
	var left []string
	for _, key := range keys {
		option := c.objects[key].Live.Annotation("argocd.argoproj.io/sync-options")
		if !allowed || strings.Contains(option, "Prune=false") {
			left = append(left, key.String())
			continue
		}
		c.remove(key)
	}
	if len(left) == 0 {
		return "successfully synced (all tasks run)"
	}
	slices.Sort(left)
	return "successfully synced (all tasks run); ignored (requires pruning): " + strings.Join(left, ", ")
}

func (c *Cluster) remove(key render.Key) {
	delete(c.objects, key)
	delete(c.schedule, "workload "+key.String())
	if key.Kind == "Namespace" && key.Group == "" && key.Name != appspec.DefaultNamespace {
		delete(c.namespaces, key.Name)
	}
}
