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

func TestAbortLeavesTheRollbackAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do["sync"] = func(n int, c plan.Call) (plan.Result, error) {
		if n == 1 {
			return plan.Result{}, promo.Errorf(promo.CodeSync, "boom")
		}
		return goodDay("Sync", c), nil
	}
	w.write = func(n int, _ plan.RollbackWrite) (plan.RollbackWritten, error) { // it is still under way when the abort comes
		return plan.RollbackWritten{Commit: "back", Changed: true, Merged: n > 3, Waiting: "reviews", Change: plan.Change{PR: 9}}, nil
	}
	s := stage("prod", []string{"us"}, release()...)
	s.OnFailure = []plan.Strategy{all(plan.ActionRollback)}
	rest := custom("rest", do("Wait", "wait", spec(plan.WaitSpec{Duration: plan.Duration(30 * time.Minute)})))
	w.at(time.Minute+time.Second, func() { w.abort("abort", contract.AbortMessage{RequestID: "1", By: by("rita")}) })
	w.env.SetDetachedChildWait(true)
	p := w.run(input(s, rest))
	if p.Phase != promo.PhaseAborted || p.Rollback == "" {
		t.Fatalf("got %s, rollback %q", phases(p), p.Rollback)
	}
	if b := w.backs[len(w.backs)-1]; b.Phase != promo.PhaseSucceeded {
		t.Errorf("the rollback ended %s: %s", b.Phase, b.Message)
	}
}
