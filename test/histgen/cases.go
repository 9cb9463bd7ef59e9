package main

import (
	"context"
	"fmt"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// scenario is a case: it plays in a project of its own and returns the workflows whose histories are kept.
type scenario struct {
	name string
	play func(ctx context.Context, c *city, project string) ([]string, error)
}

func cases() []scenario {
	return []scenario{
		{"waves", playWaves},
		{"rolled-back", playRolledBack},
		{"aborted", playAborted},
		{"queue", playQueue},
		{"superseded", playSuperseded},
		{"preempted", playPreempted},
		{"conflict", playConflict},
		{"retry", playRetry},
		{"waits", playWaits},
		{"parallel", playParallel},
	}
}

func ended(phase promo.Phase) func(promo.Promotion) bool {
	return func(p promo.Promotion) bool { return p.Phase == phase && !p.FinishedAt.IsZero() }
}

func asks(p promo.Promotion) bool { return p.Phase == promo.PhaseWaitingForApproval }

func holds(p promo.Promotion) bool {
	for _, s := range p.Stages {
		for _, st := range s.Steps {
			if st.Type == "MergePR" && st.Phase == promo.PhaseSucceeded {
				return true
			}
		}
	}
	return false
}

// playWaves: three stages, the last with two waves behind an approval.
func playWaves(ctx context.Context, c *city, project string) ([]string, error) {
	prod := stage("prod", agents(), step("UpdateReleaseRepo", "update"), step("Policy", "gate"), step("Approval", "sign-off"),
		step("MergePR", "merge"), step("Sync", "sync"), step("Verify", "verify"))
	prod.Waves, prod.Changes, prod.Prologue, prod.PauseBetweenWaves = [][]string{{"us"}, {"eu"}}, plan.ChangesPerWave, 3, 50*time.Millisecond
	in := input(project, 1, stage("dev", []string{"us"}, release()...), stage("staging", []string{"eu"}, release()...), prod)
	if err := c.start(ctx, in); err != nil {
		return nil, err
	}
	if err := c.await(ctx, in.Run.ID, asks); err != nil {
		return nil, err
	}
	if err := c.decide(ctx, in.Run.ID, true); err != nil {
		return nil, err
	}
	ids := []string{contract.PromotionID(in.Run.ID), lane(project, "prod").WorkflowID()}
	return ids, c.await(ctx, in.Run.ID, ended(promo.PhaseSucceeded))
}

// playRolledBack: a verdict starts the automatic rollback, to which the lane passes.
func playRolledBack(ctx context.Context, c *city, project string) ([]string, error) {
	c.script(project, "verify", func(_ context.Context, n int, _ plan.Call) (plan.Result, error) {
		if n == 1 {
			return plan.Result{Verdict: promo.Errorf(promo.CodeVerification, "error rate 7 %%")}, nil
		}
		return plan.Result{}, nil
	})
	prod := stage("prod", agents()[:1], append(release(), step("Verify", "verify"))...)
	prod.OnFailure = []plan.Strategy{{Errors: []string{"Verification"}, Action: plan.ActionRollback}}
	in := input(project, 1, prod)
	if err := c.start(ctx, in); err != nil {
		return nil, err
	}
	if err := c.await(ctx, in.Run.ID, ended(promo.PhaseFailed)); err != nil {
		return nil, err
	}
	c.mu.Lock()
	id := c.runs[in.Run.ID].Rollback
	c.mu.Unlock()
	ids := []string{contract.PromotionID(in.Run.ID), contract.RollbackID(id), lane(project, "prod").WorkflowID()}
	return ids, c.awaitRollback(ctx, id, func(b promo.Rollback) bool { return b.Phase == promo.PhaseSucceeded && !b.FinishedAt.IsZero() })
}

// playAborted: a person aborts while the promotion waits at a gate.
func playAborted(ctx context.Context, c *city, project string) ([]string, error) {
	in := input(project, 1, gated())
	if err := c.start(ctx, in); err != nil {
		return nil, err
	}
	if err := c.await(ctx, in.Run.ID, asks); err != nil {
		return nil, err
	}
	if err := c.update(ctx, in.Run.ID, contract.UpdateAbort, contract.AbortMessage{RequestID: "1", By: promo.Principal{Name: "rita"}}); err != nil {
		return nil, err
	}
	return []string{contract.PromotionID(in.Run.ID)}, c.await(ctx, in.Run.ID, ended(promo.PhaseAborted))
}

// playQueue: a second promotion waits for the lane of the first.
func playQueue(ctx context.Context, c *city, project string) ([]string, error) {
	proceed := make(chan struct{})
	c.script(project, "hold", func(ctx context.Context, _ int, _ plan.Call) (plan.Result, error) {
		select {
		case <-proceed:
		case <-ctx.Done():
		}
		return plan.Result{}, ctx.Err()
	})
	nodes := append(release(), step("Http", "hold"))
	one, two := input(project, 1, stage("prod", agents()[:1], nodes...)), input(project, 2, stage("prod", agents()[:1], nodes...))
	if err := c.start(ctx, one); err != nil {
		return nil, err
	}
	if err := c.await(ctx, one.Run.ID, holds); err != nil {
		return nil, err
	}
	if err := c.start(ctx, two); err != nil {
		return nil, err
	}
	err := c.await(ctx, two.Run.ID, func(p promo.Promotion) bool {
		return len(p.Stages) > 0 && p.Stages[0].Lane != nil && p.Stages[0].Lane.Place == 1
	})
	if err != nil {
		return nil, err
	}
	close(proceed)
	ids := []string{contract.PromotionID(one.Run.ID), contract.PromotionID(two.Run.ID), lane(project, "prod").WorkflowID()}
	return ids, c.await(ctx, two.Run.ID, ended(promo.PhaseSucceeded))
}

// playSuperseded: a later promotion ends the one that waits at its gate.
func playSuperseded(ctx context.Context, c *city, project string) ([]string, error) {
	one, two := input(project, 1, gated()), input(project, 2, gated())
	one.Plan.Lane, two.Plan.Lane = plan.LaneSupersede, plan.LaneSupersede
	for _, in := range []contract.PromotionInput{one, two} {
		if err := c.start(ctx, in); err != nil {
			return nil, err
		}
		if err := c.await(ctx, in.Run.ID, asks); err != nil {
			return nil, err
		}
	}
	if err := c.await(ctx, one.Run.ID, ended(promo.PhaseSuperseded)); err != nil {
		return nil, err
	}
	if err := c.decide(ctx, two.Run.ID, false); err != nil {
		return nil, err
	}
	ids := []string{contract.PromotionID(one.Run.ID), contract.PromotionID(two.Run.ID), lane(project, "prod").WorkflowID()}
	return ids, c.await(ctx, two.Run.ID, ended(promo.PhaseFailed))
}

// playPreempted: a person's rollback ends the promotion that holds the lane.
func playPreempted(ctx context.Context, c *city, project string) ([]string, error) {
	c.script(project, "sync", func(ctx context.Context, n int, call plan.Call) (plan.Result, error) {
		if n == 1 {
			return untilCancelled(ctx, n, call)
		}
		return goodDay("Sync", call), nil
	})
	in := input(project, 1, stage("prod", agents()[:1], release()...))
	if err := c.start(ctx, in); err != nil {
		return nil, err
	}
	if err := c.await(ctx, in.Run.ID, holds); err != nil {
		return nil, err
	}
	id := project + "/checkout/prod/1"
	verify := *step("Verify", "verify").Step
	_, err := c.client.ExecuteWorkflow(ctx, client.StartWorkflowOptions{ID: contract.RollbackID(id), TaskQueue: contract.TaskQueue}, contract.RollbackWorkflow, contract.RollbackInput{
		ID: id, Number: 1, By: promo.Principal{Name: "rita"}, Reason: "p99", Targets: targets(agents()[:1]), Env: plan.Environment{Name: "prod"}, Verify: []plan.Step{verify},
		Target: plan.RollbackTarget{Project: project, Service: in.Plan.Service, Repository: in.Plan.Repository, Environment: "prod"},
		Run:    plan.RunInfo{Project: project, Number: 1, Attempt: 1, TriggeredBy: promo.Principal{Name: "rita"}},
	})
	if err != nil {
		return nil, err
	}
	if err := c.await(ctx, in.Run.ID, ended(promo.PhaseAborted)); err != nil {
		return nil, err
	}
	ids := []string{contract.PromotionID(in.Run.ID), contract.RollbackID(id), lane(project, "prod").WorkflowID()}
	return ids, c.awaitRollback(ctx, id, func(b promo.Rollback) bool { return b.Phase == promo.PhaseSucceeded && !b.FinishedAt.IsZero() })
}

// playConflict: the branch conflicts, the change is made anew with another digest, and people are asked again.
func playConflict(ctx context.Context, c *city, project string) ([]string, error) {
	c.script(project, "merge", func(_ context.Context, n int, call plan.Call) (plan.Result, error) {
		if n == 1 {
			return plan.Result{}, promo.Errorf(promo.CodeConflict, "pull request 1 conflicts with main")
		}
		return goodDay("MergePR", call), nil
	})
	c.script(project, "update", func(_ context.Context, n int, call plan.Call) (plan.Result, error) {
		res := goodDay("UpdateReleaseRepo", call)
		res.Change.Digest += fmt.Sprint(n)
		return res, nil
	})
	c.mu.Lock()
	c.reads[project] = func(n int, r contract.ReadChangeRequest) contract.ReadChangeResult {
		return contract.ReadChangeResult{Change: r.Change, State: "open", Checks: "green", Conflicts: n == 2}
	}
	c.mu.Unlock()
	in := input(project, 1, gated())
	if err := c.start(ctx, in); err != nil {
		return nil, err
	}
	for n := range 2 {
		err := c.await(ctx, in.Run.ID, func(p promo.Promotion) bool {
			return asks(p) && len(p.Stages[0].Steps[1].Approval.Decisions) == n
		})
		if err != nil {
			return nil, err
		}
		if err := c.decide(ctx, in.Run.ID, true); err != nil {
			return nil, err
		}
	}
	return []string{contract.PromotionID(in.Run.ID)}, c.await(ctx, in.Run.ID, ended(promo.PhaseSucceeded))
}

// playRetry: a failed promotion is retried; its finished stage is kept.
func playRetry(ctx context.Context, c *city, project string) ([]string, error) {
	c.script(project, "bad", func(_ context.Context, n int, _ plan.Call) (plan.Result, error) {
		if n <= 2 {
			return plan.Result{}, promo.Errorf(promo.CodeNotFound, "not there yet")
		}
		return plan.Result{}, nil
	})
	bad := step("Http", "bad")
	bad.Step.Retry = &plan.Retry{Attempts: 1, Backoff: 20 * time.Millisecond}
	in := input(project, 1, stage("dev", agents()[:1], release()...), custom("check", bad))
	in.Plan.Stages[1].Needs = []string{"dev"}
	if err := c.start(ctx, in); err != nil {
		return nil, err
	}
	if err := c.await(ctx, in.Run.ID, ended(promo.PhaseFailed)); err != nil {
		return nil, err
	}
	c.mu.Lock()
	failed := c.runs[in.Run.ID]
	c.mu.Unlock()
	if err := c.client.GetWorkflow(ctx, contract.PromotionID(in.Run.ID), "").Get(ctx, nil); err != nil {
		return nil, err
	}
	in.Previous, in.Run.Attempt, in.Sequence = &failed, 2, failed.Sequence
	if err := c.start(ctx, in); err != nil {
		return nil, err
	}
	return []string{contract.PromotionID(in.Run.ID)}, c.await(ctx, in.Run.ID, ended(promo.PhaseSucceeded))
}

// playWaits: a hold, a missing agent, a step that asks to be called again, expressions, a gate of time.
func playWaits(ctx context.Context, c *city, project string) ([]string, error) {
	c.script(project, "poll", func(_ context.Context, n int, _ plan.Call) (plan.Result, error) {
		if n < 3 {
			return plan.Result{Message: "not yet", Again: &plan.Again{After: 20 * time.Millisecond, State: plan.Encode(n)}}, nil
		}
		return plan.Result{Outputs: plan.Encode(map[string]any{"n": n})}, nil
	})
	c.mu.Lock()
	c.holds["checkout-"+project], c.absent["us"] = true, true
	c.mu.Unlock()
	wait := step("Wait", "wait")
	wait.Step.Spec = plan.Encode(plan.WaitSpec{Duration: plan.Duration(20 * time.Millisecond)})
	skipped, told := step("Http", "skipped"), step("Http", "told")
	skipped.Step.When.Expr = "steps.poll.outputs.n > 3"
	told.Step.Spec = plan.Encode(map[string]any{"body": "${{ steps.poll.outputs.n }}"})
	in := input(project, 1, stage("prod", agents()[:1], append(release(), step("Http", "poll"), wait, skipped, told)...))
	in.Automatic, in.Plan.Service.Name = true, "checkout-"+project
	if err := c.start(ctx, in); err != nil {
		return nil, err
	}
	if err := c.await(ctx, in.Run.ID, func(p promo.Promotion) bool { return p.Phase == promo.PhasePaused }); err != nil {
		return nil, err
	}
	c.mu.Lock()
	delete(c.holds, "checkout-"+project)
	c.mu.Unlock()
	if err := c.client.SignalWorkflow(ctx, contract.PromotionID(in.Run.ID), "", contract.SignalWake, promo.EventHold(project, in.Plan.Service.Name, "prod")); err != nil {
		return nil, err
	}
	if err := c.await(ctx, in.Run.ID, func(p promo.Promotion) bool { return holds(p) && len(p.WaitsFor) > 0 }); err != nil {
		return nil, err
	}
	c.mu.Lock()
	delete(c.absent, "us")
	c.mu.Unlock()
	if err := c.client.SignalWorkflow(ctx, contract.PromotionID(in.Run.ID), "", contract.SignalWake, promo.EventAgent("us")); err != nil {
		return nil, err
	}
	return []string{contract.PromotionID(in.Run.ID)}, c.await(ctx, in.Run.ID, ended(promo.PhaseSucceeded))
}

// playParallel: the first error of a group cancels an agent's work and waits for it.
func playParallel(ctx context.Context, c *city, project string) ([]string, error) {
	started := make(chan struct{})
	c.script(project, "slow", func(ctx context.Context, n int, call plan.Call) (plan.Result, error) {
		close(started)
		return untilCancelled(ctx, n, call)
	})
	c.script(project, "bad", func(ctx context.Context, _ int, _ plan.Call) (plan.Result, error) {
		select {
		case <-started:
		case <-ctx.Done():
		}
		return plan.Result{}, promo.Errorf(promo.CodeNotFound, "gone")
	})
	group := plan.Node{Kind: plan.NodeParallel, Nodes: []plan.Node{step("Http", "bad"), step("Sync", "slow")}}
	prod := stage("prod", agents()[:1], append(release(), group)...)
	prod.OnFailure, prod.RollbackNodes = []plan.Strategy{{Errors: []string{"All"}, Action: plan.ActionRollbackStage}}, []plan.Node{step("Http", "undo")}
	in := input(project, 1, prod)
	if err := c.start(ctx, in); err != nil {
		return nil, err
	}
	if err := c.await(ctx, in.Run.ID, ended(promo.PhaseFailed)); err != nil {
		return nil, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, st := range c.runs[in.Run.ID].Stages[0].Steps {
		if st.Name == "slow" && st.Phase != promo.PhaseAborted {
			return nil, fmt.Errorf("the cancelled step is %s", st.Phase)
		}
	}
	return []string{contract.PromotionID(in.Run.ID)}, nil
}
