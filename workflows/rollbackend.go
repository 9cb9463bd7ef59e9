package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// conclude records the commit, holds automatic promotions, gives the lane back and stores the end.
func (r *rollback) conclude(ctx workflow.Context, err *promo.Error) (contract.RollbackResult, error) {
	r.closing = true
	phase := promo.PhaseSucceeded
	switch {
	case r.end != nil:
		phase, r.state.Message = r.end.phase, r.end.why
	case isStopped(err):
		phase, r.state.Message = promo.PhaseAborted, "cancelled from outside"
	case err != nil:
		phase, r.state.Error, r.state.Message = promo.PhaseFailed, err, err.Msg
	}
	if r.state.Commit != "" {
		r.aftermath(ctx, phase == promo.PhaseSucceeded)
	}
	if r.written.Change.PR != 0 && !r.written.Merged {
		_, cerr := contract.CleanUp.Call(ctx, contract.CleanUpRequest{Project: r.in.Target.Project, Repository: r.in.Target.Repository.Name, Changes: []plan.Change{r.written.Change}, Reason: r.state.Message})
		if cerr != nil {
			workflow.GetLogger(ctx).Warn("pull request left open", "rollback", r.in.ID, "error", cerr)
		}
	}
	_, lerr := contract.TellLane.CallLocal(ctx, contract.TellLaneRequest{Lane: r.laneID(), Message: contract.LaneMessage{
		Kind: contract.LaneLeave, From: contract.RollbackID(r.in.ID), Label: r.in.ID, Lane: r.laneID(),
	}})
	if lerr != nil {
		workflow.GetLogger(ctx).Error("lane not given back", "rollback", r.in.ID, "error", lerr)
	}
	r.state.Phase, r.state.FinishedAt, r.state.WaitsFor = phase, workflow.Now(ctx), nil
	r.rec.changed()
	if err := r.rec.close(ctx); err != nil {
		return contract.RollbackResult{}, err
	}
	res := contract.RollbackResult{Phase: phase, Message: r.state.Message, Commit: r.state.Commit, To: r.state.To}
	if r.state.Preview != nil {
		res.Files = len(r.state.Preview.Files)
	}
	return res, workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
}

// aftermath is what holds after the commit was written, however the rest went.
func (r *rollback) aftermath(ctx workflow.Context, good bool) { //nolint:revive // good is a fact, not a mode
	synced := map[string]string{}
	for _, t := range r.in.Targets {
		if good {
			synced[t.Name] = r.state.Commit
		}
	}
	version := ""
	if r.state.Preview != nil {
		version = r.state.Preview.Version
	}
	_, err := contract.MarkCommit.Call(ctx, plan.MarkRequest{
		Entry: promo.KnownGood{
			Project: r.in.Target.Project, Service: r.in.Target.Service.Name, Environment: r.in.Target.Environment, Commit: r.state.Commit,
			Version: version, Promotion: "rollback/" + r.in.ID, At: workflow.Now(ctx), KnownGood: good,
		},
		Service: r.in.Target.Service, Repository: r.in.Target.Repository, Synced: synced,
	})
	if err != nil {
		workflow.GetLogger(ctx).Error("commit not recorded in the history", "rollback", r.in.ID, "error", err)
	}
	reason := "rolled back"
	if r.in.Reason != "" {
		reason += ": " + r.in.Reason
	}
	_, err = contract.SetHold.Call(ctx, promo.Hold{
		Project: r.in.Target.Project, Service: r.in.Target.Service.Name, Environment: r.in.Target.Environment,
		Reason: reason, By: r.in.By.Name, At: workflow.Now(ctx),
	})
	if err != nil {
		workflow.GetLogger(ctx).Error("environment not held", "rollback", r.in.ID, "error", err)
	}
}
