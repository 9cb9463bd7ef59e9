package workflows

import (
	"errors"
	"slices"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// pickUp is how long a task waits for an agent to poll before the agent's presence is looked at again.
const pickUp = 20 * time.Second

// act runs an action step to its end: it waits for the agent, calls the activity, and calls it again as often as
// the step asks. Promotions and rollbacks use it.
func (b *base) act(ctx workflow.Context, st *plan.Step, call plan.Call, entry *promo.Step) (plan.Result, *promo.Error) {
	var wake []string
	for n := 0; ; n++ {
		if !workflow.Now(ctx).Before(call.Deadline) {
			return plan.Result{}, late(st, entry)
		}
		if err := b.awaitAgent(ctx, st, call, entry); err != nil {
			return plan.Result{}, err
		}
		call.Now = workflow.Now(ctx)
		// Events are counted from before the call: one that arrives while the step reads the truth must wake it.
		before := b.seen(wake)
		res, err := b.call(ctx, st, call)
		if missedAgent(err) {
			continue
		}
		if err != nil {
			return plan.Result{}, fault(err)
		}
		if res.Again == nil {
			return res, nil
		}
		if !slices.Equal(wake, res.Again.Wake) {
			wake = res.Again.Wake
			before = b.seen(wake)
		}
		if part := looks(ctx); n >= oftenAgain || part < oftenAgain { // who waits for hours need not look every second
			res.Again.After = max(res.Again.After, workflow.Now(ctx).Sub(call.StartedAt)/part)
		}
		if err := b.again(ctx, call.Deadline, res, entry, before); err != nil {
			return plan.Result{}, err
		}
		call.State = res.Again.State
	}
}

// oftenAgain is how many times a step may ask to be called again as soon as it likes. Beyond, each wait is at least
// that part of the time so far, so that no history grows past some thousand events.
const oftenAgain = 100

// looks is the part of its time so far that a step at least waits before it is called again. A run of many targets
// has a long history: there each of them looks more rarely. Temporal ends a run at 51,200 events.
func looks(ctx workflow.Context) time.Duration {
	switch n := workflow.GetInfo(ctx).GetCurrentHistoryLength(); {
	case n > 25_000:
		return 2
	case n > 10_000:
		return 10
	default:
		return oftenAgain
	}
}

func late(st *plan.Step, entry *promo.Step) *promo.Error {
	err := errorf(promo.CodeTimeout, "step %q was not done within %s", st.Name, plan.Duration(st.Timeout))
	if entry.Message != "" {
		err.Msg += ": " + entry.Message
	}
	return err
}

// call runs the step's activity once, within what is left of the step's time.
func (b *base) call(ctx workflow.Context, st *plan.Step, call plan.Call) (plan.Result, error) {
	if err := b.slots.Acquire(ctx, 1); err != nil {
		return plan.Result{}, err
	}
	defer b.slots.Release(1)
	o := contract.Options(st.Class)
	left := max(call.Deadline.Sub(call.Now), time.Second)
	if st.Agent {
		o.TaskQueue = contract.AgentTaskQueue(call.Target.Agent)
		o.ScheduleToStartTimeout = min(pickUp, left)
		o.StartToCloseTimeout, o.ScheduleToCloseTimeout = left, left
		o.WaitForCancellation = true // the agent terminates its sync before the run goes on
	} else {
		o.StartToCloseTimeout = min(o.StartToCloseTimeout, left)
		o.ScheduleToCloseTimeout = min(o.ScheduleToCloseTimeout, left)
	}
	return contract.Step(st.Type, st.Class).CallWith(ctx, o, call)
}

// missedAgent tells that no agent picked the task up in time.
func missedAgent(err error) bool {
	var to *temporal.TimeoutError
	return errors.As(err, &to) && to.TimeoutType() == enums.TIMEOUT_TYPE_SCHEDULE_TO_START
}

// again waits for what the step asked to wait for and shows what it says meanwhile.
func (b *base) again(ctx workflow.Context, deadline time.Time, res plan.Result, entry *promo.Step, before int) *promo.Error {
	entry.Message = res.Message
	if len(res.Outputs) > 0 {
		entry.Outputs = res.Outputs
	}
	b.rec.changed()
	d := res.Again.After
	if d <= 0 {
		d = slowPoll
	}
	if len(res.Again.Wake) > 0 {
		defer b.watch(res.Again.Wake...)()
	}
	left := max(deadline.Sub(workflow.Now(ctx)), 0)
	return b.wait(ctx, min(d, left), res.Again.Wake, before)
}

// awaitAgent returns once the target's agent is connected, where the step needs one. It says which agent is missing.
func (b *base) awaitAgent(ctx workflow.Context, st *plan.Step, call plan.Call, entry *promo.Step) *promo.Error {
	if !st.Agent {
		return nil
	}
	if call.Target == nil {
		return errorf(promo.CodeConfiguration, "step %q runs on an agent, and there is no target whose agent that were", st.Name)
	}
	events := []string{promo.EventAgent(call.Target.Agent)}
	waited, since := false, workflow.Now(ctx)
	for {
		before := b.seen(events)
		p, err := contract.Presence.CallLocal(ctx, contract.PresenceRequest{Agent: call.Target.Agent})
		if err != nil {
			return fault(err)
		}
		if !p.Known {
			return &promo.Error{
				Code: promo.CodeConfiguration, Msg: "target " + call.Target.Name + " names agent " + call.Target.Agent + ", which does not exist",
				Hint: "create it with `davit agent create " + call.Target.Agent + "`",
			}
		}
		if p.Connected {
			if waited {
				entry.Message = ""
				b.rec.changed()
			}
			return nil
		}
		entry.Message = "waiting for agent " + call.Target.Agent + ", which is not connected"
		if !p.Since.IsZero() {
			entry.Message += " since " + p.Since.UTC().Format(time.RFC3339)
		}
		waited = true
		b.rec.changed()
		left := call.Deadline.Sub(workflow.Now(ctx))
		if left <= 0 {
			return late(st, entry)
		}
		done := b.watch(events...)
		werr := b.wait(ctx, min(left, poll(ctx, since, slowPoll)), events, before)
		done()
		if werr != nil {
			return werr
		}
	}
}
