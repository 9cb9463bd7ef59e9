package sandbox

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/davit-cd/davit/internal/gitops/sandbox/render"
	"github.com/davit-cd/davit/internal/promo"
)

// syncPlan is what an operation has to do.
type syncPlan struct {
	// waves are the objects to write, by argocd.argoproj.io/sync-wave.
	waves [][]render.Object
	// prune are the live objects that the revision no longer has.
	prune []render.Key
}

// planSync finds out what an operation has to do and whether the cluster would admit it.
func (c *Cluster) planSync(a *app, t target) (syncPlan, error) {
	o := a.Request.Options
	selected := func(k render.Key) bool {
		return len(o.Resources) == 0 || slices.ContainsFunc(o.Resources, func(r promo.ResourceRef) bool {
			return r.Group == k.Group && r.Kind == k.Kind && r.Name == k.Name && (r.Namespace == "" || r.Namespace == k.Namespace)
		})
	}
	var (
		p      syncPlan
		wanted []render.Object
		keep   = map[render.Key]bool{}
	)
	for _, obj := range t.objects {
		keep[obj.Key()] = true
		if selected(obj.Key()) {
			wanted = append(wanted, obj)
		}
	}
	for key, l := range c.objects {
		if l.Owner == a.key() && !keep[key] && selected(key) {
			p.prune = append(p.prune, key)
		}
	}
	if len(o.Resources) > 0 && len(wanted)+len(p.prune) == 0 {
		return p, promo.Errorf(promo.CodeSync, "none of the selected resources is in the manifests")
	}
	p.waves = byWave(wanted)
	return p, c.admit(a, wanted)
}

func byWave(objects []render.Object) [][]render.Object {
	waves := map[int][]render.Object{}
	for _, o := range objects {
		n, err := strconv.Atoi(o.Annotation("argocd.argoproj.io/sync-wave"))
		if err != nil {
			n = 0 // as Argo CD
		}
		waves[n] = append(waves[n], o)
	}
	var out [][]render.Object
	for _, n := range slices.Sorted(maps.Keys(waves)) {
		out = append(out, waves[n])
	}
	return out
}

// proceed writes what is next. An operation with one wave ends when that is written, whatever becomes of its pods;
// one with several waits until each is healthy, the last one too, and says for what.
func (c *Cluster) proceed(a *app, p syncPlan) (waiting string, err error) {
	r := a.Request
	if len(p.waves) <= 1 {
		for _, objects := range p.waves {
			err = c.write(a, objects)
		}
		return "", err
	}
	now := c.clock.Now()
	for _, o := range slices.Concat(p.waves[:min(r.Waves, len(p.waves))]...) {
		l := c.objects[o.Key()]
		if l == nil {
			continue // someone deleted it; the next comparison shows that
		}
		health, message := l.healthOf(now, c.timings)
		if health == promo.HealthDegraded {
			return "", promo.Errorf(promo.CodeSync, "one or more synchronization tasks completed unsuccessfully, reason: %s", message)
		}
		if health != "" && health != promo.HealthHealthy {
			return "waiting for healthy state of " + strings.ReplaceAll(o.Key().String(), " ", "/"), nil
		}
	}
	if r.Waves >= len(p.waves) {
		return "", nil
	}
	objects := p.waves[r.Waves]
	r.Waves++
	c.changed()
	return "waiting for completion of wave " + strconv.Itoa(r.Waves) + " of " + strconv.Itoa(len(p.waves)), c.write(a, objects)
}

// wait looks again soon; the pods need longer than that.
func (c *Cluster) wait(a *app, message string) {
	c.later(a, c.clock.Now().Add(c.timings.Apply), message)
	c.refresh(a, c.clock.Now().Add(c.timings.Stale), levelLive)
}
