package workflows

import (
	"slices"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
)

const (
	// laneCheck is how often a lane with a queue looks whether its holder is still there.
	laneCheck = time.Minute
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
	d := laneCheck
	if l.empty() {
		d = laneIdle
	}
	ok, _ := ch.ReceiveWithTimeout(ctx, d, &m)
	return m, ok
}

// take takes one message in.
func (l *lane) take(ctx workflow.Context, m contract.LaneMessage) {
	l.st.Lane = m.Lane
	who := contract.LaneMember{ID: m.From, Token: m.Token, Label: m.Label, Mode: m.Mode, Since: workflow.Now(ctx)}
	switch m.Kind {
	case contract.LaneArrive:
		if l.enter(ctx, who) {
			l.st.Arrived = append(l.st.Arrived, who)
		}
	case contract.LaneTake:
		l.queue(ctx, who)
	case contract.LanePreempt:
		l.preempt(ctx, who)
	case contract.LanePass:
		if l.st.Holder != nil && l.st.Holder.ID == m.From {
			l.st.Holder = &contract.LaneMember{ID: m.Member, Token: m.MemberToken, Label: m.Label, Since: workflow.Now(ctx), Preempts: true}
			l.grant(ctx)
		} else {
			l.queue(ctx, contract.LaneMember{ID: m.Member, Token: m.MemberToken, Label: m.Label, Since: workflow.Now(ctx), Preempts: true})
		}
	case contract.LaneLeave:
		l.remove(m.From)
	}
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
				l.remove(m.ID)
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
	if l.st.Holder != nil && l.st.Holder.ID == who.ID {
		l.st.Holder.Token = who.Token
		l.grant(ctx)
		return
	}
	arrived := slices.ContainsFunc(l.st.Arrived, func(m contract.LaneMember) bool { return m.ID == who.ID })
	if !arrived && !who.Preempts && !l.enter(ctx, who) {
		return
	}
	l.remove(who.ID)
	if who.Preempts {
		l.st.Queue = slices.Insert(l.st.Queue, 0, who)
	} else {
		l.st.Queue = append(l.st.Queue, who)
	}
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

func (l *lane) remove(id string) {
	gone := func(m contract.LaneMember) bool { return m.ID == id }
	if l.st.Holder != nil && l.st.Holder.ID == id {
		l.st.Holder = nil
	}
	l.st.Queue = slices.DeleteFunc(l.st.Queue, gone)
	l.st.Arrived = slices.DeleteFunc(l.st.Arrived, gone)
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
			l.remove(m.ID)
		}
	}
}
