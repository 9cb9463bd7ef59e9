package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
)

const (
	// laneCheck is how often a lane with a queue looks whether its members are still there; laneSlowCheck is the
	// same where nobody waits for another.
	laneCheck     = time.Minute
	laneSlowCheck = time.Hour
	// laneIdle is how long an empty lane stays; a message starts it again.
	laneIdle = 5 * time.Minute
	// laneChanges is how many settled changes a lane's history holds before it starts anew.
	laneChanges = 50
)

// Lane is the entity of one service in one environment: it lets one run at a time change it, shows the queue, and
// knows the modes queue, supersede and reject. Its state is its input after continue-as-new.
func Lane(ctx workflow.Context, st contract.LaneState) error {
	l := &lane{st: st}
	if err := workflow.SetQueryHandler(ctx, contract.QueryState, func() (contract.LaneState, error) { return l.st, nil }); err != nil {
		return err
	}
	ch := workflow.GetSignalChannel(ctx, contract.SignalLaneMessage)
	for {
		m, ok := l.next(ctx, ch)
		switch {
		case ok:
			l.take(ctx, m)
			l.changes++
		case ctx.Err() != nil:
			return ctx.Err()
		case l.empty() && ch.Len() == 0:
			return nil
		default:
			l.check(ctx)
		}
		l.advance(ctx)
		if ch.Len() == 0 && (l.changes >= laneChanges || workflow.GetInfo(ctx).GetContinueAsNewSuggested()) {
			return workflow.NewContinueAsNewError(ctx, contract.LaneWorkflow, l.st)
		}
	}
}

type lane struct {
	st      contract.LaneState
	changes int
}

func (l *lane) empty() bool { return l.st.Holder == nil && len(l.st.Queue)+len(l.st.Arrived) == 0 }

// next receives a message, or nothing when it is time to look around.
func (l *lane) next(ctx workflow.Context, ch workflow.ReceiveChannel) (contract.LaneMessage, bool) {
	var m contract.LaneMessage
	d := laneSlowCheck
	switch {
	case l.empty():
		d = laneIdle
	case len(l.st.Queue) > 0:
		d = laneCheck
	}
	ok, _ := ch.ReceiveWithTimeout(ctx, d, &m)
	return m, ok
}

// take takes one message in.
func (l *lane) take(ctx workflow.Context, m contract.LaneMessage) {
	l.st.Lane = m.Lane
	who := contract.LaneMember{ID: m.From, Part: m.Part, Token: m.Token, Label: m.Label, Mode: m.Mode, Since: workflow.Now(ctx)}
	switch m.Kind {
	case contract.LaneArrive:
		l.arrive(ctx, who)
	case contract.LaneTake:
		l.queue(ctx, who)
	case contract.LanePreempt:
		l.preempt(ctx, who)
	case contract.LanePass:
		if l.holds(who) {
			l.st.Holder = &contract.LaneMember{ID: m.Member, Token: m.MemberToken, Label: m.Label, Since: workflow.Now(ctx), Preempts: true}
			if l.grant(ctx) {
				l.places(ctx)
			}
		} else {
			l.queue(ctx, contract.LaneMember{ID: m.Member, Token: m.MemberToken, Label: m.Label, Since: workflow.Now(ctx), Preempts: true})
		}
	case contract.LaneYield:
		l.remove(who)
		l.st.Arrived = append(l.st.Arrived, who)
	case contract.LaneLeave:
		l.remove(who)
		if l.st.Holder != nil {
			l.places(ctx)
		}
	}
}

// arrive notes a run that will want the lane; one that is told twice, or is in the queue already, is there once.
func (l *lane) arrive(ctx workflow.Context, who contract.LaneMember) {
	if l.holds(who) || slices.ContainsFunc(slices.Concat(l.st.Queue, l.st.Arrived), who.Same) || !l.enter(ctx, who) {
		return
	}
	l.st.Arrived = append(l.st.Arrived, who)
}

func (l *lane) holds(who contract.LaneMember) bool {
	return l.st.Holder != nil && l.st.Holder.Same(who)
}

// enter applies the arriving run's mode; false means that it is turned away.
func (l *lane) enter(ctx workflow.Context, who contract.LaneMember) bool {
	busy := l.st.Holder != nil && l.st.Holder.ID != who.ID
	waits := func(m contract.LaneMember) bool { return m.ID != who.ID }
	switch who.Mode {
	case plan.LaneReject:
		if busy || slices.ContainsFunc(l.st.Queue, waits) {
			l.tell(ctx, who, contract.LaneAnswer{Kind: contract.LaneRejected, Holder: l.occupant(who.ID)})
			return false
		}
	case plan.LaneSupersede:
		for _, m := range slices.Concat(l.st.Queue, l.st.Arrived) {
			if waits(m) && !m.Preempts {
				l.tell(ctx, m, contract.LaneAnswer{Kind: contract.LaneSuperseded, By: who.Label})
				l.remove(m)
			}
		}
	case plan.LaneQueue:
	}
	return true
}

// occupant names whom a run that is turned away is turned away for.
func (l *lane) occupant(but string) string {
	if l.st.Holder != nil && l.st.Holder.ID != but {
		return l.st.Holder.Label
	}
	for _, m := range l.st.Queue {
		if m.ID != but {
			return m.Label
		}
	}
	return ""
}

func (l *lane) queue(ctx workflow.Context, who contract.LaneMember) {
	if l.holds(who) {
		l.st.Holder.Token = who.Token
		l.grant(ctx)
		return
	}
	if i := slices.IndexFunc(l.st.Queue, who.Same); i >= 0 { // told twice: it keeps its place
		l.st.Queue[i].Token = who.Token
		l.places(ctx)
		return
	}
	arrived := slices.ContainsFunc(l.st.Arrived, who.Same)
	if !arrived && !who.Preempts && !l.enter(ctx, who) {
		return
	}
	l.remove(who)
	at := len(l.st.Queue)
	if i := slices.IndexFunc(l.st.Queue, func(m contract.LaneMember) bool { return !m.Preempts }); who.Preempts && i >= 0 {
		at = i // before promotions, behind rollbacks that came before
	}
	l.st.Queue = slices.Insert(l.st.Queue, at, who)
	if l.st.Holder != nil {
		l.places(ctx)
	}
}

// preempt puts a person's rollback first and tells the holder to abort and clean up.
func (l *lane) preempt(ctx workflow.Context, who contract.LaneMember) {
	who.Preempts = true
	l.queue(ctx, who)
	if h := l.st.Holder; h != nil && h.ID != who.ID && !h.Preempts { // a rollback under way is waited for
		l.tell(ctx, *h, contract.LaneAnswer{Kind: contract.LanePreempted, By: who.Label})
	}
}

// advance gives a free lane to the first in the queue.
func (l *lane) advance(ctx workflow.Context) {
	for l.st.Holder == nil && len(l.st.Queue) > 0 {
		head := l.st.Queue[0]
		l.st.Queue = slices.Clone(l.st.Queue[1:])
		l.st.Holder = &head
		if l.grant(ctx) {
			l.places(ctx)
		}
	}
}

// grant tells the holder; one that is gone loses the lane at once.
func (l *lane) grant(ctx workflow.Context) bool {
	if l.tell(ctx, *l.st.Holder, contract.LaneAnswer{Kind: contract.LaneGranted}) {
		return true
	}
	l.st.Holder = nil
	return false
}

func (l *lane) places(ctx workflow.Context) {
	holder := ""
	if l.st.Holder != nil {
		holder = l.st.Holder.Label
	}
	for i, m := range slices.Clone(l.st.Queue) {
		l.tell(ctx, m, contract.LaneAnswer{Kind: contract.LanePlaced, Place: i + 1, Holder: holder})
	}
}

// tell signals a member; false means that it is not there any more.
func (l *lane) tell(ctx workflow.Context, to contract.LaneMember, a contract.LaneAnswer) bool {
	a.Lane, a.Token = l.st.Lane, to.Token
	return workflow.SignalExternalWorkflow(ctx, to.ID, "", contract.SignalLane, a).Get(ctx, nil) == nil
}

func (l *lane) remove(who contract.LaneMember) {
	if l.holds(who) {
		l.st.Holder = nil
	}
	l.st.Queue = slices.DeleteFunc(l.st.Queue, who.Same)
	l.st.Arrived = slices.DeleteFunc(l.st.Arrived, who.Same)
}

// check frees the lane of members that ended without leaving: a server may have been killed between the two.
func (l *lane) check(ctx workflow.Context) {
	members := slices.Concat(l.st.Queue, l.st.Arrived)
	if l.st.Holder != nil {
		members = append(members, *l.st.Holder)
	}
	for _, m := range members {
		res, err := contract.RunAlive.Call(ctx, contract.RunAliveRequest{ID: m.ID})
		if err == nil && !res.Alive {
			workflow.GetLogger(ctx).Warn("lane member is gone", "member", m.Label)
			l.remove(m)
		}
	}
}
