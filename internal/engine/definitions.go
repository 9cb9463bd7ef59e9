package engine

import (
	"bytes"
	"context"
	"errors"
	"path"
	"slices"
	"strings"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/catalog"
	"github.com/davit-cd/davit/internal/policy"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/internal/store"
)

// Definitions keeps what is declared in YAML.
type Definitions struct{ *Engine }

// applies is how often an apply is begun anew where somebody else's came first.
const applies = 10

// Apply checks the files against each other and what is applied, asks the policies bound to saving, and stores
// all or nothing. Where other definitions were applied meanwhile, everything is checked again against those.
func (d Definitions) Apply(ctx context.Context, who promo.Principal, req api.ApplyRequest) (res api.ApplyResult, err error) {
	for range applies {
		if res, err = d.applyOnce(ctx, who, req); err == nil || promo.CodeOf(err) != promo.CodeConflict {
			break
		}
		d.Catalog.Invalidate()
	}
	return res, err
}

func (d Definitions) applyOnce(ctx context.Context, who promo.Principal, req api.ApplyRequest) (api.ApplyResult, error) {
	v, err := d.Catalog.View(ctx)
	if err != nil {
		return api.ApplyResult{}, err
	}
	files, modules, warnings, err := d.read(req, v)
	if err != nil {
		return api.ApplyResult{}, err
	}
	next := v.With(req.Project, files, modules)
	more, err := d.checkApplied(ctx, who, req.Project, files, next)
	if err == nil && len(modules) > 0 {
		err = checkPolicySets(ctx, req.Project, next) // a module alone changes the sets that name it
	}
	if err != nil {
		return api.ApplyResult{}, err
	}
	defs, changes := changed(req.Project, files, modules, v)
	if err := d.mayApply(ctx, who, defs); err != nil {
		return api.ApplyResult{}, err
	}
	res := api.ApplyResult{Changes: changes, Warnings: append(warnings, more...)}
	if req.DryRun || len(defs) == 0 {
		return res, nil
	}
	if _, err := d.Store.ApplyDefinitions(ctx, defs, who.Name, v.Generation); err != nil {
		return api.ApplyResult{}, err
	}
	d.Catalog.Invalidate()
	if err := d.host(ctx, next.Defs); err != nil {
		return api.ApplyResult{}, err
	}
	return res, d.audit(ctx, who, deed{"definition:apply", "definition", req.Project, req.Project}, changes)
}

// read parses and checks every file; all problems come at once.
func (d Definitions) read(req api.ApplyRequest, v catalog.View) ([]*spec.File, map[string][]byte, []string, error) {
	var files []*spec.File
	var diags spec.Diagnostics
	modules := map[string][]byte{}
	for _, f := range req.Files {
		name := path.Clean(f.Path)
		if strings.HasSuffix(name, ".rego") {
			modules[name] = []byte(f.Content)
			continue
		}
		parsed, ds := d.Lang.Parse(name, []byte(f.Content))
		diags = append(diags, ds...)
		if parsed != nil {
			for _, doc := range parsed.Documents {
				if doc.Metadata.Project != req.Project && req.Project != "" {
					return nil, nil, nil, promo.Errorf(promo.CodeConfiguration, "%s:%d: %s %q is of project %q, applied is project %q",
						name, doc.Line, doc.Kind, doc.Metadata.Name, doc.Metadata.Project, req.Project)
				}
			}
			files = append(files, parsed)
		}
	}
	if !diags.HasErrors() {
		diags = append(diags, d.Lang.Check(files, v.Defs)...)
	}
	if diags.HasErrors() {
		err := promo.Errorf(promo.CodeConfiguration, "%d problem(s) in what was to be applied; nothing was", len(diags))
		return nil, nil, nil, api.Diagnosed(err, diags.Strings())
	}
	return files, modules, diags.Strings(), nil
}

// checkApplied checks what only the server can: policies compile, agents were granted, policies allow the save.
func (d Definitions) checkApplied(ctx context.Context, who promo.Principal, project string, files []*spec.File, next catalog.View) ([]string, error) {
	var problems []error
	var warnings []string
	for _, f := range files {
		for _, doc := range f.Documents {
			switch s := doc.Spec.(type) {
			case *spec.PolicySetSpec:
				problems = append(problems, checkPolicySet(ctx, doc, next))
			case *spec.RoleSpec:
				problems = append(problems, checkRole(doc, s))
			case *spec.EnvironmentSpec:
				w, err := d.checkAgents(ctx, doc, s)
				warnings = append(warnings, w...)
				problems = append(problems, err)
			}
		}
	}
	if err := diagnosed(errors.Join(problems...)); err != nil {
		return nil, err
	}
	for _, f := range files {
		for _, doc := range f.Documents {
			w, err := d.maySave(ctx, who, project, doc, next)
			if err != nil {
				return nil, err
			}
			warnings = append(warnings, w...)
		}
	}
	return warnings, nil
}

// checkPolicySet compiles a policy set with its modules.
func checkPolicySet(ctx context.Context, doc *spec.Document, v catalog.View) error {
	sets, err := v.PolicySets(doc.Metadata.Project, []string{doc.Metadata.Name}, "")
	if err == nil {
		_, err = policy.CompileSet(ctx, sets[0])
	}
	return err
}

// checkPolicySets compiles every policy set of a project.
func checkPolicySets(ctx context.Context, project string, v catalog.View) error {
	var problems []error
	for _, doc := range v.Defs.Documents(spec.KindPolicySet) {
		if doc.Metadata.Project == project {
			problems = append(problems, checkPolicySet(ctx, doc, v))
		}
	}
	return diagnosed(errors.Join(problems...))
}

// diagnosed is the refusal of an apply for problems, one a line; nil for none.
func diagnosed(problems error) error {
	if problems == nil {
		return nil
	}
	lines := strings.Split(problems.Error(), "\n")
	return api.Diagnosed(promo.Errorf(promo.CodeConfiguration, "%d problem(s) in what was to be applied; nothing was", len(lines)), lines)
}

// checkAgents refuses agents that were not granted to the project; one that does not exist yet is only a warning,
// for it may be created next.
func (d Definitions) checkAgents(ctx context.Context, doc *spec.Document, env *spec.EnvironmentSpec) ([]string, error) {
	var warnings []string
	for _, t := range env.Targets {
		a, err := d.Fleet.Agent(ctx, t.Agent)
		switch {
		case promo.CodeOf(err) == promo.CodeNotFound && err != nil:
			warnings = append(warnings, doc.File()+": environment "+doc.Metadata.Name+", target "+t.Name+": agent "+t.Agent+" does not exist yet: davit agent create "+t.Agent)
		case err != nil:
			return nil, err
		case len(a.Projects) > 0 && !slices.Contains(a.Projects, doc.Metadata.Project):
			return nil, promo.Errorf(promo.CodeAuthorization, "%s: environment %q, target %q: agent %q was not granted to project %q",
				doc.File(), doc.Metadata.Name, t.Name, t.Agent, doc.Metadata.Project)
		}
	}
	return warnings, nil
}

// changed lists what differs from what is stored.
func changed(project string, files []*spec.File, modules map[string][]byte, v catalog.View) ([]store.Definition, []api.DefinitionChange) {
	stored := map[string]store.Definition{}
	for _, s := range v.Stored {
		stored[s.Kind+"/"+s.Project+"/"+s.Name] = s
	}
	var defs []store.Definition
	var changes []api.DefinitionChange
	add := func(def store.Definition) {
		old, ok := stored[def.Kind+"/"+def.Project+"/"+def.Name]
		change := "created"
		switch {
		case ok && bytes.Equal(old.Source, def.Source) && (def.Kind != spec.KindPolicySet || path.Dir(old.File) == path.Dir(def.File)):
			// A policy set in another folder names other modules by the same words.
			change = "unchanged"
		case ok:
			change = "updated"
		}
		changes = append(changes, api.DefinitionChange{Kind: def.Kind, Name: def.Name, Change: change})
		if change != "unchanged" {
			defs = append(defs, def)
		}
	}
	for _, f := range files {
		for _, doc := range f.Documents {
			add(store.Definition{Kind: doc.Kind, Project: doc.Metadata.Project, Name: doc.Metadata.Name, File: doc.File(), Line: doc.Line - 1, Source: []byte(doc.Text)})
		}
	}
	for _, p := range sortedKeys(modules) {
		add(store.Definition{Kind: catalog.KindModule, Project: project, Name: p, File: p, Source: modules[p]})
	}
	return defs, changes
}

func sortedKeys(m map[string][]byte) []string { return sortedNames(m) }

func sortedNames[T any](m map[string]T) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	slices.Sort(keys)
	return keys
}

// List returns what is applied in a project.
func (d Definitions) List(ctx context.Context, _ promo.Principal, f api.DefinitionRef) ([]api.Definition, error) {
	v, err := d.Catalog.View(ctx)
	if err != nil {
		return nil, err
	}
	var out []api.Definition
	for _, s := range v.Stored {
		if s.Project == f.Project && (f.Kind == "" || strings.EqualFold(f.Kind, s.Kind)) && (f.Name == "" || f.Name == s.Name) {
			out = append(out, definition(s))
		}
	}
	return out, nil
}

func definition(s store.Definition) api.Definition {
	return api.Definition{Kind: s.Kind, Project: s.Project, Name: s.Name, Source: string(s.Source), UpdatedBy: s.UpdatedBy, UpdatedAt: s.UpdatedAt}
}

// Get returns one definition.
func (d Definitions) Get(ctx context.Context, who promo.Principal, ref api.DefinitionRef) (api.Definition, error) {
	list, err := d.List(ctx, who, ref)
	if err != nil {
		return api.Definition{}, err
	}
	if len(list) != 1 {
		return api.Definition{}, promo.Errorf(promo.CodeNotFound, "project %q has no %s %q", ref.Project, ref.Kind, ref.Name)
	}
	return list[0], nil
}

// Delete takes a definition away, unless others refer to it or a policy denies.
func (d Definitions) Delete(ctx context.Context, who promo.Principal, ref api.DefinitionRef) error {
	v, err := d.Catalog.View(ctx)
	if err != nil {
		return err
	}
	def, err := d.Get(ctx, who, ref)
	if err != nil {
		return err
	}
	if err := d.mayTouch(ctx, who, def.Kind, def.Project, def.Name); err != nil {
		return err
	}
	if doc, ok := v.Defs.Document(def.Kind, def.Project, def.Name); ok {
		if err := d.mayDelete(ctx, who, def.Project, doc, v); err != nil {
			return err
		}
		if err := d.unused(v, def); err != nil {
			return err
		}
	}
	if def.Kind == catalog.KindModule {
		if err := moduleUnused(v, def); err != nil {
			return err
		}
	}
	if _, err := d.Store.DeleteDefinition(ctx, def.Kind, def.Project, def.Name, v.Generation); err != nil {
		return err
	}
	d.Catalog.Invalidate()
	return d.audit(ctx, who, deed{"definition:delete", def.Kind, def.Name, def.Project}, nil)
}

// moduleUnused checks that no policy set names the module: without it the set would refuse everything.
func moduleUnused(v catalog.View, def api.Definition) error {
	for _, doc := range v.Defs.Documents(spec.KindPolicySet) {
		ps, ok := doc.Spec.(*spec.PolicySetSpec)
		if !ok || doc.Metadata.Project != def.Project {
			continue
		}
		for _, p := range ps.Policies {
			if p.Module != "" && catalog.ModulePath(doc.File(), p.Module) == def.Name {
				return promo.Errorf(promo.CodeConflict, "%s %q is still referred to by policy set %q", def.Kind, def.Name, doc.Metadata.Name)
			}
		}
	}
	return nil
}

// unused checks that everything left still refers only to what is there.
func (d Definitions) unused(v catalog.View, def api.Definition) error {
	rest := v.Defs.Without(def.Kind, def.Project, def.Name)
	var files []*spec.File
	for _, s := range v.Stored {
		if s.Kind == catalog.KindModule || (s.Kind == def.Kind && s.Project == def.Project && s.Name == def.Name) {
			continue
		}
		if f, ds := d.Lang.Parse(s.File, s.Source); !ds.HasErrors() {
			files = append(files, f)
		}
	}
	if diags := d.Lang.Check(files, rest); diags.HasErrors() {
		return api.Diagnosed(promo.Errorf(promo.CodeConflict, "%s %q is still referred to", def.Kind, def.Name), diags.Strings())
	}
	return nil
}
