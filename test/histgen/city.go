package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/serviceerror"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/activities"
	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/workflows"
)

// city answers every activity. What a case wants otherwise, it says in scripts.
type city struct {
	client client.Client

	mu      sync.Mutex
	changed chan struct{} // closed and made anew with every record
	runs    map[string]promo.Promotion
	backs   map[string]promo.Rollback
	calls   map[string]int
	scripts map[string]script // by service and step name
	reads   map[string]func(n int, r contract.ReadChangeRequest) contract.ReadChangeResult
	holds   map[string]bool // by service
	absent  map[string]bool // agents that are away
}

// script answers the nth call of a step.
type script func(ctx context.Context, n int, c plan.Call) (plan.Result, error)

func newCity(c client.Client) *city {
	return &city{
		client: c, changed: make(chan struct{}), runs: map[string]promo.Promotion{}, backs: map[string]promo.Rollback{}, calls: map[string]int{},
		scripts: map[string]script{}, reads: map[string]func(int, contract.ReadChangeRequest) contract.ReadChangeResult{},
		holds: map[string]bool{}, absent: map[string]bool{},
	}
}

// work starts the workers: the server's and one for every agent.
func (c *city) work(ctx context.Context) (stop func(), err error) {
	server := worker.New(c.client, contract.TaskQueue, worker.Options{BackgroundActivityContext: ctx})
	server.RegisterWorkflowWithOptions(workflows.Promotion, workflow.RegisterOptions{Name: contract.PromotionWorkflow})
	server.RegisterWorkflowWithOptions(workflows.Lane, workflow.RegisterOptions{Name: contract.LaneWorkflow})
	server.RegisterWorkflowWithOptions(workflows.Rollback, workflow.RegisterOptions{Name: contract.RollbackWorkflow})
	c.register(server)
	workers := []worker.Worker{server}
	for _, agent := range agents() {
		w := worker.New(c.client, contract.AgentTaskQueue(agent), worker.Options{BackgroundActivityContext: ctx, DisableWorkflowWorker: true})
		answer(w, contract.Step("Sync", plan.ClassSync), c.step)
		workers = append(workers, w)
	}
	stop = func() {
		for _, w := range workers {
			w.Stop()
		}
	}
	for _, w := range workers {
		if err := w.Start(); err != nil {
			return nil, err
		}
	}
	return stop, nil
}

func agents() []string { return []string{"us", "eu"} }

func answer[Req, Resp any](r contract.Registry, a contract.Activity[Req, Resp], fn func(context.Context, Req) (Resp, error)) {
	a.Register(r, func(ctx context.Context, req Req) (Resp, error) {
		resp, err := fn(ctx, req)
		return resp, contract.WireFrom(ctx, err)
	})
}

func (c *city) register(r contract.Registry) {
	answer(r, contract.Resolve, activities.Resolve)
	answer(r, contract.Record, c.record)
	answer(r, contract.TellLane, c.tellLane)
	answer(r, contract.RunAlive, c.alive)
	answer(r, contract.ReadHold, func(_ context.Context, l contract.LaneID) (contract.HoldResult, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.holds[l.Service] {
			return contract.HoldResult{}, nil
		}
		return contract.HoldResult{Hold: &promo.Hold{Reason: "rolled back", By: "rita"}}, nil
	})
	answer(r, contract.SetHold, func(context.Context, promo.Hold) (contract.Nothing, error) { return contract.Nothing{}, nil })
	answer(r, contract.ReadChange, c.readChange)
	answer(r, contract.CleanUp, func(context.Context, contract.CleanUpRequest) (contract.Nothing, error) {
		return contract.Nothing{}, nil
	})
	answer(r, contract.Decide, func(context.Context, contract.DecideRequest) (contract.DecideResult, error) {
		return contract.DecideResult{ID: "1"}, nil
	})
	answer(r, contract.Presence, func(_ context.Context, r contract.PresenceRequest) (contract.PresenceResult, error) {
		c.mu.Lock()
		defer c.mu.Unlock()
		return contract.PresenceResult{Known: true, Connected: !c.absent[r.Agent]}, nil
	})
	answer(r, contract.Baseline, func(context.Context, plan.BaselineRequest) (contract.Nothing, error) { return contract.Nothing{}, nil })
	answer(r, contract.MarkCommit, func(_ context.Context, m plan.MarkRequest) (plan.MarkResult, error) {
		return plan.MarkResult{KnownGood: m.Entry.KnownGood}, nil
	})
	answer(r, contract.PreviewRollback, func(context.Context, plan.RollbackTarget) (promo.Preview, error) {
		return promo.Preview{To: "good", From: "bad", Version: "v1.0.0", Files: []string{"prod/values.yaml"}}, nil
	})
	answer(r, contract.WriteRollback, func(context.Context, plan.RollbackWrite) (plan.RollbackWritten, error) {
		return plan.RollbackWritten{Commit: "back", Changed: true, Merged: true}, nil
	})
	for _, kind := range []string{"UpdateReleaseRepo", "MergePR", "Verify", "Http", "Policy", "FetchLinkedApps"} {
		answer(r, contract.Step(kind, plan.ClassNetwork), c.step)
	}
}

func (c *city) record(_ context.Context, r contract.RecordRequest) (contract.Nothing, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(r.Promotion) > 0 {
		p, err := plan.Decode[promo.Promotion](r.Promotion)
		if err != nil {
			return contract.Nothing{}, err
		}
		c.runs[p.ID] = p
	} else {
		b, err := plan.Decode[promo.Rollback](r.Rollback)
		if err != nil {
			return contract.Nothing{}, err
		}
		c.backs[b.ID] = b
	}
	close(c.changed)
	c.changed = make(chan struct{})
	return contract.Nothing{}, nil
}

func (c *city) tellLane(ctx context.Context, r contract.TellLaneRequest) (contract.Nothing, error) {
	_, err := c.client.SignalWithStartWorkflow(ctx, r.Lane.WorkflowID(), contract.SignalLaneMessage, r.Message, client.StartWorkflowOptions{
		ID: r.Lane.WorkflowID(), TaskQueue: contract.TaskQueue,
	}, contract.LaneWorkflow, contract.LaneState{Lane: r.Lane})
	return contract.Nothing{}, err
}

func (c *city) alive(ctx context.Context, r contract.RunAliveRequest) (contract.RunAliveResult, error) {
	d, err := c.client.DescribeWorkflowExecution(ctx, r.ID, "")
	if _, ok := errors.AsType[*serviceerror.NotFound](err); ok {
		return contract.RunAliveResult{}, nil
	}
	return contract.RunAliveResult{Alive: d.GetWorkflowExecutionInfo().GetStatus() == enumspb.WORKFLOW_EXECUTION_STATUS_RUNNING}, err
}

func (c *city) readChange(_ context.Context, r contract.ReadChangeRequest) (contract.ReadChangeResult, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// The branch holds the operation's name, and that the service's.
	key := "change/" + r.Project
	c.calls[key]++
	if fn := c.reads[r.Project]; fn != nil {
		return fn(c.calls[key], r), nil
	}
	return contract.ReadChangeResult{Change: r.Change, State: "open", Checks: "green"}, nil
}

// step answers as the script says, or as on a good day.
func (c *city) step(ctx context.Context, call plan.Call) (plan.Result, error) {
	key := call.Run.Project + "/" + call.Stage.Step
	c.mu.Lock()
	c.calls[key]++
	n, fn := c.calls[key], c.scripts[key]
	c.mu.Unlock()
	if fn != nil {
		return fn(ctx, n, call)
	}
	return goodDay(activity.GetInfo(ctx).ActivityType.Name, call), nil
}

func goodDay(kind string, c plan.Call) plan.Result {
	at := "stage"
	if c.Wave > 0 {
		at = fmt.Sprintf("wave-%d", c.Wave)
	}
	switch kind {
	case "UpdateReleaseRepo":
		ch := plan.Change{
			Branch: "davit/" + c.Operation, Base: "main", Head: "head-" + at, Digest: "digest-" + at, PR: 1 + c.Wave, Changed: true,
			Author: c.Run.TriggeredBy.Name,
		}
		return plan.Result{Change: &ch, Outputs: plan.Encode(map[string]any{"headSHA": ch.Head, "changed": true})}
	case "MergePR":
		ch := c.Change
		ch.Merged = "merged-" + c.Stage.Name + "-" + at
		return plan.Result{Change: &ch, Outputs: plan.Encode(map[string]any{"sha": ch.Merged})}
	case "Sync":
		return plan.Result{Outputs: plan.Encode(map[string]any{"revision": c.Change.Merged})}
	default:
		return plan.Result{Message: "done"}
	}
}

// untilCancelled is an agent's work that goes on until somebody ends it.
func untilCancelled(ctx context.Context, _ int, _ plan.Call) (plan.Result, error) {
	t := time.NewTicker(100 * time.Millisecond)
	defer t.Stop()
	for {
		select {
		case <-ctx.Done():
			return plan.Result{}, ctx.Err()
		case <-t.C:
			activity.RecordHeartbeat(ctx)
		}
	}
}

// await waits until the record of a promotion is as wanted.
func (c *city) await(ctx context.Context, id string, ok func(p promo.Promotion) bool) error {
	return c.until(ctx, id, func() bool { return ok(c.runs[id]) })
}

func (c *city) awaitRollback(ctx context.Context, id string, ok func(p promo.Rollback) bool) error {
	return c.until(ctx, id, func() bool { return ok(c.backs[id]) })
}

func (c *city) until(ctx context.Context, id string, ok func() bool) error {
	for {
		c.mu.Lock()
		done, changed := ok(), c.changed
		c.mu.Unlock()
		if done {
			return nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			c.mu.Lock()
			defer c.mu.Unlock()
			return fmt.Errorf("%s is %+v, %+v: %w", id, c.runs[id], c.backs[id], ctx.Err())
		}
	}
}
