package engine_test

import (
	"context"
	"slices"
	"strings"
	"testing"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/engine"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
)

// starter is as much of Temporal as starting needs.
type starter struct {
	client.Client
	down    bool
	started []string
	inputs  []contract.PromotionInput
}

func (s *starter) ExecuteWorkflow(_ context.Context, o client.StartWorkflowOptions, _ any, args ...any) (client.WorkflowRun, error) {
	if s.down {
		return nil, serviceerror.NewUnavailable("no")
	}
	if slices.Contains(s.started, o.ID) {
		return nil, &serviceerror.WorkflowExecutionAlreadyStarted{Message: o.ID}
	}
	s.started = append(s.started, o.ID)
	if in, ok := args[0].(contract.PromotionInput); ok {
		s.inputs = append(s.inputs, in)
	}
	return nil, nil
}

func (s *starter) DescribeWorkflowExecution(_ context.Context, id, _ string) (*workflowservice.DescribeWorkflowExecutionResponse, error) {
	return nil, serviceerror.NewNotFound(id)
}

func runnable(t *testing.T) (*world, *starter, engine.Runs) {
	t.Helper()
	w, s := newWorld(t), &starter{}
	w.engine.Temporal = s
	w.mustApply(quickstart(t, "davit"))
	return w, s, engine.Runs{Engine: w.engine}
}

func runRequest(id string) api.RunRequest {
	return api.RunRequest{Project: spec.DefaultProject, Pipeline: "checkout", Inputs: map[string]any{"version": "v1.1.0"}, RequestID: id}
}

func TestRunOncePerRequest(t *testing.T) {
	t.Parallel()
	_, s, runs := runnable(t)
	ids := map[string]string{}
	for _, step := range []struct{ who, request, same string }{
		{"ana", "r1", ""}, {"ana", "r1", "ana r1"}, {"ana", "r2", ""}, {"bob", "r1", ""}, {"bob", "", ""},
	} {
		p, err := runs.Run(t.Context(), promo.Principal{Name: step.who}, runRequest(step.request))
		if err != nil {
			t.Fatal(err)
		}
		for key, id := range ids {
			if (id == p.ID) != (key == step.same) {
				t.Errorf("%s's request %q started %s, %q started %s", step.who, step.request, p.ID, key, id)
			}
		}
		ids[step.who+" "+step.request] = p.ID
		if p.Version != "v1.1.0" || len(p.Stages) != 3 || p.PlanHash == "" || p.Phase != promo.PhasePending && step.same == "" {
			t.Errorf("got %+v", p)
		}
	}
	if len(s.started) != 4 {
		t.Errorf("started %v", s.started)
	}
}

func TestRunDeniedByPolicy(t *testing.T) {
	t.Parallel()
	w, s, runs := runnable(t)
	w.mustApply(map[string]string{"run.yaml": head + `kind: PolicySet
metadata: {name: at-run}
spec:
  entity: pipeline
  on: [run]
  policies:
    - rego: |
        package at_run
        import rego.v1
        deny contains "only bob releases" if input.metadata.user.name != "bob"
`})
	_, err := runs.Run(t.Context(), ana(), runRequest(""))
	if promo.CodeOf(err) != promo.CodePolicy || !strings.Contains(err.Error(), "only bob releases") || len(s.started) != 0 {
		t.Errorf("got %v, started %v", err, s.started)
	}
	if _, err := runs.Run(t.Context(), promo.Principal{Name: "bob"}, runRequest("")); err != nil || len(s.started) != 1 {
		t.Errorf("allowed: got %v, started %v", err, s.started)
	}
}

func TestResumeStartsWhatWasStored(t *testing.T) {
	t.Parallel()
	w, s, runs := runnable(t)
	s.down = true
	_, err := runs.Run(t.Context(), ana(), runRequest("r1"))
	if promo.CodeOf(err) != promo.CodeConnectivity {
		t.Fatalf("without Temporal: got %v", err)
	}
	s.down = false
	for range 2 {
		if err := w.engine.Resume(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	id := spec.DefaultProject + "/checkout/1"
	if len(s.started) != 1 || s.started[0] != contract.PromotionID(id) {
		t.Fatalf("started %v", s.started)
	}
	in := s.inputs[0]
	hash, err := in.Plan.Hash()
	if err != nil || hash != in.Run.PlanHash || in.Run.ID != id || in.Run.Number != 1 || in.Run.Attempt != 1 || in.Run.TriggeredBy.Name != "ana" || in.Run.Version != "v1.1.0" {
		t.Errorf("resumed with %+v, its plan's hash is %s", in.Run, hash)
	}
	// The repeated request finds the run instead of starting another.
	p, err := runs.Run(t.Context(), ana(), runRequest("r1"))
	if err != nil || p.ID != id || len(s.started) != 1 {
		t.Errorf("the request again: got %s, %v, started %v", p.ID, err, s.started)
	}
}

func TestRetry(t *testing.T) {
	t.Parallel()
	w, s, runs := runnable(t)
	p, err := runs.Run(t.Context(), ana(), runRequest(""))
	if err != nil {
		t.Fatal(err)
	}
	promotions := engine.Promotions{Engine: w.engine}
	if _, err := promotions.Retry(t.Context(), ana(), api.RetryRequest{ID: p.ID}); promo.CodeOf(err) != promo.CodeConflict {
		t.Errorf("one that runs: got %v", err)
	}
	p.Phase, p.Sequence = promo.PhaseFailed, 9
	p.Stages[0].Phase = promo.PhaseSucceeded
	if err := w.Store.RecordPromotion(t.Context(), p); err != nil {
		t.Fatal(err)
	}
	s.started = nil // the first attempt has ended
	again, err := promotions.Retry(t.Context(), promo.Principal{Name: "bob"}, api.RetryRequest{ID: p.ID})
	if err != nil || again.Attempt != 2 || again.ID != p.ID || again.Stages[0].Phase != promo.PhaseSucceeded || again.PlanHash != p.PlanHash {
		t.Fatalf("got %+v, %v", again, err)
	}
	in := s.inputs[len(s.inputs)-1]
	if in.Run.Attempt != 2 || in.Run.TriggeredBy.Name != "bob" || in.Previous == nil || in.Previous.Attempt != 1 {
		t.Errorf("started with %+v", in.Run)
	}
}
