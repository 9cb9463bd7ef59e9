package engine

import (
	"context"
	"encoding/json"
	"errors"
	"strconv"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/policy"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/internal/store"
)

// Runs starts promotions and says what one would do.
type Runs struct{ *Engine }

// Run compiles the pipeline, asks the policies bound to runs, and starts the promotion. The same request id starts
// nothing twice.
func (r Runs) Run(ctx context.Context, who promo.Principal, req api.RunRequest) (promo.Promotion, error) {
	key := "run/" + req.Project + "/" + who.Name + "/" + req.RequestID
	if req.RequestID != "" {
		id, err := r.Store.Meta(ctx, key)
		if err == nil && id != "" {
			return r.Store.Promotion(ctx, id)
		}
		if err != nil && promo.CodeOf(err) != promo.CodeNotFound {
			return promo.Promotion{}, err
		}
	}
	p, hash, err := r.compile(ctx, req)
	if err != nil {
		return promo.Promotion{}, err
	}
	number, err := r.Store.NextNumber(ctx, req.Project, req.Pipeline)
	if err != nil {
		return promo.Promotion{}, err
	}
	info := plan.RunInfo{
		ID: req.Project + "/" + req.Pipeline + "/" + strconv.Itoa(number), Project: req.Project, Pipeline: req.Pipeline,
		Number: number, Attempt: 1, TriggeredBy: who, PlanHash: hash, Version: p.Release.Version, StartedAt: r.Now().UTC(),
	}
	info.URL = r.URL + "/projects/" + req.Project + "/promotions/" + req.Pipeline + "/" + strconv.Itoa(number)
	if err := r.allowed(ctx, p, info, policy.OnRun); err != nil {
		return promo.Promotion{}, err
	}
	in := contract.PromotionInput{Plan: *p, Run: info, Automatic: req.Automatic, Only: req.Only}
	state := pending(in)
	if err := r.create(ctx, state, in); err != nil {
		return promo.Promotion{}, err
	}
	if req.RequestID != "" {
		if err := r.Store.SetMeta(ctx, key, info.ID); err != nil {
			return promo.Promotion{}, err
		}
	}
	if err := r.start(ctx, in); err != nil {
		return promo.Promotion{}, err
	}
	return state, r.audit(ctx, who, deed{"promotion:run", "promotion", info.ID, req.Project}, map[string]any{"inputs": req.Inputs, "plan": hash, "automatic": req.Automatic})
}

// compile makes the plan from what is applied now.
func (e *Engine) compile(ctx context.Context, req api.RunRequest) (*plan.Plan, string, error) {
	v, err := e.Catalog.View(ctx)
	if err != nil {
		return nil, "", err
	}
	p, err := e.Lang.Compile(v.Defs, req.Project+"/"+req.Pipeline, spec.Request{Inputs: req.Inputs, Only: req.Only})
	if err != nil {
		return nil, "", err
	}
	hash, err := p.Hash()
	if err != nil {
		return nil, "", promo.Errorf(promo.CodeInternal, "%w", err)
	}
	return p, hash, nil
}

// create stores the run before it is started, so that a crash in between loses nothing: Resume starts it.
func (e *Engine) create(ctx context.Context, state promo.Promotion, in contract.PromotionInput) error {
	raw, err := json.Marshal(in.Plan)
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "plan of %s: %w", state.ID, err)
	}
	return e.Store.CreatePromotion(ctx, state, raw)
}

func (e *Engine) start(ctx context.Context, in contract.PromotionInput) error {
	_, err := e.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: contract.PromotionID(in.Run.ID), TaskQueue: contract.TaskQueue,
		EnableEagerStart:         true,                                           // the worker of this process begins at once, without a trip through matching
		WorkflowIDReusePolicy:    enums.WORKFLOW_ID_REUSE_POLICY_ALLOW_DUPLICATE, // a retry is a new run of the same id
		WorkflowIDConflictPolicy: enums.WORKFLOW_ID_CONFLICT_POLICY_FAIL,
		TypedSearchAttributes: temporal.NewSearchAttributes(
			contract.AttrProject.ValueSet(in.Run.Project), contract.AttrPipeline.ValueSet(in.Run.Pipeline),
			contract.AttrService.ValueSet(in.Plan.Service.Name)),
	}, contract.PromotionWorkflow, in)
	if _, ok := errors.AsType[*serviceerror.WorkflowExecutionAlreadyStarted](err); ok {
		return nil
	}
	return wireError(err)
}

// pending is the state that people see until the workflow records its own.
func pending(in contract.PromotionInput) promo.Promotion {
	p := promo.Promotion{
		ID: in.Run.ID, Project: in.Run.Project, Pipeline: in.Run.Pipeline, Service: in.Plan.Service.Name, Number: in.Run.Number,
		Attempt: in.Run.Attempt, Version: in.Plan.Release.Version, Automatic: in.Automatic, Only: in.Only, Inputs: in.Plan.Inputs, TriggeredBy: in.Run.TriggeredBy.Name,
		PlanHash: in.Run.PlanHash, Phase: promo.PhasePending, StartedAt: in.Run.StartedAt, Sequence: in.Sequence, Stages: []promo.Stage{},
	}
	for _, s := range in.Plan.Stages {
		st := promo.Stage{Name: s.Name, Type: s.Type, Phase: promo.PhasePending, Steps: []promo.Step{}}
		if s.Environment != nil {
			st.Environment = s.Environment.Name
		}
		p.Stages = append(p.Stages, st)
	}
	return p
}

// input makes what a stored promotion is started with.
func (e *Engine) input(ctx context.Context, p promo.Promotion) (contract.PromotionInput, error) {
	in := contract.PromotionInput{Automatic: p.Automatic, Only: p.Only, Run: plan.RunInfo{
		ID: p.ID, Project: p.Project, Pipeline: p.Pipeline, Number: p.Number, Attempt: p.Attempt,
		TriggeredBy: promo.Principal{Name: p.TriggeredBy}, PlanHash: p.PlanHash, Version: p.Version,
		URL: e.URL + "/promotions/" + p.ID, StartedAt: p.StartedAt,
	}}
	raw, err := e.Store.Plan(ctx, p.ID)
	if err != nil {
		return in, err
	}
	if err := json.Unmarshal(raw, &in.Plan); err != nil {
		return in, promo.Errorf(promo.CodeInternal, "stored plan of promotion %q: %w", p.ID, err)
	}
	if in.Plan.Version > plan.Version {
		return in, promo.Errorf(promo.CodeConfiguration, "the plan of promotion %q was made by a newer Davit", p.ID)
	}
	return in, nil
}

// Resume finishes what was stored but not done when the server went down: repositories not made, runs not started.
func (e *Engine) Resume(ctx context.Context) error {
	v, err := e.Catalog.View(ctx)
	if err != nil {
		return err
	}
	if err := e.host(ctx, v.Defs); err != nil {
		return err
	}
	ps, err := e.Store.Promotions(ctx, store.PromotionFilter{Active: true, Limit: activeRuns})
	if err != nil {
		return err
	}
	for i := range ps {
		if ps[i].Phase != promo.PhasePending {
			continue
		}
		in, err := e.input(ctx, ps[i])
		if err != nil {
			return err
		}
		if in.Run.Attempt > 1 {
			if in.Previous, err = e.attempt(ctx, ps[i].ID, in.Run.Attempt-1); err != nil {
				return err
			}
		}
		alive, err := e.Alive(ctx, contract.PromotionID(in.Run.ID))
		if err != nil {
			return err
		}
		if !alive {
			if err := e.start(ctx, in); err != nil {
				return err
			}
		}
	}
	return nil
}

func (e *Engine) attempt(ctx context.Context, id string, n int) (*promo.Promotion, error) {
	p, err := e.Store.PromotionAttempt(ctx, id, n)
	return &p, err
}
