// Package catalog holds the applied definitions, parsed: what a pipeline, a service, a repository is right now. It
// reads the store once per apply. Runs don't use it (their plan is frozen) but for what is read live: policy sets,
// repositories' addresses, connectors.
//
// Start reading at Catalog.
package catalog

import (
	"context"
	"maps"
	"path"
	"slices"
	"sync"

	"github.com/davit-cd/davit/internal/policy"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/internal/store"
)

// KindModule is the kind under which Rego files of an apply are stored; their name is their path.
const KindModule = "Module"

// Store keeps definitions.
type Store interface {
	Definitions(ctx context.Context, project string) ([]store.Definition, int64, error)
}

// Catalog is safe for concurrent use.
type Catalog struct {
	store Store
	lang  *spec.Language

	mu    sync.Mutex
	fresh bool
	view  View
}

// View is the definitions of one generation; it does not change.
type View struct {
	Generation int64
	Defs       *spec.Definitions
	// Modules are the Rego files by "<project>/<path>".
	Modules map[string][]byte
	Stored  []store.Definition
	// unread are the policy sets that this Davit can't read: those of an event can't be told from them.
	unread []store.Definition
}

// New returns a catalog over a store.
func New(s Store, lang *spec.Language) *Catalog { return &Catalog{store: s, lang: lang} }

// Invalidate makes the next View read the store again.
func (c *Catalog) Invalidate() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.fresh = false
}

// View returns the definitions as they are applied now.
func (c *Catalog) View(ctx context.Context) (View, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.fresh {
		return c.view, nil
	}
	stored, generation, err := c.store.Definitions(ctx, "")
	if err != nil {
		return View{}, err
	}
	if c.view.Defs != nil && generation == c.view.Generation {
		c.fresh = true // somebody was told of the same apply before
		return c.view, nil
	}
	v := View{Generation: generation, Modules: map[string][]byte{}, Stored: stored}
	var files []*spec.File
	for _, d := range stored {
		if d.Kind == KindModule {
			v.Modules[d.Project+"/"+d.Name] = d.Source
			continue
		}
		f, diags := c.lang.Parse(d.File, d.Source)
		if diags.HasErrors() {
			// It was right when it was applied; a newer Davit may be stricter. The rest must go on working.
			if d.Kind == spec.KindPolicySet {
				v.unread = append(v.unread, d)
			}
			continue
		}
		files = append(files, f)
	}
	v.Defs = spec.NewDefinitions(files...)
	c.view, c.fresh = v, true
	return v, nil
}

// With returns the view as it would be with the files, and the modules by their path, of a project.
func (v View) With(project string, files []*spec.File, modules map[string][]byte) View {
	out := View{Generation: v.Generation, Defs: v.Defs.With(files...), Modules: maps.Clone(v.Modules), Stored: v.Stored}
	for p, m := range modules {
		out.Modules[project+"/"+p] = m
	}
	for _, d := range v.unread {
		if _, replaced := out.Defs.Document(d.Kind, d.Project, d.Name); !replaced {
			out.unread = append(out.unread, d)
		}
	}
	return out
}

// Repository returns a repository's spec.
func (c *Catalog) Repository(ctx context.Context, project, name string) (*spec.RepositorySpec, error) {
	v, err := c.View(ctx)
	if err != nil {
		return nil, err
	}
	r, ok := v.Defs.Repository(project, name)
	if !ok {
		return nil, promo.Errorf(promo.CodeConfiguration, "project %q has no repository %q any more", project, name).
			WithHint("apply its definition again")
	}
	return r, nil
}

// Connector returns a connector's spec.
func (c *Catalog) Connector(ctx context.Context, project, name string) (*spec.ConnectorSpec, error) {
	v, err := c.View(ctx)
	if err != nil {
		return nil, err
	}
	s, ok := v.Defs.Connector(project, name)
	if !ok {
		return nil, promo.Errorf(promo.CodeConfiguration, "project %q has no connector %q any more", project, name).
			WithHint("apply its definition again")
	}
	return s, nil
}

// PolicySets returns the sets of a project that are for the event; with names, those and no others, whatever
// their events are. An unknown name is an error, and so is a set that can't be read or lacks a module: a gate that is
// gone must not open.
func (v View) PolicySets(project string, names []string, event policy.On) ([]policy.Set, error) {
	var out []policy.Set
	if len(names) > 0 {
		for _, n := range names {
			doc, ok := v.Defs.Document(spec.KindPolicySet, project, n)
			if !ok {
				return nil, promo.Errorf(promo.CodeConfiguration, "project %q has no policy set %q any more", project, n)
			}
			set, err := v.set(doc)
			if err != nil {
				return nil, err
			}
			out = append(out, set)
		}
		return out, nil
	}
	for _, d := range v.unread {
		if d.Project == project {
			return nil, promo.Errorf(promo.CodeConfiguration, "policy set %q of project %q can't be read by this version", d.Name, project).
				WithHint("apply it again: `davit validate` says what it does not take; or delete it")
		}
	}
	for _, doc := range v.Defs.Documents(spec.KindPolicySet) {
		ps, ok := doc.Spec.(*spec.PolicySetSpec)
		if doc.Metadata.Project != project || ok && !slices.Contains(ps.On, string(event)) {
			continue
		}
		set, err := v.set(doc)
		if err != nil {
			return nil, err
		}
		out = append(out, set)
	}
	return out, nil
}

// set makes a policy set of its document and its modules.
func (v View) set(doc *spec.Document) (policy.Set, error) {
	ps, ok := doc.Spec.(*spec.PolicySetSpec)
	if !ok {
		return policy.Set{}, promo.Errorf(promo.CodeInternal, "policy set %q has a spec of another kind", doc.Metadata.Name)
	}
	out := policy.Set{Name: doc.Metadata.Name, Project: doc.Metadata.Project, Entity: ps.Entity}
	for _, on := range ps.On {
		out.On = append(out.On, policy.On(on))
	}
	for _, p := range ps.Policies {
		rego := p.Rego
		if p.Module != "" {
			src, ok := v.Modules[doc.Metadata.Project+"/"+ModulePath(doc.File(), p.Module)]
			if !ok {
				return policy.Set{}, promo.Errorf(promo.CodeConfiguration, "policy set %q: no file %q was applied with it", out.Name, p.Module)
			}
			rego = string(src)
		}
		action := policy.Action(p.Action)
		if action == "" {
			action = policy.ActionDeny
		}
		out.Policies = append(out.Policies, policy.Policy{Module: p.Module, Rego: rego, Action: action})
	}
	return out, nil
}

// ModulePath is where a module lies that a document names: relative to the document's folder.
func ModulePath(file, module string) string { return path.Join(path.Dir(file), module) }
