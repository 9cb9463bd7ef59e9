package workflows_test

import (
	"strings"
	"testing"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/temporal"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

func TestHold(t *testing.T) {
	t.Parallel()
	held := func(n int) *promo.Hold {
		if n > 3 {
			return nil
		}
		return &promo.Hold{By: "rita", Reason: "rolled back: p99"}
	}
	w := newWorld(t)
	w.hold = held
	in := input(stage("prod", []string{"us"}, release()...))
	in.Automatic = true
	p := w.run(in)
	seen := false
	for _, r := range w.records {
		seen = seen || (r.Phase == promo.PhasePaused && strings.Contains(r.Message, "rolled back: p99"))
	}
	if !seen || p.Phase != promo.PhaseSucceeded {
		t.Errorf("an automatic promotion pauses, says why, and goes on when it is released: seen %t, ended %s", seen, p.Phase)
	}
	w = newWorld(t)
	w.hold = func(int) *promo.Hold { return &promo.Hold{By: "rita"} }
	if p := w.run(input(stage("prod", []string{"us"}, release()...))); p.Phase != promo.PhaseSucceeded || w.counts["hold.read"] != 0 {
		t.Errorf("a promotion that a person started passes: %s", p.Phase)
	}
}

func TestHoldEndsByEvent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	released := false
	w.hold = func(int) *promo.Hold {
		if released {
			return nil
		}
		return &promo.Hold{By: "rita"}
	}
	w.at(10*time.Second, func() {
		released = true
		w.env.SignalWorkflow(contract.SignalWake, promo.EventHold("default", "checkout", "prod"))
	})
	in := input(stage("prod", []string{"us"}, release()...))
	in.Automatic = true
	p := w.run(in)
	if took := p.FinishedAt.Sub(p.Stages[0].StartedAt); took > 30*time.Second {
		t.Errorf("the release of the hold woke nobody: it took %s", took)
	}
	var waits []string
	for _, r := range w.records {
		waits = append(waits, r.WaitsFor...)
	}
	if !strings.Contains(strings.Join(waits, ","), "hold/default/checkout/prod") {
		t.Errorf("the record doesn't say what would wake the promotion: %v", waits)
	}
}

func TestAgentMissing(t *testing.T) {
	t.Parallel()
	since := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	w := newWorld(t)
	back := false
	w.presence = func(int) contract.PresenceResult {
		return contract.PresenceResult{Known: true, Connected: back, Since: since}
	}
	w.at(10*time.Second, func() {
		back = true
		w.env.SignalWorkflow(contract.SignalWake, promo.EventAgent("agent-us"))
	})
	p := w.run(input(stage("prod", []string{"us"}, release()...)))
	var said []string
	for _, r := range w.records {
		said = append(said, stepOf(t, r, "prod", "sync", "us").Message)
	}
	if !strings.Contains(strings.Join(said, "\n"), "waiting for agent agent-us, which is not connected since 2026-01-02T03:04:05Z") {
		t.Errorf("nobody says which agent is missing: %v", said)
	}
	if took := p.FinishedAt.Sub(p.Stages[0].StartedAt); p.Phase != promo.PhaseSucceeded || took > 30*time.Second {
		t.Errorf("got %s after %s", p.Phase, took)
	}
	w = newWorld(t)
	w.presence = func(int) contract.PresenceResult { return contract.PresenceResult{Known: true, Since: since} }
	p = w.run(input(stage("prod", []string{"us"}, do("Sync", "sync", timeout(10*time.Minute)))))
	if p.Phase != promo.PhaseFailed || p.Error.Code != promo.CodeTimeout || !strings.Contains(p.Error.Msg, "agent-us") {
		t.Errorf("an agent that never comes: got %+v", p.Error)
	}
	w = newWorld(t)
	w.presence = func(int) contract.PresenceResult { return contract.PresenceResult{} }
	p = w.run(input(stage("prod", []string{"us"}, do("Sync", "sync"))))
	if p.Phase != promo.PhaseFailed || p.Error.Code != promo.CodeConfiguration || !strings.Contains(p.Error.Hint, "davit agent create agent-us") {
		t.Errorf("an agent that does not exist: got %+v", p.Error)
	}
}

func TestAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do["poll"] = func(n int, c plan.Call) (plan.Result, error) {
		if n == 3 {
			if string(c.State) != `{"n":2}` {
				t.Errorf("state %s came back", c.State)
			}
			return plan.Result{Message: "done"}, nil
		}
		return plan.Result{Message: "waiting", Again: &plan.Again{After: time.Hour, Wake: []string{"pr/deploy/7"}, State: plan.Encode(map[string]int{"n": n})}}, nil
	}
	w.at(30*time.Minute, func() { w.env.SignalWorkflow(contract.SignalWake, "pr/other/7") })
	w.at(40*time.Minute, func() { w.env.SignalWorkflow(contract.SignalWake, "pr/deploy/7") })
	p := w.run(input(custom("a", do("Http", "poll", timeout(5*time.Hour)))))
	if took := p.FinishedAt.Sub(p.Stages[0].StartedAt).Round(time.Minute); p.Phase != promo.PhaseSucceeded || took != 100*time.Minute {
		t.Errorf("got %s after %s, want 40 min (the event) and an hour", p.Phase, took)
	}
	w = newWorld(t)
	w.do["poll"] = func(int, plan.Call) (plan.Result, error) {
		return plan.Result{Message: "still red", Again: &plan.Again{After: time.Second}}, nil
	}
	p = w.run(input(custom("a", do("Http", "poll", timeout(24*time.Hour)))))
	if p.Error == nil || p.Error.Code != promo.CodeTimeout || !strings.Contains(p.Error.Msg, "still red") {
		t.Errorf("got %+v", p.Error)
	}
	if n := len(w.calls["poll"]); n > 1000 {
		t.Errorf("a step that asks to be called every second was called %d times in a day: too many for a history", n)
	}
	w = newWorld(t)
	w.env.SetCurrentHistoryLength(12_000)
	w.do["poll"] = func(int, plan.Call) (plan.Result, error) {
		return plan.Result{Message: "still red", Again: &plan.Again{After: time.Second}}, nil
	}
	w.run(input(custom("a", do("Http", "poll", timeout(24*time.Hour)))))
	if n := len(w.calls["poll"]); n > 150 {
		t.Errorf("in a run with a long history it was called %d times", n)
	}
}

func TestRecorder(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.record = func(n int) error {
		if n > 2 && n < 300 {
			return promo.Errorf(promo.CodeInternal, "disk full")
		}
		return nil
	}
	p := w.run(input(stage("prod", []string{"us"}, release()...)))
	if p.Phase != promo.PhaseSucceeded {
		t.Errorf("a store that fails for a while must not end a promotion: got %s", p.Phase)
	}
	last := int64(-1)
	for _, r := range w.records {
		if r.Sequence <= last {
			t.Errorf("sequence %d follows %d", r.Sequence, last)
		}
		last = r.Sequence
	}
	w = newWorld(t)
	w.run(input(stage("prod", []string{"us"}, release()...)))
	if n := w.counts["record"]; n > 30 {
		t.Errorf("%d records for three steps: changes of one task are one record", n)
	}
}

func TestAbort(t *testing.T) {
	t.Parallel()
	wait := do("Wait", "wait", spec(plan.WaitSpec{Duration: plan.Duration(5 * time.Hour)}), timeout(9*time.Hour))
	behind := func(nodes ...plan.Node) plan.Stage {
		return stage("prod", []string{"us"}, append([]plan.Node{do("UpdateReleaseRepo", "update")}, nodes...)...)
	}
	cases := map[string]struct {
		stage   plan.Stage
		set     func(w *world)
		auto    bool
		waiting string // the message or step that shows where it waited
		lane    bool   // it is given back
		kept    bool   // the change is merged: nothing to close
	}{
		"gate":  {stage: gated(plan.ApprovalSpec{}, timeout(9*time.Hour)), waiting: "waiting for 1 approval", lane: true},
		"timer": {stage: behind(wait), waiting: "waiting until", lane: true},
		"lane":  {stage: behind(do("MergePR", "merge")), set: func(w *world) { w.tell = func(contract.LaneMessage) {} }, waiting: "waiting for the lane of prod", lane: true},
		"hold":  {stage: behind(do("MergePR", "merge")), set: func(w *world) { w.hold = func(int) *promo.Hold { return &promo.Hold{By: "rita"} } }, auto: true, waiting: "held by rita"},
		"again": {stage: behind(do("Http", "poll", timeout(9*time.Hour))), set: func(w *world) { w.do["poll"] = pollForever }, waiting: "not yet"},
		"agent": {stage: behind(do("Sync", "sync", timeout(9*time.Hour))), set: func(w *world) {
			w.presence = func(int) contract.PresenceResult { return contract.PresenceResult{Known: true} }
		}, waiting: "agent-us", lane: true},
		"backoff": {stage: behind(do("Http", "bad", func(s *plan.Step) { s.Retry = &plan.Retry{Attempts: 9, Backoff: 5 * time.Hour} })), set: func(w *world) { w.do["bad"] = boom(promo.CodeNotFound) }, waiting: "trying again in 5h"},
		"pause": {stage: withStage(waved(plan.ChangesOnce), func(s *plan.Stage) {
			s.Nodes, s.Prologue, s.PauseBetweenWaves = release(), 2, 5*time.Hour
		}), waiting: "pausing 5h before wave 2", lane: true, kept: true},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tc.set != nil {
				tc.set(w)
			}
			w.at(2*time.Hour, func() {
				w.abort("first", contract.AbortMessage{RequestID: "1", By: by("rita"), Reason: "wrong version"})
			})
			w.at(2*time.Hour, func() { w.abort("same", contract.AbortMessage{RequestID: "1", By: by("rita")}) })
			w.at(2*time.Hour, func() { w.abort("other", contract.AbortMessage{RequestID: "2", By: by("ron")}) })
			in := input(tc.stage)
			in.Automatic = tc.auto
			p := w.run(in)
			if p.Phase != promo.PhaseAborted || p.Stages[0].Phase != promo.PhaseAborted || p.Message != "aborted by rita: wrong version" {
				t.Fatalf("got %s, %s", phases(p), p.Message)
			}
			if took := p.FinishedAt.Sub(p.Stages[0].StartedAt).Round(time.Minute); took != 2*time.Hour {
				t.Errorf("it ended after %s", took)
			}
			for i, want := range []promo.Code{"", "", promo.CodeConflict} {
				if got := w.refused([]string{"first", "same", "other"}[i]); got != want {
					t.Errorf("abort %d: got %q, want %q", i+1, got, want)
				}
			}
			log := strings.Join(w.transcript(), ",")
			if strings.Contains(log, "lane.leave prod") != tc.lane {
				t.Errorf("lane: %s", log)
			}
			if strings.Contains(log, "cleanup 1") == tc.kept || (tc.lane && !tc.kept && strings.Index(log, "cleanup") > strings.Index(log, "lane.leave")) {
				t.Errorf("the pull request is closed, and before the lane is left: %s", log)
			}
			seen := false
			for _, r := range w.records {
				for _, st := range r.Stages[0].Steps {
					seen = seen || strings.Contains(st.Message+r.Stages[0].Message, tc.waiting)
				}
			}
			if !seen {
				t.Errorf("nobody could see that it waited: %q", tc.waiting)
			}
			for _, st := range p.Stages[0].Steps {
				if !st.Phase.Final() {
					t.Errorf("step %s is %s", st.Name, st.Phase)
				}
			}
		})
	}
}

func pollForever(int, plan.Call) (plan.Result, error) {
	return plan.Result{Message: "not yet", Again: &plan.Again{After: time.Hour}}, nil
}

func TestOpenPullRequestOfASuccessStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.run(input(stage("prod", []string{"us"}, do("UpdateReleaseRepo", "update"))))
	if p.Phase != promo.PhaseSucceeded || len(w.cleaned) != 0 {
		t.Errorf("a pipeline that only opens a pull request leaves it to people: %s, closed %+v", p.Phase, w.cleaned)
	}
}

func TestWideStage(t *testing.T) {
	t.Parallel()
	names := make([]string, 200)
	for i := range names {
		names[i] = "t" + string(rune('a'+i/26)) + string(rune('a'+i%26))
	}
	w := newWorld(t)
	s := stage("prod", names, append(release(), do("Verify", "verify"))...)
	other := stage("more", names, do("Verify", "v1"))
	third := stage("most", names, do("Verify", "v2"))
	p := w.run(input(s, other, third))
	if p.Phase != promo.PhaseSucceeded || len(w.calls["sync"]) != 200 || w.most > 500 {
		t.Errorf("got %s (%s): %d syncs, %d at once", p.Phase, p.Message, len(w.calls["sync"]), w.most)
	}
	if n := len(plan.Encode(w.calls["sync"][7])); n > 4<<10 {
		t.Errorf("a call is %d bytes: 200 of them fill the history", n)
	}
}

func TestAgentThatDoesNotPickUp(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do["sync"] = func(n int, c plan.Call) (plan.Result, error) {
		if n < 3 {
			return plan.Result{}, temporal.NewTimeoutError(enums.TIMEOUT_TYPE_SCHEDULE_TO_START, nil)
		}
		return goodDay("Sync", c), nil
	}
	p := w.run(input(stage("prod", []string{"us"}, do("Sync", "sync"))))
	if p.Phase != promo.PhaseSucceeded || len(w.calls["sync"]) != 3 || w.counts["presence"] != 3 {
		t.Errorf("got %s (%s) after %d calls and %d looks at the agent: each miss looks again", p.Phase, p.Message, len(w.calls["sync"]), w.counts["presence"])
	}
	if a, b := w.calls["sync"][0].Operation, w.calls["sync"][2].Operation; a != b {
		t.Errorf("a task that nobody picked up is the same operation: %s, %s", a, b)
	}
}
