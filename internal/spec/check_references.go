package spec

import (
	"fmt"
	"slices"

	"github.com/davit-cd/davit/internal/spec/expression"
)

// refers reports a name that stands for nothing in the document's project.
func (c *check) refers(path, kind, name string) {
	if name == "" {
		return // missing, which Parse has said
	}
	if _, ok := c.defs.Document(kind, c.project(), name); ok {
		return
	}
	known := c.defs.Names(kind, c.project())
	hint := expression.Suggest(name, known, "there are")
	if len(known) == 0 {
		hint = fmt.Sprintf("project %q has none; declare it with kind: %s", c.project(), kind)
	}
	c.report(path, "reference", fmt.Sprintf("unknown %s %q", nounOf(kind), name), hint)
}

func nounOf(kind string) string {
	switch kind {
	case KindPolicySet:
		return "policy set"
	case KindRoleBinding:
		return "role binding"
	case KindProject:
		return "project"
	case KindRepository:
		return "repository"
	case KindService:
		return "service"
	case KindEnvironment:
		return "environment"
	case KindConnector:
		return "connector"
	case KindRole:
		return "role"
	}
	return "pipeline"
}

// builtinRoles are there without being declared.
func builtinRoles() []string { return []string{"viewer", "developer", "approver", "admin"} }

// references checks what a document names, steps aside.
func (c *check) references() {
	if p := c.project(); p != DefaultProject && c.doc.Kind != KindProject && isName(p) {
		if _, ok := c.defs.Document(KindProject, p, p); !ok {
			var known []string
			for _, d := range c.defs.Documents(KindProject) {
				known = append(known, d.Metadata.Name)
			}
			c.report("metadata.project", "reference", fmt.Sprintf("unknown project %q", p),
				expression.Suggest(p, append(known, DefaultProject), "there are"))
		}
	}
	switch s := c.doc.Spec.(type) {
	case *ServiceSpec:
		c.refers("spec.repository", KindRepository, s.Repository)
		for _, env := range sortedKeys(s.Environments) {
			c.refers("spec.environments."+env, KindEnvironment, env)
		}
	case *RoleBindingSpec:
		if !slices.Contains(builtinRoles(), s.Role) {
			c.refers("spec.role", KindRole, s.Role)
		}
		if len(s.Users)+len(s.Groups) == 0 {
			c.report("spec", "reference", "binding names nobody", "add users: or groups:")
		}
	case *PipelineSpec:
		c.refers("spec.service", KindService, s.Service)
		c.policySets("spec.policies", s.Policies)
		for i := range s.Stages {
			c.stageReferences(s, i)
		}
	}
}

func (c *check) policySets(path string, names []string) {
	for i, name := range names {
		c.refers(fmt.Sprintf("%s[%d]", path, i), KindPolicySet, name)
	}
}

func (c *check) stageReferences(p *PipelineSpec, i int) {
	s, path := &p.Stages[i], stagePath(i)
	c.policySets(path+".policies", s.Policies)
	if s.Environment == "" {
		return
	}
	c.refers(path+".environment", KindEnvironment, s.Environment)
	service, ok := c.defs.Service(c.project(), p.Service)
	if !ok {
		return
	}
	if _, has := service.Environments[s.Environment]; !has {
		c.report(path+".environment", "reference",
			fmt.Sprintf("service %q has no environment %q", p.Service, s.Environment),
			expression.Suggest(s.Environment, sortedKeys(service.Environments), "it has"))
	}
}

// policySet demands that every entry is a module or a text.
func (c *check) policySet(s *PolicySetSpec) {
	for i, p := range s.Policies {
		path := fmt.Sprintf("spec.policies[%d]", i)
		if p.Module != "" {
			c.insideTree(path+".module", p.Module)
		}
		switch {
		case p.Module == "" && p.Rego == "":
			c.report(path, "policy-set", "policy has no module", "add module: (a .rego file) or rego: (the text)")
		case p.Module != "" && p.Rego != "":
			c.report(path, "policy-set", "module and rego exclude each other", "keep one of them")
		}
	}
}

// stepReferences checks the policy sets and connectors that steps name.
func (s *stageCheck) stepReferences() {
	for _, p := range s.steps {
		s.policySets(p.path+".policies", p.step.Policies)
		if p.step.parsed == nil {
			continue
		}
		if p.step.Type == typePolicy {
			if sets, ok := p.step.parsed.declared["sets"].([]any); ok {
				for i, v := range sets {
					s.namedIn(v, fmt.Sprintf("%s.spec.sets[%d]", p.path, i), KindPolicySet)
				}
			}
		}
		s.connectors(p.step.parsed.declared, p.path+".spec")
	}
}

func (s *stageCheck) namedIn(v any, path, kind string) {
	if name, ok := v.(string); ok && !expression.Has(name) {
		s.refers(path, kind, name)
	}
}

// connectors finds the key `connector` anywhere in a spec.
func (s *stageCheck) connectors(v any, path string) {
	switch t := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(t) {
			if k == "connector" {
				s.namedIn(t[k], joinPath(path, k), KindConnector)
				continue
			}
			s.connectors(t[k], joinPath(path, k))
		}
	case []any:
		for i, e := range t {
			s.connectors(e, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}
