package sandbox

import (
	"context"

	"github.com/davit-cd/davit/internal/gitops/sandbox/render"
	"github.com/davit-cd/davit/internal/promo"
)

// LiveEdit is what a person does with kubectl behind Git's back: exactly one of Replicas, Image and Delete.
type LiveEdit struct {
	// Resource names the object; an empty namespace is the application's.
	Resource promo.ResourceRef
	// Replicas sets spec.replicas.
	Replicas *int
	// Image sets the image of Container, or of the first container.
	Image     string
	Container string
	// Delete deletes the object.
	Delete bool
}

func (e LiveEdit) check() error {
	given := 0
	for _, is := range []bool{e.Replicas != nil, e.Image != "", e.Delete} {
		if is {
			given++
		}
	}
	if given != 1 {
		return promo.Errorf(promo.CodeConfiguration, "an edit of a live object sets replicas or an image, or deletes; this one asks for %d of them", given)
	}
	return nil
}

// EditLive changes a live object of an application, which makes it drift from Git.
func (c *Cluster) EditLive(_ context.Context, ref promo.ApplicationRef, e LiveEdit) error {
	if err := e.check(); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	a, err := c.find(ref)
	if err != nil {
		return err
	}
	key := render.Key{Group: e.Resource.Group, Kind: e.Resource.Kind, Namespace: e.Resource.Namespace, Name: e.Resource.Name}
	if key.Namespace == "" {
		key.Namespace = a.Spec.Destination.Namespace
	}
	l, ok := c.objects[key]
	if !ok || l.Owner != a.key() {
		return promo.Errorf(promo.CodeNotFound, "%s is no live object of application %q", key, a.key())
	}
	now := c.clock.Now()
	if e.Delete {
		c.remove(key)
	} else {
		edited := *l
		edited.Live = l.Live.Clone()
		if err := edit(edited.Live, e); err != nil {
			return err
		}
		if err := edited.react(now, c.timings); err != nil {
			return err
		}
		*l = edited
		c.watchWorkload(key, now)
	}
	c.refresh(a, now.Add(c.timings.Pickup), levelLive)
	return c.save()
}

func edit(o render.Object, e LiveEdit) error {
	spec, ok := o.Fields["spec"].(map[string]any)
	if !ok {
		return promo.Errorf(promo.CodeConfiguration, "%s has no spec to edit", o.Key())
	}
	if e.Replicas != nil {
		spec["replicas"] = float64(*e.Replicas)
		return nil
	}
	list, _ := render.Dig(spec, "template", "spec", "containers").([]any)
	for _, item := range list {
		container, ok := item.(map[string]any)
		if ok && (e.Container == "" || container["name"] == e.Container) {
			container["image"] = e.Image
			return nil
		}
	}
	return promo.Errorf(promo.CodeNotFound, "%s has no container %q", o.Key(), e.Container)
}
