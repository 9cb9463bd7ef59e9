package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

func failing(times int, code promo.Code) func(int, plan.Call) (plan.Result, error) {
	return func(n int, c plan.Call) (plan.Result, error) {
		if n <= times {
			return plan.Result{}, promo.Errorf(code, "boom %d", n)
		}
		return goodDay("Sync", c), nil
	}
}

func all(action plan.Action) plan.Strategy {
	return plan.Strategy{Errors: []string{"All"}, Action: action}
}

func TestFailureStrategies(t *testing.T) {
	t.Parallel()
	retry := plan.Strategy{Errors: []string{"Sync"}, Action: plan.ActionRetry, Attempts: 2, Intervals: []time.Duration{time.Minute, time.Hour}, Then: plan.ActionIgnore}
	cases := map[string]struct {
		reason          string
		step, stage     []plan.Strategy
		pipeline        []plan.Strategy
		retry           *plan.Retry
		rollback        []plan.Node
		fails           int
		code            promo.Code
		verdict         bool
		phase           promo.Phase
		syncs           int
		took            time.Duration
		good, rollsBack bool
		log             string // what the transcript holds
	}{
		"none": {reason: "without a strategy the stage fails", fails: 1, code: promo.CodeSync, phase: promo.PhaseFailed, syncs: 1},
		"step retry": {
			reason: "backoff doubles", retry: &plan.Retry{Attempts: 3, Backoff: time.Minute, MaxBackoff: 3 * time.Minute}, fails: 3, code: promo.CodeSync,
			phase: promo.PhaseSucceeded, syncs: 4, took: 6 * time.Minute, good: true,
		},
		"step retry on other errors": {
			reason: "retry.on names the errors", retry: &plan.Retry{Attempts: 3, Backoff: time.Minute, On: []string{"Timeout"}}, fails: 1, code: promo.CodeSync,
			phase: promo.PhaseFailed, syncs: 1,
		},
		"retry, then ignore": {
			reason: "attempts, intervals, then", step: []plan.Strategy{retry}, fails: 9, code: promo.CodeSync, phase: promo.PhaseSucceeded, syncs: 3, took: 61 * time.Minute,
		},
		"retry succeeds": {
			reason: "what a retry proves is known-good", step: []plan.Strategy{retry}, fails: 1, code: promo.CodeSync, phase: promo.PhaseSucceeded, syncs: 2, took: time.Minute, good: true,
		},
		"first match wins": {
			reason: "the step's strategies come first, and of them the first that matches",
			step:   []plan.Strategy{{Errors: []string{"Timeout"}, Action: plan.ActionIgnore}, {Errors: []string{"Sync"}, Action: plan.ActionMarkSuccess}},
			stage:  []plan.Strategy{all(plan.ActionAbort)}, fails: 1, code: promo.CodeSync, phase: promo.PhaseSucceeded, syncs: 1,
		},
		"stage before pipeline": {
			reason: "a stage's strategy hides the pipeline's", stage: []plan.Strategy{all(plan.ActionAbort)}, pipeline: []plan.Strategy{all(plan.ActionIgnore)},
			fails: 1, code: promo.CodeSync, phase: promo.PhaseFailed, syncs: 1,
		},
		"pipeline": {
			reason: "the pipeline's strategy is the last", pipeline: []plan.Strategy{all(plan.ActionMarkSuccess)}, fails: 1, code: promo.CodeSync, phase: promo.PhaseSucceeded, syncs: 1,
		},
		"verdict": {
			reason: "a verdict is matched like an error", verdict: true, stage: []plan.Strategy{{Errors: []string{"Health"}, Action: plan.ActionIgnore}},
			fails: 1, code: promo.CodeHealth, phase: promo.PhaseSucceeded, syncs: 1,
		},
		"rollback stage": {
			reason: "the stage's own rollback steps run, and it has failed all the same", stage: []plan.Strategy{all(plan.ActionRollbackStage)},
			rollback: []plan.Node{do("Http", "undo"), do("Sync", "resync")}, fails: 1, code: promo.CodeSync, phase: promo.PhaseFailed, syncs: 1,
			log: "Sync prod/sync us,Http prod/undo stage,Sync prod/resync us,mark",
		},
		"rollback": {
			reason: "the lane passes to the rollback, and the promotion ends failed and names it", stage: []plan.Strategy{all(plan.ActionRollback)},
			fails: 1, code: promo.CodeHealth, verdict: true, phase: promo.PhaseFailed, syncs: 2, rollsBack: true, log: "lane.pass prod",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.ordered = true
			w.do["sync"] = func(n int, c plan.Call) (plan.Result, error) {
				if n <= tc.fails && tc.verdict {
					return plan.Result{Verdict: promo.Errorf(tc.code, "boom %d", n)}, nil
				}
				return failing(tc.fails, tc.code)(n, c)
			}
			s := stage("prod", []string{"us"}, release()...)
			sync := plan.Steps(s.Nodes)[2]
			sync.OnFailure, sync.Retry, s.OnFailure, s.RollbackNodes = tc.step, tc.retry, tc.stage, tc.rollback
			in := input(s)
			in.Plan.OnFailure = tc.pipeline
			p := w.run(in)
			if p.Phase != tc.phase || len(w.calls["sync"]) != tc.syncs {
				t.Fatalf("%s: got %s (%s) after %d syncs, want %s after %d", tc.reason, p.Phase, p.Message, len(w.calls["sync"]), tc.phase, tc.syncs)
			}
			if st := stepOf(t, p, "prod", "sync", "us"); tc.took > 0 && st.FinishedAt.Sub(p.Stages[0].StartedAt).Round(time.Minute) != tc.took {
				t.Errorf("%s: it took %s, want %s", tc.reason, st.FinishedAt.Sub(p.Stages[0].StartedAt), tc.took)
			}
			if w.marks[0].Entry.KnownGood != tc.good {
				t.Errorf("%s: known-good is %t", tc.reason, w.marks[0].Entry.KnownGood)
			}
			if got := strings.Join(w.transcript(), ","); !strings.Contains(got, tc.log) {
				t.Errorf("%s: %q is not in %s", tc.reason, tc.log, got)
			}
			if (p.Rollback != "") != tc.rollsBack {
				t.Errorf("%s: rollback is %q", tc.reason, p.Rollback)
			}
		})
	}
}

func TestNoRollbackWithoutLane(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do["update"] = boom(promo.CodeConfiguration)
	s := stage("prod", []string{"us"}, release()...)
	s.OnFailure = []plan.Strategy{all(plan.ActionRollback)}
	p := w.run(input(s))
	if p.Phase != promo.PhaseFailed || p.Rollback != "" || len(w.backs) != 0 || len(w.lane) != 0 {
		t.Errorf("nothing was changed, so nothing is to be undone: got %s, rollback %q, lane %+v", p.Phase, p.Rollback, w.lane)
	}
}

func TestStageTimeout(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := stage("prod", []string{"us"}, do("MergePR", "merge"), do("Wait", "wait", spec(plan.WaitSpec{Duration: plan.Duration(3 * time.Hour)}), timeout(4*time.Hour)))
	s.Timeout, s.OnFailure = time.Hour, []plan.Strategy{{Errors: []string{"Timeout"}, Action: plan.ActionRollback}}
	p := w.run(input(s))
	if p.Phase != promo.PhaseFailed || p.Error.Code != promo.CodeTimeout || !strings.Contains(p.Error.Msg, `stage "prod" was not done within 1h`) || p.Rollback == "" {
		t.Errorf("got %s, %+v, rollback %q", p.Phase, p.Error, p.Rollback)
	}
}

// conflicting answers merges: the first so many find the branch in conflict.
func conflicting(times int) func(int, plan.Call) (plan.Result, error) {
	return func(n int, c plan.Call) (plan.Result, error) {
		if n <= times {
			return plan.Result{}, promo.Errorf(promo.CodeConflict, "pull request 1 conflicts with main")
		}
		return goodDay("MergePR", c), nil
	}
}

func conflicts(_ int, r contract.ReadChangeRequest) (contract.ReadChangeResult, error) {
	return contract.ReadChangeResult{Change: r.Change, State: "open", Conflicts: true}, nil
}

func TestConflictIsRedone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.ordered = true
	w.do["merge"], w.change = conflicting(2), conflicts
	p := w.run(input(stage("prod", []string{"us"}, release()...)))
	want := []string{
		"UpdateReleaseRepo prod/update stage", "lane.take prod", "baseline prod",
		"MergePR prod/merge stage", "change.read 1", "UpdateReleaseRepo prod/update stage",
		"MergePR prod/merge stage", "change.read 1", "UpdateReleaseRepo prod/update stage", "MergePR prod/merge stage",
		"Sync prod/sync us", "mark prod merged-prod-stage good=true", "lane.leave prod",
	}
	if diff := cmp.Diff(want, w.transcript()); diff != "" || p.Phase != promo.PhaseSucceeded {
		t.Errorf("%s, %s (-want +got):\n%s", p.Phase, p.Message, diff)
	}
	for _, c := range w.calls["update"] {
		if c.Operation != w.calls["update"][0].Operation {
			t.Errorf("the change was made anew as %s: another operation leaves the branch behind", c.Operation)
		}
	}
}

func TestConflictThatStays(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do["merge"], w.change = conflicting(99), conflicts
	p := w.run(input(stage("prod", []string{"us"}, release()...)))
	if p.Phase != promo.PhaseFailed || p.Error.Code != promo.CodeConflict || len(w.calls["merge"]) != 4 || len(w.calls["update"]) != 4 {
		t.Errorf("got %s, %+v after %d merges and %d changes", p.Phase, p.Error, len(w.calls["merge"]), len(w.calls["update"]))
	}
}

func TestConflictWithForeignCommitIsNotRedone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do["merge"] = conflicting(99)
	w.change = func(n int, r contract.ReadChangeRequest) (contract.ReadChangeResult, error) {
		res, err := conflicts(n, r)
		res.Change.Foreign = "mallory"
		return res, err
	}
	p := w.run(input(stage("prod", []string{"us"}, release()...)))
	if p.Phase != promo.PhaseFailed || len(w.calls["update"]) != 1 {
		t.Errorf("got %s after %d changes: what somebody else pushed must not be thrown away", p.Phase, len(w.calls["update"]))
	}
}

func TestRedoneChangeIsAskedAgain(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		digest string
		asks   int
	}{
		"same digest keeps the approval": {digest: "digest-stage", asks: 1},
		"another digest voids it":        {digest: "digest-2", asks: 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.ordered = true
			w.do["merge"] = conflicting(1)
			w.change = func(n int, r contract.ReadChangeRequest) (contract.ReadChangeResult, error) {
				return contract.ReadChangeResult{Change: r.Change, State: "open", Conflicts: n == 2}, nil
			}
			w.do["update"] = func(n int, c plan.Call) (plan.Result, error) {
				res := goodDay("UpdateReleaseRepo", c)
				if n == 2 {
					res.Change.Head, res.Change.Digest = "head-2", tc.digest
				}
				return res, nil
			}
			w.at(time.Minute, func() { w.decide("1", yes("1", by("rita"))) })
			if tc.asks == 2 {
				w.at(3*time.Minute, func() { w.decide("2", yes("2", by("rita"))) })
			}
			p := w.run(input(gated(plan.ApprovalSpec{})))
			last := w.calls["merge"][len(w.calls["merge"])-1]
			if p.Phase != promo.PhaseSucceeded || last.Approved != tc.digest || last.Change.Head != "head-2" {
				t.Errorf("got %s (%s); last merge of %s at %s", p.Phase, p.Message, last.Approved, last.Change.Head)
			}
			if n := strings.Count(strings.Join(w.transcript(), ","), "lane.yield"); n != tc.asks-1 {
				t.Errorf("the lane was given back %d times, want %d", n, tc.asks-1)
			}
			if n := len(stepOf(t, p, "prod", "sign-off", "").Approval.Decisions); n != tc.asks {
				t.Errorf("people decided %d times, want %d", n, tc.asks)
			}
		})
	}
}

func TestRetryOfAFailedPromotion(t *testing.T) {
	t.Parallel()
	stages := func() []plan.Stage {
		second := custom("second", do("Http", "use", spec(map[string]any{"body": "${{ stages.first.steps.ask.outputs.n }}"})))
		second.Needs = []string{"first"}
		return []plan.Stage{custom("first", do("Http", "ask")), second}
	}
	ask := func(int, plan.Call) (plan.Result, error) {
		return plan.Result{Outputs: plan.Encode(map[string]any{"n": 7})}, nil
	}
	w := newWorld(t)
	w.do["ask"], w.do["use"] = ask, boom(promo.CodeConfiguration)
	failed := w.run(input(stages()...))
	if failed.Phase != promo.PhaseFailed {
		t.Fatalf("the first attempt ended %s", failed.Phase)
	}
	in := input(stages()...)
	in.Run.Attempt, in.Previous, in.Sequence = 2, &failed, failed.Sequence
	w = newWorld(t)
	w.do["ask"] = ask
	p := w.run(in)
	if p.Phase != promo.PhaseSucceeded || len(w.calls["ask"]) != 0 || len(w.calls["use"]) != 1 {
		t.Fatalf("got %s (%s): finished stages are kept, failed ones run again", p.Phase, p.Message)
	}
	c := w.calls["use"][0]
	if string(c.Spec) != `{"body":7}` || c.Operation != "default/checkout/1/second.2/use/stage" {
		t.Errorf("spec %s, operation %s", c.Spec, c.Operation)
	}
	if p.Attempt != 2 || p.Stages[0].Attempt != 1 || p.Stages[1].Attempt != 2 || p.Sequence <= failed.Sequence {
		t.Errorf("attempts %d, %d, %d; sequence %d after %d", p.Attempt, p.Stages[0].Attempt, p.Stages[1].Attempt, p.Sequence, failed.Sequence)
	}
}

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
		"gate":  {stage: gated(plan.ApprovalSpec{}, timeout(9*time.Hour)), waiting: "waiting for 1 approval(s)", lane: true},
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
