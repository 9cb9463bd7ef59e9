package workflows

import (
	"fmt"
	"maps"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

const (
	// syncTime bounds the sync of a rollback, health included, where the caller names no other time.
	syncTime = 15 * time.Minute
	// reviewTime is how long a rollback's pull request waits for the reviews that its branch demands.
	reviewTime = 7 * 24 * time.Hour
)

// Rollback puts a service in an environment back to a known-good commit: lane, commit, sync of every target at
// once, health, verification, record, hold. See architecture, "Rollback: back to a known-good commit".
func Rollback(ctx workflow.Context, in contract.RollbackInput) (contract.RollbackResult, error) {
	r := &rollback{in: in, state: promo.Rollback{
		ID: in.ID, Project: in.Target.Project, Service: in.Target.Service.Name, Environment: in.Target.Environment,
		Number: in.Number, StartedBy: in.By.Name, Reason: in.Reason, Promotion: in.Promotion, Automatic: in.Automatic,
		Phase: promo.PhaseRunning, StartedAt: workflow.Now(ctx),
	}}
	info := in.Run
	info.ID = "rollback/" + in.ID
	r.base = newBase(ctx, info, &recorder{save: r.save}, &r.state.WaitsFor)
	work, cancel := workflow.WithCancel(ctx)
	r.cancel = cancel
	if err := r.serve(ctx); err != nil {
		return contract.RollbackResult{}, err
	}
	if err := workflow.SetQueryHandler(ctx, contract.QueryState, func() (promo.Rollback, error) { return r.state, nil }); err != nil {
		return contract.RollbackResult{}, err
	}
	r.listen(ctx)
	r.listenToLane(ctx)
	r.rec.start(ctx)
	r.rec.changed()

	err := r.work(work)

	return r.conclude(detached(ctx), err)
}

// rollback is the state of one way back.
type rollback struct {
	base
	in      contract.RollbackInput
	state   promo.Rollback
	granted bool
	written plan.RollbackWritten
}

func (r *rollback) save(ctx workflow.Context) error {
	r.state.Sequence++
	_, err := contract.Record.CallLocal(ctx, contract.RecordRequest{Rollback: plan.Encode(r.state)})
	return err
}

func (r *rollback) laneID() contract.LaneID {
	return contract.LaneID{Project: r.in.Target.Project, Service: r.in.Target.Service.Name, Environment: r.in.Target.Environment}
}

// listenToLane waits for the lane; a rollback is never superseded nor preempted.
func (r *rollback) listenToLane(ctx workflow.Context) {
	ch := workflow.GetSignalChannel(ctx, contract.SignalLane)
	workflow.Go(detached(ctx), func(ctx workflow.Context) {
		for {
			var a contract.LaneAnswer
			if !ch.Receive(ctx, &a) {
				return
			}
			if a.Kind == contract.LaneGranted {
				r.granted = true
			}
		}
	})
}

// work is the rollback from lane to verification. Steps are shown as they come.
func (r *rollback) work(ctx workflow.Context) *promo.Error {
	r.state.Steps = make([]promo.Step, 0, 4+len(r.in.Targets)*(1+len(r.in.Verify))) // entries are pointed at
	for _, f := range []func(workflow.Context) *promo.Error{r.takeLane, r.preview, r.write, r.sync, r.verify} {
		if err := f(ctx); err != nil {
			return err
		}
	}
	return nil
}

// step runs fn as a step that people see.
func (r *rollback) step(ctx workflow.Context, name, typ, target string, fn func(e *promo.Step) *promo.Error) *promo.Error {
	r.state.Steps = append(r.state.Steps, promo.Step{
		Name: name, Type: typ, Path: name, Target: target, Phase: promo.PhaseRunning, StartedAt: workflow.Now(ctx),
		Operation: r.operation(name, target), Attempt: 1,
	})
	e := &r.state.Steps[len(r.state.Steps)-1]
	r.rec.changed()
	err := fn(e)
	e.FinishedAt = workflow.Now(ctx)
	switch {
	case err == nil:
		e.Phase = promo.PhaseSucceeded
	case isStopped(err):
		e.Phase = promo.PhaseAborted
	default:
		e.Phase, e.Error, e.Message = promo.PhaseFailed, err, err.Msg
	}
	r.rec.changed()
	return err
}

func (r *rollback) operation(step, target string) string {
	if target == "" {
		target = "stage"
	}
	return r.info.ID + "/rollback.1/" + step + "/" + target
}

func (r *rollback) takeLane(ctx workflow.Context) *promo.Error {
	return r.step(ctx, "lane", "Lane", "", func(e *promo.Step) *promo.Error {
		e.Message = "waiting until the lane is free"
		since, asked := workflow.Now(ctx), r.in.LaneToken != ""
		for {
			if !asked {
				_, err := contract.TellLane.CallLocal(ctx, contract.TellLaneRequest{Lane: r.laneID(), Message: contract.LaneMessage{
					Kind: contract.LanePreempt, From: contract.RollbackID(r.in.ID), Token: "own", Label: "rollback " + r.in.ID, Lane: r.laneID(),
				}})
				if err != nil {
					return fault(err)
				}
			}
			r.rec.changed()
			ok, err := workflow.AwaitWithTimeout(ctx, poll(ctx, since, laneReminder), func() bool { return r.granted })
			if ok || err != nil {
				e.Message = ""
				return fault(err)
			}
			asked = false // what was passed has not come: ask
		}
	})
}

// preview works out what will be done, and asks a person where an automatic rollback may not decide by itself.
func (r *rollback) preview(ctx workflow.Context) *promo.Error {
	return r.step(ctx, "preview", "Preview", "", func(e *promo.Step) *promo.Error {
		p, err := contract.PreviewRollback.Call(ctx, r.in.Target)
		if err != nil {
			return fault(err)
		}
		r.state.Preview, r.state.To, r.state.From = &p, p.To, p.From
		r.rec.changed()
		if p.Refusal != "" {
			return errorf(promo.CodeConfiguration, "%s", p.Refusal)
		}
		if err := r.obey(ctx); err != nil {
			return err
		}
		if len(p.Shared) > 0 && r.in.Shared != "include" && r.in.Shared != "paths-only" && !r.in.Automatic {
			return r.sharedMustBeChosen(p)
		}
		return r.askPerson(ctx, p, e)
	})
}

// obey asks the policy sets that are bound to rollbacks; breaking the glass was allowed and audited before.
func (r *rollback) obey(ctx workflow.Context) *promo.Error {
	if r.in.BreakGlass {
		return nil
	}
	res, err := contract.Decide.Call(ctx, contract.DecideRequest{
		Project: r.in.Target.Project, Event: "rollback", Run: r.info.ID, Stage: r.in.Target.Environment, By: r.in.By,
	})
	if err != nil {
		return fault(err)
	}
	if len(res.Deny) > 0 {
		return errorf(promo.CodePolicy, "denied by policy: %s", strings.Join(res.Deny, "; "))
	}
	return nil
}

func (r *rollback) sharedMustBeChosen(p promo.Preview) *promo.Error {
	return &promo.Error{
		Code: promo.CodeConfiguration,
		Msg:  fmt.Sprintf("files under the shared paths differ from the known-good commit too: %s", strings.Join(p.Shared, ", ")),
		Hint: "choose --include-shared (also read by " + strings.Join(p.Readers, ", ") + ") or --paths-only",
	}
}

// askPerson asks where an automatic rollback would undo other people's commits, or can't know about shared files.
func (r *rollback) askPerson(ctx workflow.Context, p promo.Preview, e *promo.Step) *promo.Error {
	if !r.in.Automatic {
		return nil
	}
	var why []string
	if len(p.Foreign) > 0 && !r.in.AcceptForeign {
		why = append(why, fmt.Sprintf("it would undo %d commit(s) of other people, the latest by %s", len(p.Foreign), p.Foreign[0].Author))
	}
	undecided := len(p.Shared) > 0 && r.in.Shared != "include" && r.in.Shared != "paths-only"
	if undecided {
		why = append(why, "files under the shared paths differ too ("+strings.Join(p.Shared, ", ")+"), which other environments read")
	}
	if len(why) == 0 {
		return nil
	}
	a := &promo.Approval{Minimum: 1, Message: "The automatic rollback stopped: " + strings.Join(why, "; "), Expires: workflow.Now(ctx).Add(reviewTime)}
	if undecided {
		a.Inputs = []promo.ApprovalInput{{Name: "shared", Required: true, Allowed: []string{"include", "paths-only"}, Description: "put the shared files back too, or the environment's own paths only"}}
	}
	e.Approval = a
	q := &question{stage: r.in.Target.Environment, step: "preview", entry: e}
	r.asks = append(r.asks, q)
	r.state.Phase, e.Phase, r.state.Message = promo.PhaseWaitingForApproval, promo.PhaseWaitingForApproval, a.Message
	r.rec.changed()
	_, err := workflow.AwaitWithTimeout(ctx, reviewTime, q.done)
	r.state.Phase, e.Phase, r.state.Message = promo.PhaseRunning, promo.PhaseRunning, ""
	if err != nil {
		return fault(err)
	}
	if q.rejected != nil || !q.done() {
		return errorf(promo.CodeApproval, "nobody agreed to the automatic rollback")
	}
	if v := q.approvals()[0].Inputs["shared"]; v != "" {
		r.in.Shared = v
	}
	return nil
}

// write makes the commit; where the branch refuses a push it waits for the pull request's reviews.
func (r *rollback) write(ctx workflow.Context) *promo.Error {
	return r.step(ctx, "commit", "Commit", "", func(e *promo.Step) *promo.Error {
		deadline := workflow.Now(ctx).Add(reviewTime)
		req := plan.RollbackWrite{
			RollbackTarget: r.in.Target, Operation: e.Operation, IncludeShared: r.in.Shared == "include", By: r.in.By,
			Reason: r.in.Reason, Delivery: r.in.Delivery, ID: r.in.ID,
		}
		req.To = r.state.To // what was shown is what is done
		since := workflow.Now(ctx)
		for {
			res, err := contract.WriteRollback.Call(ctx, req)
			if err != nil {
				return fault(err)
			}
			r.written = res
			if res.Merged {
				r.state.Commit, e.Message = res.Commit, ""
				e.Outputs = plan.Encode(map[string]any{"commit": res.Commit, "changed": res.Changed, "pr": res.Change.PR})
				return nil
			}
			e.Message, r.state.Message = res.Waiting, res.Waiting
			events := []string{promo.EventPullRequest(r.in.Target.Repository.Name, res.Change.PR)}
			before := r.seen(events)
			done := r.watch(events...)
			werr := r.wait(ctx, poll(ctx, since, slowPoll), events, before)
			done()
			r.state.Message = ""
			if werr != nil {
				return werr
			}
			if !workflow.Now(ctx).Before(deadline) {
				return errorf(promo.CodeTimeout, "the pull request of the rollback was not merged within %s: %s", plan.Duration(reviewTime), res.Waiting)
			}
		}
	})
}

func (r *rollback) stageInfo(step string) plan.StageInfo {
	return plan.StageInfo{
		Name: "rollback", Step: step, Environment: &r.in.Env, Service: r.in.Target.Service, Repository: r.in.Target.Repository,
	}
}

// sync brings every target to the commit, all waves at once, pruning what the undone change had added.
func (r *rollback) sync(ctx workflow.Context) *promo.Error {
	st := &plan.Step{Name: "sync", Path: "sync", Type: "Sync", Scope: plan.ScopeTarget, Agent: true, Class: plan.ClassSync, Timeout: syncTime}
	if r.in.Timeout > 0 {
		st.Timeout = r.in.Timeout
	}
	st.Spec = plan.Encode(map[string]any{"revision": r.state.Commit, "prune": !r.in.NoPrune, "waitHealthy": true})
	return r.onTargets(ctx, st)
}

// verify runs the stage's Verify steps again on the state that was put back.
func (r *rollback) verify(ctx workflow.Context) *promo.Error {
	for i := range r.in.Verify {
		if err := r.onTargets(ctx, &r.in.Verify[i]); err != nil {
			return err
		}
	}
	return nil
}

func (r *rollback) onTargets(ctx workflow.Context, st *plan.Step) *promo.Error {
	return together(ctx, len(r.in.Targets), maxAtOnce, false, func(ctx workflow.Context, i int) *promo.Error {
		t := r.in.Targets[i]
		return r.step(ctx, st.Name, st.Type, t.Name, func(e *promo.Step) *promo.Error {
			spec, err := r.resolve(ctx, st, t)
			if err != nil {
				return err
			}
			res, err := r.look(ctx, st, t, spec, e)
			if err != nil {
				return err
			}
			e.Outputs, e.Message = res.Outputs, res.Message
			if res.Ask != nil { // evidence is missing: the environment is back, a person looks at the rest
				e.Message = res.Ask.Question
				return nil
			}
			return res.Verdict
		})
	})
}

// verifyLooks is how often a rollback verifies before it says that the environment is still bad: the first window
// may hold what the undone release left in the metrics.
const verifyLooks = 3

// look runs a step on a target; a verification that failed looks again over a window of its own.
func (r *rollback) look(ctx workflow.Context, st *plan.Step, t plan.Target, spec []byte, e *promo.Step) (plan.Result, *promo.Error) {
	for n := 1; ; n++ {
		now := workflow.Now(ctx)
		res, err := r.act(ctx, st, plan.Call{
			Operation: e.Operation, Run: r.info, Stage: r.stageInfo(st.Name), Target: &t, Spec: spec,
			Change: plan.Change{Merged: r.state.Commit}, StartedAt: now, Deadline: now.Add(st.Timeout),
		}, e)
		if err != nil || res.Verdict == nil || res.Verdict.Code != promo.CodeVerification || n == verifyLooks {
			return res, err
		}
		e.Attempt, e.Message = n+1, "looking again, the metrics may hold the release that was undone: "+res.Verdict.Msg
		r.rec.changed()
	}
}

// resolve evaluates what is left of expressions in a Verify step; only what the rollback itself knows is in scope.
func (r *rollback) resolve(ctx workflow.Context, st *plan.Step, t plan.Target) ([]byte, *promo.Error) {
	if !strings.Contains(string(st.Spec), "${{") {
		return st.Spec, nil
	}
	p := plan.Plan{Service: r.in.Target.Service, Repository: r.in.Target.Repository, Inputs: maps.Clone(r.in.Inputs)}
	if p.Inputs == nil {
		p.Inputs = map[string]any{}
	}
	if r.state.Preview != nil {
		p.Release.Version = r.state.Preview.Version
		p.Inputs["version"] = r.state.Preview.Version
	}
	vars, err := p.Vars(r.info, nil, plan.Place{Stage: &plan.Stage{Name: "rollback", Environment: &r.in.Env}, Target: &t})
	if err != nil {
		return nil, fault(err)
	}
	req := contract.ResolveRequest{Vars: vars, Where: "rollback, step " + st.Name}
	req.Specs = append(req.Specs, st.Spec)
	res, err := contract.Resolve.CallLocal(ctx, req)
	return res.Spec, fault(err)
}
