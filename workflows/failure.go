package workflows

import (
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// handle decides what a failed execution leads to: the step again (true), success after all (nil), or the end.
func (s *stageRun) handle(ctx workflow.Context, st *plan.Step, u unit, err *promo.Error, try int) (bool, *promo.Error) {
	if isStopped(err) || ctx.Err() != nil {
		return false, stopped()
	}
	retries := 0
	if r := st.Retry; r != nil && (len(r.On) == 0 || slices.Contains(r.On, string(err.Code)) || slices.Contains(r.On, string(promo.CodeAll))) {
		if try <= r.Attempts {
			return s.later(ctx, st, u, backoff(r, try))
		}
		retries = r.Attempts
	}
	strategy := s.strategy(st.OnFailure, err)
	action := strategy.Action
	if action == plan.ActionRetry {
		if n := try - retries; n <= strategy.Attempts {
			return s.later(ctx, st, u, interval(strategy.Intervals, n))
		}
		action = strategy.Then
	}
	e := s.entry(st, u)
	switch action {
	case plan.ActionIgnore:
		e.Message = "failed, ignored: " + err.Msg
		s.tainted = "step " + st.Name + " failed and was ignored"
		s.r.rec.changed()
		return false, nil
	case plan.ActionMarkSuccess:
		e.Phase, e.Message = promo.PhaseSucceeded, "marked as success by its failure strategy: "+err.Msg
		s.tainted = "step " + st.Name + " failed and was marked as success"
		s.r.rec.changed()
		return false, nil
	case plan.ActionRollback, plan.ActionRollbackStage, plan.ActionAbort, plan.ActionRetry, plan.ActionManualIntervention:
	}
	if s.onFail == "" {
		s.onFail = action
	}
	return false, err
}

// strategy finds what applies: the step's own first, then the stage's, then the pipeline's; first match wins.
func (s *stageRun) strategy(own []plan.Strategy, err *promo.Error) plan.Strategy {
	for _, list := range [][]plan.Strategy{own, s.plan.OnFailure, s.r.in.Plan.OnFailure} {
		for _, f := range list {
			if f.Matches(string(err.Code)) {
				return f
			}
		}
	}
	return plan.Strategy{Action: plan.ActionAbort}
}

// later waits before the step is run again.
func (s *stageRun) later(ctx workflow.Context, st *plan.Step, u unit, d time.Duration) (bool, *promo.Error) {
	e := s.entry(st, u)
	e.Message = "trying again in " + plan.Duration(d).String() + ": " + e.Message
	e.Phase = promo.PhaseRunning
	s.r.rec.changed()
	if err := workflow.Sleep(ctx, d); err != nil {
		e.Phase = promo.PhaseAborted
		return false, fault(err)
	}
	return true, nil
}

func backoff(r *plan.Retry, try int) time.Duration {
	d := r.Backoff
	for range try - 1 {
		d *= 2
		if r.MaxBackoff > 0 && d > r.MaxBackoff {
			return r.MaxBackoff
		}
	}
	return d
}

func interval(list []time.Duration, n int) time.Duration {
	if len(list) == 0 {
		return 0
	}
	return list[min(n, len(list))-1]
}

// compensate does what the matched strategy says about the stage. The stage has failed all the same.
func (s *stageRun) compensate(ctx workflow.Context, cause *promo.Error) {
	if s.onFail == "" { // no step failed, but the stage as a whole: its timeout, its policy
		f := s.strategy(nil, cause)
		s.onFail = f.Action
		if f.Action == plan.ActionRetry {
			s.onFail = f.Then
		}
	}
	switch s.onFail {
	case plan.ActionRollbackStage:
		if err := s.runNodes(ctx, s.plan.RollbackNodes, s.whole(), nil); err != nil && !isStopped(err) {
			cause.Hint = "the stage's rollback steps failed too: " + err.Msg
		}
	case plan.ActionRollback:
		if err := s.startRollback(ctx, cause); err != nil {
			cause.Hint = "the automatic rollback could not be started: " + err.Msg
		}
	case plan.ActionAbort, plan.ActionRetry, plan.ActionIgnore, plan.ActionMarkSuccess, plan.ActionManualIntervention:
	}
}

// startRollback hands the lane to a rollback, which goes on by itself when the promotion has ended.
func (s *stageRun) startRollback(ctx workflow.Context, cause *promo.Error) *promo.Error {
	if s.plan.Environment == nil || !s.lane.held {
		return nil // nothing in the environment has been changed
	}
	in := s.rollbackInput(cause.Msg, "", "", "ask", true)
	if _, err := s.childRollback(detached(ctx), in); err != nil { // who aborts the promotion does not abort its rollback
		return err
	}
	s.r.state.Rollback = in.ID
	s.r.rec.changed()
	return nil
}

func (s *stageRun) rollbackInput(reason, to, delivery, shared string, verify bool) contract.RollbackInput { //nolint:revive // verify is the step's own word
	lane := s.laneID()
	in := contract.RollbackInput{
		ID:     contract.ChildRollbackID(lane, s.r.info, s.lane.takes),
		Number: s.r.info.Number,
		Target: plan.RollbackTarget{
			Project: s.r.info.Project, Service: s.r.in.Plan.Service, Repository: s.r.in.Plan.Repository,
			Environment: s.plan.Environment.Name, To: to, Not: s.lastCommit(),
		},
		Targets: s.plan.Targets, Env: *s.plan.Environment, By: s.r.info.TriggeredBy, Reason: reason, Automatic: true,
		Promotion: s.r.info.ID, Shared: shared, Delivery: delivery, Run: s.r.info, Inputs: s.r.in.Plan.Inputs,
	}
	if s.lane.held {
		in.LaneToken = "passed"
	}
	if verify {
		for _, st := range plan.Steps(s.plan.Nodes) {
			if st.Type == "Verify" {
				in.Verify = append(in.Verify, *st)
			}
		}
	}
	return in
}

// childRollback starts the rollback and passes it the lane, if the stage holds it. It returns once it has started.
func (s *stageRun) childRollback(ctx workflow.Context, in contract.RollbackInput) (workflow.ChildWorkflowFuture, *promo.Error) {
	id := contract.RollbackID(in.ID)
	ctx = workflow.WithChildOptions(ctx, workflow.ChildWorkflowOptions{
		WorkflowID: id, TaskQueue: contract.TaskQueue, ParentClosePolicy: enums.PARENT_CLOSE_POLICY_ABANDON,
	})
	child := workflow.ExecuteChildWorkflow(ctx, contract.RollbackWorkflow, in)
	if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
		return nil, fault(err)
	}
	if s.lane.held {
		s.lane.held = false
		_, err := contract.TellLane.CallLocal(detached(ctx), contract.TellLaneRequest{Lane: s.laneID(), Message: contract.LaneMessage{
			Kind: contract.LanePass, From: contract.PromotionID(s.r.info.ID), Token: s.lane.token, Label: in.ID,
			Member: id, MemberToken: in.LaneToken, Lane: s.laneID(),
		}})
		if err != nil {
			return nil, fault(err)
		}
	}
	return child, nil
}

// rollBackStep is the step type Rollback: it waits for the rollback's end.
func (s *stageRun) rollBackStep(ctx workflow.Context, call plan.Call, e *promo.Step) (plan.Result, *promo.Error) {
	spec, err := plan.Decode[plan.RollbackSpec](call.Spec)
	if err != nil {
		return plan.Result{}, fault(err)
	}
	to := spec.To
	if to == "known-good" {
		to = ""
	}
	in := s.rollbackInput("step "+call.Stage.Step+" of "+s.r.info.ID, to, spec.Delivery, spec.Shared, spec.Verify)
	child, perr := s.childRollback(ctx, in)
	if perr != nil {
		return plan.Result{}, perr
	}
	e.Message = "rollback " + in.ID
	s.r.rec.changed()
	var res contract.RollbackResult
	if err := child.Get(ctx, &res); err != nil {
		return plan.Result{}, fault(err)
	}
	if res.Phase != promo.PhaseSucceeded {
		return plan.Result{}, errorf(promo.CodeSync, "rollback %s ended %s: %s", in.ID, res.Phase, res.Message)
	}
	return plan.Result{Message: "rolled back", Outputs: plan.Encode(map[string]any{
		"commit": res.Commit, "knownGood": res.To, "files": res.Files,
	})}, nil
}
