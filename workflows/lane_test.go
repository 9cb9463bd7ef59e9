package workflows_test

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// town is a lane with runs that only listen: they write down what the lane tells them. It is played by a workflow,
// because only workflows can be signalled by the lane.
type town struct {
	w     *world
	heard []string
	over  bool // what is heard from now on is only the end
	state contract.LaneState
}

func laneOf(env string) contract.LaneID {
	return contract.LaneID{Project: "default", Service: "checkout", Environment: env}
}

// play starts the members and sends the messages in order, one minute apart; then it asks the lane for its state.
func play(t *testing.T, members []string, messages []contract.LaneMessage) *town {
	t.Helper()
	tn := &town{w: newWorld(t)}
	w := tn.w
	w.env.RegisterWorkflowWithOptions(func(ctx workflow.Context, name string) error {
		ch := workflow.GetSignalChannel(ctx, contract.SignalLane)
		for {
			var a contract.LaneAnswer
			ch.Receive(ctx, &a)
			if a.Kind == "quit" {
				return nil
			}
			if tn.over {
				continue
			}
			tn.heard = append(tn.heard, strings.TrimSpace(fmt.Sprintf("%s %s %s%s", name, a.Kind, a.By, placeOf(a))))
		}
	}, workflow.RegisterOptions{Name: "member"})
	w.env.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
		for _, m := range members {
			child := workflow.ExecuteChildWorkflow(workflow.WithWorkflowID(ctx, m), "member", m)
			if err := child.GetChildWorkflowExecution().Get(ctx, nil); err != nil {
				return err
			}
		}
		// The test environment goes on with what a lane leaves when it starts anew.
		return workflow.ExecuteChildWorkflow(workflow.WithWorkflowID(ctx, laneOf("prod").WorkflowID()), contract.LaneWorkflow, contract.LaneState{Lane: laneOf("prod")}).Get(ctx, nil)
	}, workflow.RegisterOptions{Name: "town"})
	id := laneOf("prod").WorkflowID()
	for i, m := range messages {
		m.Lane = laneOf("prod")
		if m.Label == "" {
			m.Label = m.From
		}
		w.at(time.Duration(i+1)*time.Second, func() {
			if m.Kind == "quit" {
				_ = w.env.SignalWorkflowByID(m.From, contract.SignalLane, contract.LaneAnswer{Kind: "quit"})
				return
			}
			if err := w.env.SignalWorkflowByID(id, contract.SignalLaneMessage, m); err != nil {
				t.Errorf("message %d: %v", i+1, err)
			}
		})
	}
	w.at(2*time.Minute+30*time.Second, func() {
		v, err := w.env.QueryWorkflowByID(id, contract.QueryState)
		if err != nil {
			t.Errorf("state: %v", err)
			return
		}
		if err := v.Get(&tn.state); err != nil {
			t.Error(err)
		}
		tn.over = true
		for _, m := range append(slices.Concat(tn.state.Queue, tn.state.Arrived), *cmp.Or(tn.state.Holder, &contract.LaneMember{})) {
			_ = w.env.SignalWorkflowByID(id, contract.SignalLaneMessage, contract.LaneMessage{Kind: contract.LaneLeave, From: m.ID, Part: m.Part, Lane: laneOf("prod")})
		}
		for _, m := range members {
			_ = w.env.SignalWorkflowByID(m, contract.SignalLane, contract.LaneAnswer{Kind: "quit"})
		}
	})
	w.env.ExecuteWorkflow("town")
	if err := w.env.GetWorkflowError(); err != nil {
		t.Fatalf("town: %v", err)
	}
	return tn
}

func placeOf(a contract.LaneAnswer) string {
	switch a.Kind {
	case contract.LanePlaced:
		return fmt.Sprintf("%d behind %s", a.Place, a.Holder)
	case contract.LaneRejected:
		return "for " + a.Holder
	}
	return ""
}

func msg(kind contract.LaneKind, from string, mode plan.LaneMode) contract.LaneMessage {
	return contract.LaneMessage{Kind: kind, From: from, Token: "t", Mode: mode}
}

func TestLane(t *testing.T) {
	t.Parallel()
	const take, arrive, leave, yield, preempt = contract.LaneTake, contract.LaneArrive, contract.LaneLeave, contract.LaneYield, contract.LanePreempt
	q, sup, rej := plan.LaneQueue, plan.LaneSupersede, plan.LaneReject
	cases := map[string]struct {
		reason string
		send   []contract.LaneMessage
		heard  []string
		state  string // holder | queue | arrived
	}{
		"queue": {
			reason: "one at a time, in order, places shown",
			send:   []contract.LaneMessage{msg(take, "a", q), msg(take, "b", q), msg(take, "c", q), msg(leave, "a", ""), msg(leave, "b", "")},
			heard:  []string{"a granted", "b place 1 behind a", "b place 1 behind a", "c place 2 behind a", "b granted", "c place 1 behind b", "c granted"},
			state:  "c||",
		},
		"leave from the queue": {
			reason: "who leaves moves the others up",
			send:   []contract.LaneMessage{msg(take, "a", q), msg(take, "b", q), msg(take, "c", q), msg(leave, "b", "")},
			heard:  []string{"a granted", "b place 1 behind a", "b place 1 behind a", "c place 2 behind a", "c place 1 behind a"},
			state:  "a|c|",
		},
		"supersede": {
			reason: "who waits at a gate or in the queue is ended; the holder never",
			send:   []contract.LaneMessage{msg(take, "a", q), msg(take, "b", q), msg(arrive, "c", q), msg(arrive, "d", sup)},
			heard:  []string{"a granted", "b place 1 behind a", "b superseded d", "c superseded d"},
			state:  "a||d",
		},
		"supersede asked for by the take": {
			reason: "a stage without a gate is not announced: its take applies the mode",
			send:   []contract.LaneMessage{msg(arrive, "a", sup), msg(take, "b", sup)},
			heard:  []string{"a superseded b", "b granted"}, state: "b||",
		},
		"reject": {
			reason: "an arriving run is turned away where the lane is busy",
			send:   []contract.LaneMessage{msg(take, "a", q), msg(arrive, "b", rej), msg(take, "c", rej)},
			heard:  []string{"a granted", "b rejected for a", "c rejected for a"}, state: "a||",
		},
		"reject on a free lane": {
			reason: "a free lane takes it", send: []contract.LaneMessage{msg(take, "a", rej)}, heard: []string{"a granted"}, state: "a||",
		},
		"preempt": {
			reason: "a rollback goes first, and the holder is told to abort; a second rollback waits for the first",
			send:   []contract.LaneMessage{msg(take, "a", q), msg(take, "b", q), msg(preempt, "r1", ""), msg(preempt, "r2", ""), msg(leave, "a", ""), msg(take, "c", sup)},
			heard: []string{
				"a granted", "b place 1 behind a", "r1 place 1 behind a", "b place 2 behind a", "a preempted r1",
				"r1 place 1 behind a", "r2 place 2 behind a", "b place 3 behind a", "a preempted r2",
				"r1 granted", "r2 place 1 behind r1", "b place 2 behind r1", "b superseded c", "r2 place 1 behind r1", "c place 2 behind r1",
			},
			state: "r1|r2,c|",
		},
		"pass": {
			reason: "the holder hands the lane to its rollback, before everybody in the queue",
			send: []contract.LaneMessage{
				msg(take, "a", q), msg(take, "b", q),
				{Kind: contract.LanePass, From: "a", Token: "t", Member: "r1", MemberToken: "p", Label: "r1"},
			},
			heard: []string{"a granted", "b place 1 behind a", "r1 granted", "b place 1 behind r1"}, state: "r1|b|",
		},
		"idempotent takes": {
			reason: "a take that is told twice changes nothing but its token",
			send:   []contract.LaneMessage{msg(take, "a", q), msg(take, "b", q), msg(take, "a", q), msg(take, "b", q), msg(arrive, "b", q)},
			heard:  []string{"a granted", "b place 1 behind a", "a granted", "b place 1 behind a"}, state: "a|b|",
		},
		"yield": {
			reason: "who asks people again stays announced, and its next take supersedes nobody",
			send:   []contract.LaneMessage{msg(take, "a", sup), msg(arrive, "b", sup), msg(yield, "a", sup), msg(take, "a", sup)},
			heard:  []string{"a granted", "a granted"}, state: "a||b",
		},
		"two stages of one run": {
			reason: "what one stage gives back is not the other's",
			send: []contract.LaneMessage{
				{Kind: take, From: "a", Part: "one", Token: "1", Mode: sup},
				{Kind: take, From: "a", Part: "two", Token: "2", Mode: sup},
				{Kind: leave, From: "a", Part: "one"},
			},
			heard: []string{"a granted", "a place 1 behind a", "a granted"}, state: "a||",
		},
		"gone when its turn comes": {
			reason: "a run that has ended is passed over",
			send:   []contract.LaneMessage{msg(take, "a", q), msg(take, "b", q), msg(take, "c", q), {Kind: "quit", From: "b"}, msg(leave, "a", "")},
			heard:  []string{"a granted", "b place 1 behind a", "b place 1 behind a", "c place 2 behind a", "c granted"}, state: "c||",
		},
		"gone holder": {
			reason: "the lane frees itself of a holder that ended without leaving",
			send:   []contract.LaneMessage{msg(take, "gone", q), msg(take, "b", q)},
			heard:  []string{"gone granted", "b place 1 behind gone", "b granted"}, state: "b||",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tn := play(t, []string{"a", "b", "c", "d", "r1", "r2", "gone"}, tc.send)
			if diff := gocmp.Diff(tc.heard, tn.heard); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if got := show(tn.state); got != tc.state {
				t.Errorf("%s: state %q, want %q", tc.reason, got, tc.state)
			}
		})
	}
}

func show(st contract.LaneState) string {
	names := func(l []contract.LaneMember) string {
		var out []string
		for _, m := range l {
			out = append(out, m.ID)
		}
		return strings.Join(out, ",")
	}
	holder := ""
	if st.Holder != nil {
		holder = st.Holder.ID
	}
	return holder + "|" + names(st.Queue) + "|" + names(st.Arrived)
}

func TestLaneStartsAnew(t *testing.T) {
	t.Parallel()
	send := []contract.LaneMessage{msg(contract.LaneTake, "a", plan.LaneQueue), msg(contract.LaneTake, "b", plan.LaneQueue), msg(contract.LaneArrive, "c", plan.LaneQueue)}
	for range 60 {
		send = append(send, msg(contract.LaneTake, "d", plan.LaneQueue), msg(contract.LaneLeave, "d", ""))
	}
	tn := play(t, []string{"a", "b", "c", "d"}, send)
	if got := show(tn.state); got != "a|b|c" || tn.w.counts["lane-run"] < 3 {
		t.Errorf("after %d runs the lane is %q, want a|b|c", tn.w.counts["lane-run"], got)
	}
}

// TestPromotionsOfOneService runs promotions with the real lane: the second starts while the first holds it.
func TestPromotionsOfOneService(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		mode   plan.LaneMode
		gated  bool
		second promo.Phase
		first  promo.Phase
		order  string
	}{
		"queue":                   {mode: plan.LaneQueue, first: promo.PhaseSucceeded, second: promo.PhaseSucceeded, order: "1 merge,1 slow,2 merge,2 slow"},
		"supersede spares holder": {mode: plan.LaneSupersede, first: promo.PhaseSucceeded, second: promo.PhaseSucceeded, order: "1 merge,1 slow,2 merge,2 slow"},
		"supersede ends a gate":   {mode: plan.LaneSupersede, gated: true, first: promo.PhaseSuperseded, second: promo.PhaseFailed},
		"reject":                  {mode: plan.LaneReject, first: promo.PhaseSucceeded, second: promo.PhaseFailed, order: "1 merge,1 slow"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			var order []string
			mark := func(_ int, c plan.Call) (plan.Result, error) {
				w.mu.Lock()
				defer w.mu.Unlock()
				order = append(order, fmt.Sprintf("%d %s", c.Run.Number, c.Stage.Step))
				return goodDay("MergePR", c), nil
			}
			w.do["merge"], w.do["slow"] = mark, mark
			w.tell = func(m contract.LaneMessage) {
				w.at(0, func() { _ = w.env.SignalWorkflowByID(m.Lane.WorkflowID(), contract.SignalLaneMessage, m) })
			}
			nodes := []plan.Node{do("UpdateReleaseRepo", "update")}
			if tc.gated {
				nodes = append(nodes, do("Approval", "sign-off", timeout(2*time.Hour)))
			}
			nodes = append(nodes, do("MergePR", "merge"), do("Wait", "pause", spec(plan.WaitSpec{Duration: plan.Duration(10 * time.Minute)})), do("Http", "slow"))
			results := make([]contract.PromotionResult, 2)
			w.env.RegisterWorkflowWithOptions(func(ctx workflow.Context) error {
				lane := workflow.ExecuteChildWorkflow(workflow.WithWorkflowID(ctx, laneOf("prod").WorkflowID()), contract.LaneWorkflow, contract.LaneState{Lane: laneOf("prod")})
				var runs []workflow.ChildWorkflowFuture
				for i := range results {
					in := input(stage("prod", []string{"us"}, nodes...))
					in.Plan.Lane = tc.mode
					in.Run.Number, in.Run.ID = i+1, fmt.Sprintf("default/checkout/%d", i+1)
					runs = append(runs, workflow.ExecuteChildWorkflow(workflow.WithWorkflowID(ctx, contract.PromotionID(in.Run.ID)), contract.PromotionWorkflow, in))
					if err := workflow.Sleep(ctx, time.Minute); err != nil {
						return err
					}
				}
				for i, f := range runs {
					if err := f.Get(ctx, &results[i]); err != nil {
						return err
					}
				}
				return lane.Get(ctx, nil)
			}, workflow.RegisterOptions{Name: "town"})
			w.env.ExecuteWorkflow("town")
			if err := w.env.GetWorkflowError(); err != nil {
				t.Fatal(err)
			}
			if results[0].Phase != tc.first || results[1].Phase != tc.second {
				t.Errorf("ended %s and %s, want %s and %s", results[0].Phase, results[1].Phase, tc.first, tc.second)
			}
			if got := strings.Join(order, ","); got != tc.order {
				t.Errorf("order %s, want %s", got, tc.order)
			}
			if tc.mode == plan.LaneQueue {
				seen := false
				for _, r := range w.records {
					seen = seen || (r.Number == 2 && r.Stages[0].Lane != nil && r.Stages[0].Lane.Place == 1 && r.Stages[0].Lane.Holder == "default/checkout/1")
				}
				if !seen {
					t.Error("the place in the queue was not shown")
				}
			}
		})
	}
}

func TestSupersededRunThatHoldsElsewhere(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	a := stage("a", []string{"us"}, do("MergePR", "merge-a"), do("Wait", "wait", spec(plan.WaitSpec{Duration: plan.Duration(time.Hour)}), timeout(2*time.Hour)), do("Sync", "sync-a"))
	b := stage("b", []string{"eu"}, do("Approval", "sign-off", timeout(9*time.Hour)), do("MergePR", "merge-b"))
	c := custom("c", do("Wait", "rest", spec(plan.WaitSpec{Duration: plan.Duration(8 * time.Hour)}), timeout(9*time.Hour)))
	w.at(time.Minute, func() {
		for _, m := range w.lane {
			if m.Lane.Environment == "b" {
				w.env.SignalWorkflow(contract.SignalLane, contract.LaneAnswer{Lane: m.Lane, Token: m.Token, Kind: contract.LaneSuperseded, By: "default/checkout/2"})
			}
		}
	})
	p := w.run(input(a, b, c))
	if got := phases(p); got != "Superseded: a=Succeeded b=Superseded c=Superseded" || p.Message != "superseded by default/checkout/2" {
		t.Errorf("the stage that changes its environment ends first: got %s (%s)", got, p.Message)
	}
}

func TestPreempted(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ordered = true
	w.at(time.Minute, func() {
		last := w.lane[len(w.lane)-1]
		w.env.SignalWorkflow(contract.SignalLane, contract.LaneAnswer{Lane: last.Lane, Token: last.Token, Kind: contract.LanePreempted, By: "rollback 7"})
	})
	s := withStage(waved(plan.ChangesPerWave), func(s *plan.Stage) { s.Nodes, s.Prologue, s.PauseBetweenWaves = release(), 1, time.Hour })
	p := w.run(input(s))
	log := strings.Join(w.transcript(), ",")
	if p.Phase != promo.PhaseAborted || p.Message != "aborted by rollback 7" || !strings.HasSuffix(log, "mark prod merged-prod-wave-1 good=false,cleanup 3,lane.leave prod") {
		t.Errorf("the holder aborts, cleans up, and leaves: %s (%s), %s", p.Phase, p.Message, log)
	}
}

func TestRejectedWhileAsking(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at(time.Minute, func() {
		m := w.lane[0]
		w.env.SignalWorkflow(contract.SignalLane, contract.LaneAnswer{Lane: m.Lane, Token: m.Token, Kind: contract.LaneRejected, Holder: "default/checkout/7"})
	})
	in := input(gated(plan.ApprovalSpec{}))
	in.Plan.Lane = plan.LaneReject
	p := w.run(in)
	if p.Phase != promo.PhaseFailed || p.Error.Code != promo.CodeConflict || !strings.Contains(p.Error.Msg, "by default/checkout/7") || p.Error.Hint == "" {
		t.Errorf("a run that is turned away says for whom: %s, %+v", p.Phase, p.Error)
	}
}

func TestLostLane(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	takes := 0
	w.tell = func(m contract.LaneMessage) {
		if m.Kind == contract.LaneTake {
			if takes++; takes == 2 {
				w.grant(m)
			}
		}
	}
	p := w.run(input(stage("prod", []string{"us"}, release()...)))
	if p.Phase != promo.PhaseSucceeded || takes != 2 || w.lane[0].Token != w.lane[1].Token {
		t.Errorf("a lane that never answers is asked again, as the same take: %s, %+v", p.Phase, w.lane)
	}
	w = newWorld(t)
	w.tell = func(m contract.LaneMessage) {
		if m.Kind == contract.LanePreempt {
			w.grant(m)
		}
	}
	in := rollbackInput()
	in.LaneToken = "passed"
	if b, _ := w.back(in); b.Phase != promo.PhaseSucceeded {
		t.Errorf("a rollback to which no lane comes asks for it itself: %s", b.Phase)
	}
}
