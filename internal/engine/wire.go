package engine

import (
	"context"
	"errors"
	"slices"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/client"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

// TellLane sends a lane a message and starts the lane where it isn't running.
func (e *Engine) TellLane(ctx context.Context, lane contract.LaneID, m contract.LaneMessage) error {
	_, err := e.Temporal.SignalWithStartWorkflow(ctx, lane.WorkflowID(), contract.SignalLaneMessage, m, client.StartWorkflowOptions{
		ID: lane.WorkflowID(), TaskQueue: contract.TaskQueue,
	}, contract.LaneWorkflow, contract.LaneState{Lane: lane})
	return wireError(err)
}

// Alive reports whether a workflow is still running.
func (e *Engine) Alive(ctx context.Context, workflowID string) (bool, error) {
	d, err := e.Temporal.DescribeWorkflowExecution(ctx, workflowID, "")
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return false, nil
	}
	if err != nil {
		return false, wireError(err)
	}
	return d.GetWorkflowExecutionInfo().GetStatus() == enums.WORKFLOW_EXECUTION_STATUS_RUNNING, nil
}

// Wake tells every active run that waits for the event. It is best effort: each wait also looks by itself, slowly.
func (e *Engine) Wake(ctx context.Context, event string) {
	for _, id := range e.waiting(ctx, event) {
		if err := e.Temporal.SignalWorkflow(ctx, id, "", contract.SignalWake, event); err != nil {
			e.Log.DebugContext(ctx, "run not woken", "workflow", id, "event", event, "error", err)
		}
	}
}

// activeRuns bounds how many runs an event looks through.
const activeRuns = store.MaxLimit

func (e *Engine) waiting(ctx context.Context, event string) []string {
	var out []string
	ps, err := e.Store.Promotions(ctx, store.PromotionFilter{Active: true, Limit: activeRuns})
	if err != nil {
		e.Log.WarnContext(ctx, "active promotions not read", "error", err)
	}
	for i := range ps {
		if slices.Contains(ps[i].WaitsFor, event) {
			out = append(out, contract.PromotionID(ps[i].ID))
		}
	}
	rs, err := e.Store.Rollbacks(ctx, store.RollbackFilter{Active: true, Limit: activeRuns})
	if err != nil {
		e.Log.WarnContext(ctx, "active rollbacks not read", "error", err)
	}
	for i := range rs {
		if slices.Contains(rs[i].WaitsFor, event) {
			out = append(out, contract.RollbackID(rs[i].ID))
		}
	}
	return out
}

// message says which update goes to which workflow, for which request.
type message struct{ workflow, update, request string }

// update sends an update and returns its answer. A validator's refusal comes back as the domain's error.
func update(ctx context.Context, c client.Client, to message, arg, reply any) error {
	h, err := c.UpdateWorkflow(ctx, client.UpdateWorkflowOptions{
		WorkflowID: to.workflow, UpdateName: to.update, UpdateID: to.request, Args: []any{arg},
		WaitForStage: client.WorkflowUpdateStageCompleted,
	})
	if err != nil {
		return wireError(err)
	}
	return wireError(h.Get(ctx, reply))
}

// wireError turns Temporal's errors into the domain's.
func wireError(err error) error {
	var missing *serviceerror.NotFound
	var down *serviceerror.Unavailable
	var app interface{ Type() string }
	switch {
	case err == nil:
		return nil
	case errors.As(err, &missing):
		return promo.Errorf(promo.CodeConflict, "the run has ended")
	case errors.As(err, &down):
		return promo.Errorf(promo.CodeConnectivity, "the workflow engine does not answer: %w", err)
	case errors.As(err, &app):
		return contract.Unwire(err)
	case errors.Is(err, context.DeadlineExceeded):
		return promo.Errorf(promo.CodeTimeout, "the workflow engine did not answer in time: %w", err)
	default:
		return promo.Errorf(promo.CodeInternal, "workflow engine: %w", err)
	}
}
