package sandbox

import (
	"bytes"
	"context"
	"reflect"

	"github.com/rogpeppe/go-internal/diff"
	"sigs.k8s.io/yaml"

	"github.com/davit-cd/davit/internal/gitops/sandbox/appspec"
	"github.com/davit-cd/davit/internal/gitops/sandbox/render"
	"github.com/davit-cd/davit/internal/promo"
)

// Applications returns all applications, sorted by namespace and name.
func (c *Cluster) Applications(context.Context) ([]promo.Application, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	out := make([]promo.Application, 0, len(c.apps))
	for _, a := range c.sortedApps() {
		out = append(out, a.snapshot())
	}
	return out, nil
}

// Get returns one application; NotFound if there is none.
func (c *Cluster) Get(_ context.Context, ref promo.ApplicationRef) (promo.Application, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, err := c.find(ref)
	if err != nil {
		return promo.Application{}, err
	}
	return a.snapshot(), nil
}

// StartSync asks for an operation and returns at once; Watch shows how it goes. A request whose id is that of the
// operation pending, under way or last does nothing. Conflict means that another operation is pending or under
// way. Once it returned nil, the request survives a crash.
func (c *Cluster) StartSync(_ context.Context, ref promo.ApplicationRef, r promo.SyncRequest) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, err := c.find(ref)
	if err != nil {
		return err
	}
	last := a.Status.LastOperation
	if r.ID != "" && (a.Request != nil && a.Request.ID == r.ID || last != nil && last.ID == r.ID) {
		return nil
	}
	if a.Request != nil {
		return promo.Errorf(promo.CodeConflict, "another operation is already in progress on %q", a.key()).
			WithHint("wait for it or terminate it")
	}
	if r.Revision == "" {
		r.Revision = a.Spec.Source.TargetRevision
	}
	return c.ask(a, r)
}

// Terminate ends the operation under way, if there is one, as Failed.
func (c *Cluster) Terminate(_ context.Context, ref promo.ApplicationRef) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, err := c.find(ref)
	if err != nil || a.Request == nil {
		return err
	}
	if !a.Request.Started {
		c.pickUp(a)
	}
	last := copied(a.Status.LastOperation)
	last.Phase, last.Message = promo.OperationTerminating, "operation is terminating"
	a.Status.LastOperation = last
	c.publish(a)
	key := a.key()
	c.at("operation "+key, c.clock.Now(), func(ctx context.Context) { c.advance(ctx, key) })
	return c.save()
}

// Refresh resolves the target revision anew and compares; hard renders it even if that was done before. It
// returns at once; ReconciledAt shows when it is done.
func (c *Cluster) Refresh(_ context.Context, ref promo.ApplicationRef, hard bool) error { //nolint:revive // Argo CD's own word
	c.mu.Lock()
	defer c.mu.Unlock()
	a, err := c.find(ref)
	if err != nil {
		return err
	}
	l := levelResolve
	if hard {
		l = levelHard
	}
	c.refresh(a, c.clock.Now(), l)
	return nil
}

// Manifests returns what the application's path renders to at a revision; "" is the target revision.
func (c *Cluster) Manifests(ctx context.Context, ref promo.ApplicationRef, revision string) ([]byte, error) {
	_, objects, err := c.renderedFor(ctx, ref, revision)
	if err != nil {
		return nil, err
	}
	return render.YAML(objects)
}

// renderedFor renders an application at a revision for a reader.
func (c *Cluster) renderedFor(ctx context.Context, ref promo.ApplicationRef, revision string) (string, []render.Object, error) {
	c.mu.Lock()
	a, err := c.find(ref)
	if err != nil {
		c.mu.Unlock()
		return "", nil, err
	}
	spec := a.Spec
	c.mu.Unlock()
	if revision == "" {
		revision = spec.Source.TargetRevision
	}
	t := c.load(ctx, spec, revision, false)
	return a.key(), t.objects, t.err
}

// Diff returns how the live objects would change if a revision were synced with pruning; "" is the target
// revision. Values of Secrets are masked.
func (c *Cluster) Diff(ctx context.Context, ref promo.ApplicationRef, revision string) ([]promo.ResourceDiff, error) {
	owner, objects, err := c.renderedFor(ctx, ref, revision)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	all, wanted := map[render.Key]render.Object{}, map[render.Key]render.Object{}
	for key, l := range c.objects {
		if l.Owner == owner {
			all[key] = l.Live
		}
	}
	for _, o := range objects {
		all[o.Key()], wanted[o.Key()] = o, o
	}
	var out []promo.ResourceDiff
	for _, key := range sortedKeys(all) {
		d, err := c.diffOne(key, all[key], wanted)
		if err != nil {
			return nil, err
		}
		if d.Unified != "" {
			out = append(out, d)
		}
	}
	return out, nil
}

func (c *Cluster) diffOne(key render.Key, o render.Object, wanted map[render.Key]render.Object) (promo.ResourceDiff, error) {
	d := promo.ResourceDiff{Resource: promo.Resource{
		Group: o.Group(), Version: o.Version(), Kind: o.Kind(), Namespace: o.Namespace(), Name: o.Name(), Sync: promo.SyncOutOfSync,
	}}
	var live, desired render.Object
	l, want := c.objects[key], wanted[key]
	if l != nil {
		live, desired = l.Live, want
		d.Health, d.Message = l.healthOf(c.clock.Now(), c.timings)
	} else {
		d.Health = promo.HealthMissing
	}
	_, isWanted := wanted[key]
	d.RequiresPruning = !isWanted
	switch {
	case isWanted && l != nil:
		desired = merge(l.Live, l.Applied, want)
	case isWanted:
		desired = want
	}
	live, desired = masked(live, desired)
	before, err := text(live)
	if err != nil {
		return d, err
	}
	after, err := text(desired)
	if err != nil {
		return d, err
	}
	d.Unified = string(unified(before, after))
	return d, nil
}

func unified(before, after []byte) []byte {
	_, body, _ := bytes.Cut(diff.Diff("live", before, "desired", after), []byte("\n")) // without its "diff live desired"
	return body
}

func text(o render.Object) ([]byte, error) {
	if o.Fields == nil {
		return nil, nil
	}
	out, err := yaml.Marshal(o.Fields)
	if err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "write %s: %w", o.Key(), err)
	}
	return out, nil
}

// masked hides the values of a Secret but not which of them differ.
func masked(live, desired render.Object) (render.Object, render.Object) {
	if live.Kind() != "Secret" && desired.Kind() != "Secret" {
		return live, desired
	}
	a, b := live.Clone(), desired.Clone()
	for _, field := range []string{"data", "stringData"} {
		old, _ := render.Dig(live.Fields, field).(map[string]any)
		wanted, _ := render.Dig(desired.Fields, field).(map[string]any)
		hide(a, field, old, func(string) string { return "++++++++" })
		hide(b, field, wanted, func(key string) string {
			if reflect.DeepEqual(old[key], wanted[key]) {
				return "++++++++"
			}
			return "++++++++ (changed)"
		})
	}
	return a, b
}

func hide(o render.Object, field string, values map[string]any, mask func(key string) string) {
	if values == nil {
		return
	}
	hidden := map[string]any{}
	for key := range values {
		hidden[key] = mask(key)
	}
	o.Fields[field] = hidden
}

func equalSpecs(a, b appspec.Application) bool { return reflect.DeepEqual(a, b) }
