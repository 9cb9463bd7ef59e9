package spec

import (
	"errors"
	"fmt"
	"strings"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec/expression"
)

// servicePaths checks the paths that a service declares.
func (c *check) servicePaths(s *ServiceSpec) {
	if s.Path != "" && s.Path != "." {
		c.insideTree("spec.path", s.Path)
	}
	for i, p := range s.Shared {
		c.insideTree(fmt.Sprintf("spec.shared[%d]", i), p)
	}
	for _, env := range sortedKeys(s.Environments) {
		paths := s.Environments[env].Paths
		if len(paths) == 0 {
			c.report("spec.environments."+env, "owned-paths", fmt.Sprintf("service owns nothing in environment %q", env), "name at least one path")
		}
		for i, p := range paths {
			c.insideTree(fmt.Sprintf("spec.environments.%s.paths[%d]", env, i), p)
		}
	}
}

func (c *check) insideTree(path, value string) {
	if value == "." {
		return
	}
	if why := plan.BadPath(value); why != "" {
		c.report(path, "path", fmt.Sprintf("path %q %s", value, why), "write a plain path inside the repository")
	}
}

// owner is who owns a path.
type owner struct {
	doc  *Document
	env  string
	path string // of the entry in the document
	// place is repository, branch and path.
	place string
}

func (o owner) String() string {
	return fmt.Sprintf("service %q in environment %q", o.doc.Metadata.Name, o.env)
}

// checkOverlaps reports owned paths that lie in each other, over all services of a repository and branch. A problem
// is reported in the files that are checked, once.
func checkOverlaps(files []*File, defs *Definitions, diags *Diagnostics) {
	own := map[*Document]bool{}
	for _, f := range files {
		for _, d := range f.Documents {
			own[d] = true
		}
	}
	places := map[string]owner{} // repository, branch and path → first owner
	for _, doc := range defs.Documents(KindService) {
		for _, o := range ownersOf(defs, doc) {
			if other, taken := places[o.place]; taken {
				overlap(o, other, own, diags)
				continue
			}
			places[o.place] = o
		}
	}
	for _, at := range sortedKeys(places) {
		tree, path, _ := strings.Cut(at, "\x00")
		for path != "" {
			path = path[:max(0, strings.LastIndexByte(path, '/'))]
			if other, taken := places[tree+"\x00"+path]; taken {
				overlap(places[at], other, own, diags)
			}
		}
	}
}

// ownersOf lists what a service owns.
func ownersOf(defs *Definitions, doc *Document) []owner {
	s, ok := doc.Spec.(*ServiceSpec)
	if !ok {
		return nil
	}
	var out []owner
	tree := treeOf(defs, doc, s)
	for _, env := range sortedKeys(s.Environments) {
		for i, p := range s.Environments[env].Paths {
			out = append(out, owner{
				doc: doc, env: env, path: fmt.Sprintf("spec.environments.%s.paths[%d]", env, i),
				place: tree + plan.JoinPath(s.Path, p),
			})
		}
	}
	return out
}

func overlap(o, other owner, own map[*Document]bool, diags *Diagnostics) {
	if o.doc == other.doc && o.env == other.env {
		return // the same owner may say a thing twice
	}
	if !own[o.doc] || own[other.doc] && o.doc.ID() < other.doc.ID() {
		o, other = other, o
	}
	if !own[o.doc] {
		return
	}
	*diags = append(*diags, o.doc.at(o.path, "owned-paths", fmt.Sprintf("path overlaps with one of %s (%s:%d)",
		other, other.doc.File(), other.doc.node(other.path).Line), "give every service and environment a folder of its own"))
}

// treeOf names the tree that a service's files lie in: two repositories of one URL are the same.
func treeOf(defs *Definitions, doc *Document, s *ServiceSpec) string {
	place := doc.Metadata.Project + "/" + s.Repository
	if r, ok := defs.Repository(doc.Metadata.Project, s.Repository); ok && r.URL != "" {
		place = strings.TrimSuffix(strings.TrimSuffix(r.URL, "/"), ".git")
	}
	return place + "#" + s.Branch + "\x00"
}

// ownedPaths checks the files of edits, as far as their paths are known before the run.
func (s *stageCheck) ownedPaths() {
	if s.service == nil || s.stage.Environment == "" {
		return
	}
	for _, p := range s.steps {
		if p.step.Type != typeUpdate || p.step.parsed == nil {
			continue
		}
		if r := declaredText(p.step, "repository"); r != "" && r != s.service.Repository && !expression.Has(r) {
			s.report(p.path+".spec.repository", "owned-paths", fmt.Sprintf("service %q owns nothing in repository %q", s.pipeline.Service, r),
				fmt.Sprintf("leave it out, or say %s", s.service.Repository))
		}
		folder := s.service.Path
		if own := declaredText(p.step, "path"); own != "" {
			folder = own
		}
		for i, f := range filesOf(p.step) {
			path, _ := f["path"].(string)
			shared, _ := f["shared"].(bool)
			if path == "" {
				continue
			}
			if e := s.allowed(plan.JoinPath(folder, path), shared); e != nil {
				s.report(fmt.Sprintf("%s.spec.files[%d].path", p.path, i), "owned-paths", e.Msg, e.Hint)
			}
		}
	}
}

// allowed judges a path; where it holds an expression, the part before it.
func (s *stageCheck) allowed(path string, shared bool) *promo.Error { //nolint:revive // a fact about the file entry
	head, _, dynamic := strings.Cut(path, "${{")
	if !dynamic {
		var e *promo.Error
		errors.As(s.owned.Allow(path, shared), &e)
		return e
	}
	places := s.owned.Owned
	if shared {
		places = s.owned.Shared
	}
	folder := head[:max(0, strings.LastIndexByte(head, '/'))]
	if why := plan.BadPath(folder); why != "" && folder != "" {
		return promo.Errorf(promo.CodeConfiguration, "path %q %s", path, why)
	}
	for _, p := range places {
		if plan.Below(folder, p) || plan.Below(p, folder) {
			return nil
		}
	}
	return promo.Errorf(promo.CodeConfiguration, "path %q is outside the paths that service %q may change here", path, s.pipeline.Service).
		WithHint("allowed is what lies below %s", strings.Join(places, ", "))
}
