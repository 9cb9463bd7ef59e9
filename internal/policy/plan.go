package policy

import (
	"encoding/json"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// FromPlan shows a compiled plan as a pipeline. Expressions in specs stay as they are written. org is the
// project's organisation, empty where it has none.
func FromPlan(p *plan.Plan, org string) (*Pipeline, error) {
	out := &Pipeline{Name: p.Pipeline, Labels: p.Labels, Project: p.Project, Org: org}
	for _, s := range p.Stages {
		steps, err := fromNodes(s.Nodes)
		if err != nil {
			return nil, err
		}
		rollback, err := fromNodes(s.RollbackNodes)
		if err != nil {
			return nil, err
		}
		stage := Stage{Name: s.Name, Type: s.Type, Steps: steps, RollbackSteps: rollback}
		if s.Environment != nil {
			stage.Environment = s.Environment.Name
		}
		out.Stages = append(out.Stages, stage)
	}
	return out, nil
}

func fromNodes(nodes []plan.Node) ([]Node, error) {
	out := make([]Node, 0, len(nodes))
	for _, n := range nodes {
		node, err := fromNode(n)
		if err != nil {
			return nil, err
		}
		out = append(out, node)
	}
	return out, nil
}

func fromNode(n plan.Node) (Node, error) {
	switch n.Kind {
	case plan.NodeSequence:
		steps, err := fromNodes(n.Nodes)
		return Node{Name: n.Name, Group: steps}, err
	case plan.NodeParallel:
		steps, err := fromNodes(n.Nodes)
		return Node{Parallel: steps}, err
	case plan.NodeStep, plan.NodeGate:
		if n.Step == nil {
			return Node{}, promo.Errorf(promo.CodeInternal, "plan: node %q has no step", n.Name)
		}
		return FromStep(n.Step)
	}
	return Node{}, promo.Errorf(promo.CodeInternal, "plan: unknown node kind %q", n.Kind)
}

// FromStep shows one step of a plan.
func FromStep(s *plan.Step) (Node, error) {
	spec := map[string]any{}
	if len(s.Spec) > 0 {
		if err := json.Unmarshal(s.Spec, &spec); err != nil {
			return Node{}, promo.Errorf(promo.CodeInternal, "plan: spec of step %q: %w", s.Path, err)
		}
	}
	return Node{Name: s.Name, Type: s.Type, Spec: spec}, nil
}

// StageOf shows a stage of a plan as the stage of an event.
func StageOf(s *plan.Stage) *StageRef {
	ref := &StageRef{Name: s.Name, Type: s.Type}
	if s.Environment != nil {
		ref.Environment, ref.EnvironmentType = s.Environment.Name, s.Environment.Type
	}
	return ref
}
