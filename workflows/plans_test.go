package workflows_test

import (
	"time"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

type kindInfo struct {
	scope   plan.Scope
	class   plan.Class
	mutates bool
	agent   bool
	gate    bool
}

func kinds() map[string]kindInfo {
	return map[string]kindInfo{
		"UpdateReleaseRepo": {scope: plan.ScopeChange, class: plan.ClassChange},
		"MergePR":           {scope: plan.ScopeChange, class: plan.ClassNetwork, mutates: true},
		"RevertPR":          {scope: plan.ScopeChange, class: plan.ClassChange},
		"Sync":              {scope: plan.ScopeTarget, class: plan.ClassSync, mutates: true, agent: true},
		"Verify":            {scope: plan.ScopeTarget, class: plan.ClassNetwork},
		"Http":              {scope: plan.ScopeStage, class: plan.ClassNetwork},
		"Policy":            {scope: plan.ScopeStage, class: plan.ClassQuick},
		"Approval":          {scope: plan.ScopeStage, gate: true},
		"Wait":              {scope: plan.ScopeStage, gate: true},
		"WaitForPR":         {scope: plan.ScopeStage, gate: true},
		"Rollback":          {scope: plan.ScopeStage, gate: true, mutates: true},
	}
}

type stepOption func(*plan.Step)

func on(w plan.WhenOn) stepOption { return func(s *plan.Step) { s.When.On = w } }
func when(expr string) stepOption {
	return func(s *plan.Step) { s.When = plan.When{On: plan.OnSuccess, Expr: expr} }
}
func spec(v any) stepOption { return func(s *plan.Step) { s.Spec = plan.Encode(v) } }
func timeout(d time.Duration) stepOption {
	return func(s *plan.Step) { s.Timeout = d }
}

func do(kind, name string, opts ...stepOption) plan.Node {
	k := kinds()[kind]
	st := &plan.Step{
		Name: name, Path: name, Type: kind, Scope: k.scope, Class: k.class, Mutates: k.mutates, Agent: k.agent,
		When: plan.When{On: plan.OnSuccess}, Timeout: time.Hour, Spec: []byte(`{}`),
	}
	for _, o := range opts {
		o(st)
	}
	kindOf := plan.NodeStep
	if k.gate {
		kindOf = plan.NodeGate
	}
	return plan.Node{Kind: kindOf, Name: name, Step: st}
}

func parallel(nodes ...plan.Node) plan.Node {
	return plan.Node{Kind: plan.NodeParallel, Nodes: nodes}
}

func group(name string, nodes ...plan.Node) plan.Node {
	for _, st := range plan.Steps(nodes) {
		st.Path = name + "/" + st.Path
	}
	return plan.Node{Kind: plan.NodeSequence, Name: name, Nodes: nodes}
}

// stage is a Deployment into the environment of its name, with a target per name.
func stage(name string, targets []string, nodes ...plan.Node) plan.Stage {
	s := plan.Stage{
		Name: name, Type: "Deployment", Environment: &plan.Environment{Name: name, Type: "Production"},
		When: plan.When{On: plan.OnSuccess}, Changes: plan.ChangesOnce, FailFast: true, Nodes: nodes,
	}
	for _, t := range targets {
		s.Targets = append(s.Targets, plan.Target{Name: t, Agent: "agent-" + t})
	}
	s.Waves = [][]string{targets}
	return s
}

// custom is a stage without environment.
func custom(name string, nodes ...plan.Node) plan.Stage {
	return plan.Stage{Name: name, Type: "Custom", When: plan.When{On: plan.OnSuccess}, FailFast: true, Nodes: nodes}
}

// release is what most deployments do.
func release() []plan.Node {
	return []plan.Node{do("UpdateReleaseRepo", "update"), do("MergePR", "merge"), do("Sync", "sync")}
}

func input(stages ...plan.Stage) contract.PromotionInput {
	return contract.PromotionInput{
		Plan: plan.Plan{
			Version: plan.Version, Project: "default", Pipeline: "checkout", Service: plan.Service{Name: "checkout", Branch: "main"},
			Repository: plan.Repository{Name: "deploy", Provider: "local"}, Inputs: map[string]any{"version": "v1.2.3"},
			Release: plan.Release{Version: "v1.2.3"}, Lane: plan.LaneQueue, Stages: stages,
		},
		Run: plan.RunInfo{
			ID: "default/checkout/1", Project: "default", Pipeline: "checkout", Number: 1, Attempt: 1,
			TriggeredBy: promo.Principal{Name: "dana"}, PlanHash: "plan-hash",
		},
	}
}
