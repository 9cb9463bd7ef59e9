package engine

import (
	"context"
	"regexp"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

// Promotions reads and steers promotions.
type Promotions struct{ *Engine }

// List returns promotions, newest first.
func (p Promotions) List(ctx context.Context, _ promo.Principal, f api.PromotionFilter) ([]promo.Promotion, error) {
	return p.Store.Promotions(ctx, store.PromotionFilter{
		Project: f.Project, Pipeline: f.Pipeline, Service: f.Service, Environment: f.Environment, Phase: f.Phase,
		Active: f.Active, Limit: f.Limit, Before: f.Before,
	})
}

// Get returns a promotion.
func (p Promotions) Get(ctx context.Context, _ promo.Principal, id string) (promo.Promotion, error) {
	return p.Store.Promotion(ctx, id)
}

// Decide passes a person's decision to the promotion (or, with an id "rollback/…", to the rollback) that waits.
func (p Promotions) Decide(ctx context.Context, who promo.Principal, req api.DecideRequest) (api.DecideResult, error) {
	if err := p.checkInputs(ctx, req); err != nil {
		return api.DecideResult{}, err
	}
	m := contract.DecideMessage{
		RequestID: req.RequestID, By: who, Stage: req.Stage, Step: req.Step, Wave: req.Wave, Target: req.Target, Approve: req.Approve,
		Comment: req.Comment, Inputs: req.Inputs, Digest: req.Digest,
	}
	var reply contract.DecideReply
	if err := update(ctx, p.Temporal, message{runWorkflow(req.ID), contract.UpdateDecide, req.RequestID}, m, &reply); err != nil {
		return api.DecideResult{}, err
	}
	res := api.DecideResult(reply)
	return res, p.audit(ctx, who, deed{"promotion:decide", "promotion", req.ID, project(req.ID)}, req)
}

// checkInputs checks the patterns of an approval's inputs: workflow code has no regular expressions. It also tells
// a run that does not exist from one that has ended.
func (p Promotions) checkInputs(ctx context.Context, req api.DecideRequest) error {
	all, err := p.stepsOf(ctx, req.ID)
	if err != nil || !req.Approve || len(req.Inputs) == 0 {
		return err
	}
	for _, step := range all {
		if step.Phase != promo.PhaseWaitingForApproval || step.Approval == nil || (req.Step != "" && req.Step != step.Name) {
			continue
		}
		if err := matchInputs(step.Approval.Inputs, req.Inputs); err != nil {
			return err
		}
	}
	return nil
}

// stepsOf lists the steps of a promotion or, with an id "rollback/…", of a rollback.
func (p Promotions) stepsOf(ctx context.Context, id string) ([]promo.Step, error) {
	if rest, ok := cutRollback(id); ok {
		r, err := p.Store.Rollback(ctx, rest)
		return r.Steps, err
	}
	pr, err := p.Store.Promotion(ctx, id)
	var out []promo.Step
	for _, st := range pr.Stages {
		out = append(out, st.Steps...)
	}
	return out, err
}

func matchInputs(declared []promo.ApprovalInput, given map[string]string) error {
	known := map[string]bool{}
	for _, in := range declared {
		known[in.Name] = true
		v, ok := given[in.Name]
		if !ok || in.Pattern == "" {
			continue
		}
		re, err := regexp.Compile("^(?:" + in.Pattern + ")$")
		if err != nil {
			return promo.Errorf(promo.CodeConfiguration, "input %q: its pattern does not compile: %w", in.Name, err)
		}
		if !re.MatchString(v) {
			return promo.Errorf(promo.CodeConfiguration, "input %q: %q does not match %s", in.Name, v, in.Pattern)
		}
	}
	for name := range given {
		if !known[name] {
			return promo.Errorf(promo.CodeConfiguration, "the approval has no input %q", name)
		}
	}
	return nil
}

// Abort ends a promotion; it cleans up after itself.
func (p Promotions) Abort(ctx context.Context, who promo.Principal, req api.AbortRequest) error {
	m := contract.AbortMessage{RequestID: req.RequestID, By: who, Reason: req.Reason}
	if err := update(ctx, p.Temporal, message{contract.PromotionID(req.ID), contract.UpdateAbort, req.RequestID}, m, nil); err != nil {
		return err
	}
	return p.audit(ctx, who, deed{"promotion:abort", "promotion", req.ID, project(req.ID)}, req)
}

// Retry starts the next attempt of a failed promotion: the same plan and number, from the failed stages.
func (p Promotions) Retry(ctx context.Context, who promo.Principal, req api.RetryRequest) (promo.Promotion, error) {
	old, err := p.Store.Promotion(ctx, req.ID)
	if err != nil {
		return promo.Promotion{}, err
	}
	if old.Phase != promo.PhaseFailed && old.Phase != promo.PhaseAborted {
		return promo.Promotion{}, promo.Errorf(promo.CodeConflict, "promotion %q is %s: only one that failed or was aborted can be retried", req.ID, old.Phase)
	}
	in, err := p.input(ctx, old)
	if err != nil {
		return promo.Promotion{}, err
	}
	in.Run.Attempt, in.Run.StartedAt, in.Run.TriggeredBy = old.Attempt+1, p.Now().UTC(), who
	in.Previous = &old
	state := pending(in)
	state.Stages = old.Stages
	if err := p.Store.RecordPromotion(ctx, state); err != nil {
		return promo.Promotion{}, err
	}
	if err := p.start(ctx, in); err != nil {
		return promo.Promotion{}, err
	}
	return state, p.audit(ctx, who, deed{"promotion:retry", "promotion", req.ID, old.Project}, map[string]any{"attempt": in.Run.Attempt})
}

// runWorkflow is the workflow of a promotion's or, with "rollback/" before it, of a rollback's id.
func runWorkflow(id string) string {
	if rest, ok := cutRollback(id); ok {
		return contract.RollbackID(rest)
	}
	return contract.PromotionID(id)
}
