package policy

import (
	"encoding/json"
	"os"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/plan"
)

// TestBuild compares the whole document with the one that the language page promises.
func TestBuild(t *testing.T) {
	t.Parallel()
	p := samplePlan()
	pipeline, err := FromPlan(p, "acme")
	if err != nil {
		t.Fatal(err)
	}
	started := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	step, err := FromStep(p.Stages[0].Nodes[0].Step)
	if err != nil {
		t.Fatal(err)
	}
	doc := Build(pipeline, Event{
		Metadata: Metadata{Action: "step", Type: "pipeline", Timestamp: started, User: User{Name: "davit"}, Project: "shop"},
		Run:      &Run{ID: "shop/checkout/7", Number: 7, Attempt: 1, TriggeredBy: "dave", StartedAt: started},
		Release:  &Release{Service: "checkout", Version: "v1.2.3"}, Stage: StageOf(&p.Stages[0]), Step: &step,
		Target:      &Target{Name: "us-east", Agent: "us"},
		PullRequest: &PullRequest{Number: 3, Author: "dave"},
		Diff:        &Diff{Digest: "abc", Files: []FileDiff{{Path: "prod/values.yaml", Old: "1", New: "2"}}},
	})
	got, err := json.MarshalIndent(doc, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	want, err := os.ReadFile("testdata/document.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), string(got)+"\n"); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

func samplePlan() *plan.Plan {
	node := func(name, kind string) plan.Node {
		return plan.Node{Kind: plan.NodeStep, Name: name, Step: &plan.Step{Name: name, Type: kind}}
	}
	first := plan.Node{Kind: plan.NodeStep, Step: &plan.Step{Name: "update", Type: "UpdateReleaseRepo", Spec: json.RawMessage(`{"files":[{"path":"a"}]}`)}}
	gate := plan.Node{Kind: plan.NodeGate, Step: &plan.Step{Name: "sign-off", Type: "Approval"}}
	return &plan.Plan{
		Project: "shop", Pipeline: "checkout", Labels: map[string]string{"team": "payments"},
		Stages: []plan.Stage{{
			Name: "prod", Type: "Deployment", Environment: &plan.Environment{Name: "prod", Type: "Production"},
			Nodes: []plan.Node{
				first, gate,
				{Kind: plan.NodeParallel, Nodes: []plan.Node{node("one", "Http"), {Kind: plan.NodeSequence, Name: "smoke", Nodes: []plan.Node{node("two", "Http")}}}},
			},
			RollbackNodes: []plan.Node{node("undo", "RevertPR")},
		}, {Name: "done", Type: "Approval"}},
	}
}

func TestFromPlanRefuses(t *testing.T) {
	t.Parallel()
	for name, n := range map[string]plan.Node{
		"no step":      {Kind: plan.NodeStep},
		"unknown kind": {Kind: "loop"},
		"bad spec":     {Kind: plan.NodeSequence, Nodes: []plan.Node{{Kind: plan.NodeStep, Step: &plan.Step{Spec: json.RawMessage(`[]`)}}}},
	} {
		if _, err := FromPlan(&plan.Plan{Stages: []plan.Stage{{Nodes: []plan.Node{n}}}}, ""); err == nil {
			t.Errorf("%s: want an error", name)
		}
		if _, err := FromPlan(&plan.Plan{Stages: []plan.Stage{{RollbackNodes: []plan.Node{n}}}}, ""); err == nil {
			t.Errorf("%s in rollback: want an error", name)
		}
	}
}

// TestAbsentIsUndefined: a policy about a part that the event doesn't have must not see an empty one.
func TestAbsentIsUndefined(t *testing.T) {
	t.Parallel()
	m := compile(t, "a.rego", `package a
deny contains part if {
	some part in ["pipeline", "run", "release", "stage", "step", "target", "pullRequest", "diff", "verification"]
	input[part]
}
deny contains "steps" if count(input.steps) > 0`)
	got, err := m.Eval(t.Context(), Build(nil, Event{}))
	if err != nil || len(got.Deny) != 0 {
		t.Errorf("got %v, %v", got.Deny, err)
	}
}
