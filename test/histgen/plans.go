package main

import (
	"context"
	"strconv"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

func lane(project, env string) contract.LaneID {
	return contract.LaneID{Project: project, Service: "checkout", Environment: env}
}

func (c *city) script(project, step string, s script) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.scripts[project+"/"+step] = s
}

func (c *city) start(ctx context.Context, in contract.PromotionInput) error {
	_, err := c.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: contract.PromotionID(in.Run.ID), TaskQueue: contract.TaskQueue}, contract.PromotionWorkflow, in)
	return err
}

func (c *city) decide(ctx context.Context, id string, approve bool) error {
	c.mu.Lock()
	c.calls["decisions"]++
	m := contract.DecideMessage{RequestID: strconv.Itoa(c.calls["decisions"]), By: promo.Principal{Name: "rita"}, Approve: approve}
	c.mu.Unlock()
	return c.update(ctx, id, contract.UpdateDecide, m)
}

func (c *city) update(ctx context.Context, id, name string, m any) error {
	h, err := c.client.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: contract.PromotionID(id), UpdateName: name, Args: []any{m}, WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return err
	}
	return h.Get(ctx, nil)
}

// step is a step as the compiler makes it.
func step(kind, name string) plan.Node {
	st := &plan.Step{
		Name: name, Path: name, Type: kind, Scope: plan.ScopeStage, Class: plan.ClassNetwork, When: plan.When{On: plan.OnSuccess},
		Timeout: time.Hour, Spec: []byte(`{}`),
	}
	n := plan.Node{Kind: plan.NodeStep, Name: name, Step: st}
	switch kind {
	case "UpdateReleaseRepo":
		st.Scope = plan.ScopeChange
	case "MergePR":
		st.Scope, st.Mutates = plan.ScopeChange, true
	case "Sync":
		st.Scope, st.Mutates, st.Agent, st.Class = plan.ScopeTarget, true, true, plan.ClassSync
	case "Verify":
		st.Scope = plan.ScopeTarget
	case "Approval", "Wait", "WaitForPR":
		n.Kind = plan.NodeGate
	}
	return n
}

func release() []plan.Node {
	return []plan.Node{step("UpdateReleaseRepo", "update"), step("MergePR", "merge"), step("Sync", "sync")}
}

func gated() plan.Stage {
	return stage("prod", agents()[:1], step("UpdateReleaseRepo", "update"), step("Approval", "sign-off"), step("MergePR", "merge"), step("Sync", "sync"))
}

func targets(names []string) []plan.Target {
	out := make([]plan.Target, len(names))
	for i, n := range names {
		out[i] = plan.Target{Name: n, Agent: n}
	}
	return out
}

func custom(name string, nodes ...plan.Node) plan.Stage {
	return plan.Stage{Name: name, Type: "Custom", When: plan.When{On: plan.OnSuccess}, FailFast: true, Nodes: nodes}
}

func stage(name string, on []string, nodes ...plan.Node) plan.Stage {
	s := custom(name, nodes...)
	s.Type, s.Environment = "Deployment", &plan.Environment{Name: name, Type: "Production"}
	s.Targets, s.Waves, s.Changes = targets(on), [][]string{on}, plan.ChangesOnce
	return s
}

// input is a promotion of the project's service; stages run one after the other.
func input(project string, number int, stages ...plan.Stage) contract.PromotionInput {
	for i := range stages {
		if i > 0 {
			stages[i].Needs = []string{stages[i-1].Name}
		}
	}
	id := project + "/checkout/" + strconv.Itoa(number)
	return contract.PromotionInput{
		Plan: plan.Plan{
			Version: plan.Version, Project: project, Pipeline: "checkout", Service: plan.Service{Name: "checkout", Branch: "main"},
			Repository: plan.Repository{Name: "deploy", Provider: "local"}, Inputs: map[string]any{"version": "v1.2.3"},
			Release: plan.Release{Version: "v1.2.3"}, Lane: plan.LaneQueue, Stages: stages,
		},
		Run: plan.RunInfo{
			ID: id, Project: project, Pipeline: "checkout", Number: number, Attempt: 1,
			TriggeredBy: promo.Principal{Name: "dana"}, PlanHash: "plan-hash",
		},
	}
}
