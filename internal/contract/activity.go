package contract

import (
	"context"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// TaskQueue is the server's task queue for workflows and server-side activities.
const TaskQueue = "davit"

// AgentTaskQueue is the queue that one agent polls.
func AgentTaskQueue(agent string) string { return "agent." + agent }

// Activity binds both ends of an activity: a wrong signature at either end does not compile.
type Activity[Req, Resp any] struct {
	Name  string
	Class plan.Class
}

// Registry is where activities are registered; a worker is one.
type Registry interface {
	RegisterActivityWithOptions(a any, options activity.RegisterOptions)
}

// Register gives the activity its implementation.
func (a Activity[Req, Resp]) Register(r Registry, fn func(context.Context, Req) (Resp, error)) {
	r.RegisterActivityWithOptions(fn, activity.RegisterOptions{Name: a.Name})
}

// Call runs the activity on the server's queue within its class's limits.
func (a Activity[Req, Resp]) Call(ctx workflow.Context, req Req) (Resp, error) {
	return a.CallWith(ctx, Options(a.Class), req)
}

// CallWith runs the activity with options of the caller's.
func (a Activity[Req, Resp]) CallWith(ctx workflow.Context, o workflow.ActivityOptions, req Req) (Resp, error) {
	var resp Resp
	err := workflow.ExecuteActivity(workflow.WithActivityOptions(ctx, o), a.Name, req).Get(ctx, &resp)
	return resp, err
}

// CallLocal runs the activity inside the worker that has the workflow task.
func (a Activity[Req, Resp]) CallLocal(ctx workflow.Context, req Req) (Resp, error) {
	var resp Resp
	ctx = workflow.WithLocalActivityOptions(ctx, workflow.LocalActivityOptions{
		ScheduleToCloseTimeout: 2 * time.Minute, // a full disk or a locked database is given time to recover
		StartToCloseTimeout:    10 * time.Second,
		RetryPolicy:            &temporal.RetryPolicy{InitialInterval: 100 * time.Millisecond, MaximumInterval: 5 * time.Second, NonRetryableErrorTypes: nonRetryable()},
	})
	err := workflow.ExecuteLocalActivity(ctx, a.Name, req).Get(ctx, &resp)
	return resp, err
}

// Options returns the time limits and retries of a class. ScheduleToClose bounds all of Temporal's own retries;
// what lies beyond is for failure strategies to decide.
func Options(c plan.Class) workflow.ActivityOptions {
	retry := &temporal.RetryPolicy{
		InitialInterval: 500 * time.Millisecond, BackoffCoefficient: 2, MaximumInterval: 30 * time.Second,
		NonRetryableErrorTypes: nonRetryable(),
	}
	o := workflow.ActivityOptions{TaskQueue: TaskQueue, RetryPolicy: retry}
	switch c {
	case plan.ClassNetwork:
		o.StartToCloseTimeout, o.ScheduleToCloseTimeout = time.Minute, 15*time.Minute
	case plan.ClassChange:
		// 5 min is the bound on any server activity; a 50,000-file repository needs well under a second.
		o.StartToCloseTimeout, o.ScheduleToCloseTimeout, o.HeartbeatTimeout = 5*time.Minute, 15*time.Minute, 30*time.Second
	case plan.ClassSync:
		// Only heartbeats carry a cancellation to an agent, and tell that one is gone.
		o.StartToCloseTimeout, o.HeartbeatTimeout = time.Hour, 15*time.Second
	case plan.ClassQuick:
		o.StartToCloseTimeout, o.ScheduleToCloseTimeout = 10*time.Second, 2*time.Minute
	default:
		o.StartToCloseTimeout, o.ScheduleToCloseTimeout = 10*time.Second, 2*time.Minute
	}
	return o
}

func nonRetryable() []string {
	var out []string
	for _, c := range promo.Codes() {
		if !c.Retryable() {
			out = append(out, string(c))
		}
	}
	return out
}
