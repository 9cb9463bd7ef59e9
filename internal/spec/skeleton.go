package spec

import (
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// Skeleton is the plan of a checked pipeline without inputs: its shape, as policies see it when it is saved.
func (l *Language) Skeleton(defs *Definitions, doc *Document) (*plan.Plan, error) {
	spec, ok := doc.Spec.(*PipelineSpec)
	if !ok {
		return nil, promo.Errorf(promo.CodeInternal, "%s %q is no pipeline", doc.Kind, doc.Metadata.Name)
	}
	c := &compiler{lang: l, defs: defs, doc: doc, spec: spec, project: doc.Metadata.Project}
	return c.compile(nil, Request{})
}

// CompileService resolves a service's paths from the repository's root.
func CompileService(name string, s *ServiceSpec) plan.Service { return compileService(name, s) }

// CompileTargets lists an environment's targets as plans hold them.
func CompileTargets(env *EnvironmentSpec) []plan.Target {
	out := make([]plan.Target, len(env.Targets))
	for i, t := range env.Targets {
		out[i] = plan.Target{Name: t.Name, Agent: t.Agent, Region: t.Region, Labels: t.Labels}
	}
	return out
}
