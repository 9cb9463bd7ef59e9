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

func boom(code promo.Code) func(int, plan.Call) (plan.Result, error) {
	return func(int, plan.Call) (plan.Result, error) { return plan.Result{}, promo.Errorf(code, "boom") }
}

// waved is a stage of two waves, cut as the compiler does it: behind the gate with a change per wave, before the
// first target-scoped step with one change.
func waved(changes plan.Changes) plan.Stage {
	s := stage("prod", []string{"us", "eu"}, do("UpdateReleaseRepo", "update"), do("Approval", "sign-off"), do("MergePR", "merge"), do("Sync", "sync"))
	s.Waves, s.Changes, s.Prologue = [][]string{{"us"}, {"eu"}}, changes, 2
	if changes == plan.ChangesOnce {
		s.Prologue = 3
	}
	return s
}

func withStage(s plan.Stage, change func(*plan.Stage)) plan.Stage {
	change(&s)
	return s
}

func TestTranscripts(t *testing.T) {
	t.Parallel()
	deploy := func(name string, targets ...string) plan.Stage { return stage(name, targets, release()...) }
	approve := func(w *world) {
		w.at(time.Minute, func() {
			w.decide("yes", contract.DecideMessage{RequestID: "1", By: promo.Principal{Name: "rita"}, Approve: true})
		})
	}
	cases := map[string]struct {
		reason string
		in     contract.PromotionInput
		set    func(w *world)
		want   []string
		phases string
	}{
		"single stage": {
			reason: "the lane is taken just before the first change and given back at the end",
			in:     input(deploy("dev", "one")),
			want: []string{
				"UpdateReleaseRepo dev/update stage", "lane.take dev", "baseline dev", "MergePR dev/merge stage",
				"Sync dev/sync one", "mark dev merged-dev-stage good=true", "lane.leave dev",
			},
			phases: "Succeeded: dev=Succeeded",
		},
		"needs and when": {
			reason: "a stage behind a failure runs only where it asks for it; what needs a stage that was not reached is not reached",
			in: input(
				custom("a", do("Http", "a1")),
				withStage(custom("b", do("Http", "b1")), func(s *plan.Stage) { s.Needs = []string{"a"} }),
				withStage(custom("onfail", do("Http", "c1")), func(s *plan.Stage) { s.Needs, s.When.On = []string{"a"}, plan.OnFailure }),
				withStage(custom("always", do("Http", "d1")), func(s *plan.Stage) { s.Needs, s.When.On = []string{"b"}, plan.OnAlways }),
				withStage(custom("never", do("Http", "e1")), func(s *plan.Stage) { s.Needs = []string{"b"} }),
			),
			set:    func(w *world) { w.do["a1"] = boom(promo.CodeConfiguration) },
			want:   []string{"Http a/a1 stage", "Http always/d1 stage", "Http onfail/c1 stage"},
			phases: "Failed: a=Failed b=Skipped onfail=Succeeded always=Succeeded never=Skipped",
		},
		"expressions": {
			reason: "a condition that is false skips its step or stage; outputs of earlier steps are in scope",
			in: input(
				custom("a", do("Http", "ask"), do("Http", "no", when("steps.ask.outputs.n > 5")), do("Http", "yes", when("steps.ask.outputs.n == 5"),
					spec(map[string]any{"n": "${{ steps.ask.outputs.n }}", "url": "https://example.com/${{ inputs.version }}"}))),
				withStage(custom("b", do("Http", "b1")), func(s *plan.Stage) {
					s.Needs, s.When = []string{"a"}, plan.When{On: plan.OnSuccess, Expr: "stages.a.steps.ask.outputs.n != 5"}
				}),
				withStage(custom("c", do("Http", "c1")), func(s *plan.Stage) { s.Needs = []string{"b"} }),
			),
			set: func(w *world) {
				w.do["ask"] = func(int, plan.Call) (plan.Result, error) {
					return plan.Result{Outputs: plan.Encode(map[string]any{"n": 5})}, nil
				}
			},
			want:   []string{"Http a/ask stage", "Http a/yes stage", "Http c/c1 stage"},
			phases: "Succeeded: a=Succeeded b=Skipped c=Succeeded",
		},
		"groups": {
			reason: "behind a failure only steps run that ask for failures, inside groups too",
			in: input(custom("a", do("Http", "one"), group("g", do("Http", "two"), do("Http", "three", on(plan.OnFailure)), do("Http", "four")),
				do("Http", "five", on(plan.OnAlways)), do("Http", "six"))),
			set:    func(w *world) { w.do["two"] = boom(promo.CodeNotFound) },
			want:   []string{"Http a/five stage", "Http a/one stage", "Http a/three stage", "Http a/two stage"},
			phases: "Failed: a=Failed",
		},
		"waves, a change each": {
			reason: "all pull requests are open before people are asked once; then each wave is merged and synced",
			in:     input(waved(plan.ChangesPerWave)),
			set:    approve,
			want: []string{
				"lane.arrive prod", "UpdateReleaseRepo prod/update wave-1", "UpdateReleaseRepo prod/update wave-2",
				"lane.take prod", "change.read 2", "change.read 3", "baseline prod",
				"MergePR prod/merge wave-1", "Sync prod/sync us", "MergePR prod/merge wave-2", "Sync prod/sync eu",
				"mark prod merged-prod-wave-2 good=true", "lane.leave prod",
			},
			phases: "Succeeded: prod=Succeeded",
		},
		"waves, one change": {
			reason: "waves only pace what is target-scoped",
			in:     input(waved(plan.ChangesOnce)),
			set:    func(w *world) { approve(w); w.ordered = true },
			want: []string{
				"lane.arrive prod", "UpdateReleaseRepo prod/update stage",
				"lane.take prod", "change.read 1", "baseline prod", "MergePR prod/merge stage",
				"Sync prod/sync us", "Sync prod/sync eu", "mark prod merged-prod-stage good=true", "lane.leave prod",
			},
			phases: "Succeeded: prod=Succeeded",
		},
		"a failed wave": {
			reason: "the waves behind a failed one are not touched, and their pull requests are closed",
			in: input(withStage(waved(plan.ChangesPerWave), func(s *plan.Stage) {
				s.Nodes = []plan.Node{do("UpdateReleaseRepo", "update"), do("MergePR", "merge"), do("Sync", "sync")}
				s.Prologue = 1
			})),
			set: func(w *world) { w.do["sync"] = boom(promo.CodeSync) },
			want: []string{
				"UpdateReleaseRepo prod/update wave-1", "UpdateReleaseRepo prod/update wave-2", "lane.take prod", "baseline prod",
				"MergePR prod/merge wave-1", "Sync prod/sync us", "mark prod merged-prod-wave-1 good=false", "cleanup 3", "lane.leave prod",
			},
			phases: "Failed: prod=Failed",
		},
		"targets": {
			reason: "a target-scoped step runs for every target",
			in:     input(deploy("prod", "a", "b", "c")),
			want: []string{
				"UpdateReleaseRepo prod/update stage", "lane.take prod", "baseline prod", "MergePR prod/merge stage",
				"Sync prod/sync a", "Sync prod/sync b", "Sync prod/sync c", "mark prod merged-prod-stage good=true", "lane.leave prod",
			},
			phases: "Succeeded: prod=Succeeded",
		},
		"only one target": {
			reason: "a restricted run leaves other targets, waves and stages alone and proves nothing",
			in: func() contract.PromotionInput {
				in := input(deploy("dev", "one"), withStage(waved(plan.ChangesPerWave), func(s *plan.Stage) {
					s.Nodes, s.Prologue, s.Needs = release(), 1, []string{"dev"}
				}))
				in.Only = []string{"eu"}
				return in
			}(),
			want: []string{
				"UpdateReleaseRepo prod/update wave-2", "lane.take prod", "baseline prod", "MergePR prod/merge wave-2", "Sync prod/sync eu",
				"mark prod merged-prod-wave-2 good=false", "lane.leave prod",
			},
			phases: "Succeeded: dev=Skipped prod=Succeeded",
		},
		"policies": {
			reason: "policy sets of a stage and of a step are asked before it; a denial is the verdict Policy",
			in: input(withStage(custom("a", do("Http", "one"), do("Http", "two", func(s *plan.Step) { s.Policies = []string{"strict"} })), func(s *plan.Stage) {
				s.Policies = []string{"lax"}
			})),
			set: func(w *world) {
				w.policy = func(r contract.DecideRequest) contract.DecideResult {
					if r.Sets[0] == "strict" {
						return contract.DecideResult{Deny: []string{"not on Fridays"}}
					}
					return contract.DecideResult{}
				}
			},
			want:   []string{"decide stage lax", "Http a/one stage", "decide step strict"},
			phases: "Failed: a=Failed",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			if tc.set != nil {
				tc.set(w)
			}
			p := w.run(tc.in)
			if diff := cmp.Diff(tc.want, w.transcript()); diff != "" {
				t.Errorf("%s\n-want +got:\n%s", tc.reason, diff)
			}
			if got := phases(p); got != tc.phases {
				t.Errorf("%s\nphases: got %q, want %q; message %q", tc.reason, got, tc.phases, p.Message)
			}
			for _, s := range p.Stages {
				for _, st := range s.Steps {
					if !st.Phase.Final() {
						t.Errorf("step %s/%s ended in phase %s", s.Name, st.Path, st.Phase)
					}
				}
			}
		})
	}
}

func TestResolvedSpecs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do["ask"] = func(int, plan.Call) (plan.Result, error) {
		return plan.Result{Outputs: plan.Encode(map[string]any{"n": 5})}, nil
	}
	w.run(input(custom("a", do("Http", "ask"), do("Http", "use", spec(map[string]any{"n": "${{ steps.ask.outputs.n }}", "url": "https://example.com/${{ inputs.version }}"})))))
	if got, want := string(w.calls["use"][0].Spec), `{"n":5,"url":"https://example.com/v1.2.3"}`; got != want {
		t.Errorf("resolved spec: got %s, want %s", got, want)
	}
}

func TestFoldedEdits(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.do["first"] = func(_ int, c plan.Call) (plan.Result, error) { return goodDay("UpdateReleaseRepo", c), nil }
	lead := do("UpdateReleaseRepo", "first", spec(map[string]any{"files": []any{map[string]any{"path": "a.yaml", "set": map[string]any{"tag": "${{ inputs.version }}"}}}}))
	lead.Step.Fold = []string{"second"}
	second := do("UpdateReleaseRepo", "second", spec(map[string]any{"files": []any{map[string]any{"path": "${{ target.name }}.yaml"}}}))
	second.Step.FoldedInto = "first"
	p := w.run(input(stage("prod", []string{"us", "eu"}, lead, second, do("MergePR", "merge"))))
	if n := len(w.calls["second"]); n != 0 {
		t.Errorf("the folded edit was called %d times", n)
	}
	want := `{"files":[{"path":"a.yaml","set":{"tag":"v1.2.3"}},{"path":"us.yaml"},{"path":"eu.yaml"}]}`
	if got := string(w.calls["first"][0].Spec); got != want {
		t.Errorf("one commit holds both edits: got %s, want %s", got, want)
	}
	st := stepOf(t, p, "prod", "second", "")
	if st.Phase != promo.PhaseSucceeded || !strings.Contains(string(st.Outputs), `"headSHA":"head-stage"`) || !strings.Contains(st.Message, "first") {
		t.Errorf("the folded step shows %s, %s, %q", st.Phase, st.Outputs, st.Message)
	}
}

func TestParallelCancelsSiblings(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	started, release := make(chan struct{}), make(chan struct{})
	t.Cleanup(func() { close(release) })
	w.do["slow"] = func(int, plan.Call) (plan.Result, error) {
		close(started)
		<-release
		return plan.Result{}, nil
	}
	w.do["bad"] = func(int, plan.Call) (plan.Result, error) {
		<-started
		return plan.Result{}, promo.Errorf(promo.CodeConfiguration, "boom")
	}
	p := w.run(input(stage("prod", []string{"us"}, parallel(do("Http", "bad"), do("Sync", "slow")), do("Http", "after"))))
	if got := stepOf(t, p, "prod", "slow", "us").Phase; got != promo.PhaseAborted {
		t.Errorf("the sibling ended %s, want Aborted", got)
	}
	if p.Phase != promo.PhaseFailed || p.Error == nil || p.Error.Code != promo.CodeConfiguration {
		t.Errorf("the first real error counts: got %s, %+v", p.Phase, p.Error)
	}
	if len(w.calls["after"]) != 0 {
		t.Error("a step ran behind a failed group")
	}
}

func TestFanOut(t *testing.T) {
	t.Parallel()
	targets := []string{"a", "b", "c", "d", "e", "f"}
	fail := func(_ int, c plan.Call) (plan.Result, error) {
		if c.Target.Name == "b" {
			return plan.Result{}, promo.Errorf(promo.CodeSync, "boom")
		}
		return plan.Result{Outputs: plan.Encode(map[string]any{"revision": "x"})}, nil
	}
	t.Run("maxParallel", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		gate := make(chan struct{}, 1)
		w.do["sync"] = func(_ int, c plan.Call) (plan.Result, error) {
			select {
			case gate <- struct{}{}:
			default:
			}
			return goodDay("Sync", c), nil
		}
		p := w.run(input(withStage(stage("prod", targets, do("Sync", "sync")), func(s *plan.Stage) { s.MaxParallel = 2 })))
		if w.most > 2 || len(w.calls["sync"]) != 6 || p.Phase != promo.PhaseSucceeded {
			t.Errorf("%d at once in %d calls, phase %s; want at most 2 in 6", w.most, len(w.calls["sync"]), p.Phase)
		}
	})
	t.Run("fail fast", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.do["sync"] = fail
		p := w.run(input(withStage(stage("prod", targets, do("Sync", "sync")), func(s *plan.Stage) { s.MaxParallel = 1 })))
		if n := len(w.calls["sync"]); n != 2 || p.Phase != promo.PhaseFailed {
			t.Errorf("%d targets were synced, want a and b only; phase %s", n, p.Phase)
		}
		if got := stepOf(t, p, "prod", "sync", "f").Phase; got != promo.PhaseSkipped {
			t.Errorf("a target behind the failure is %s, want Skipped", got)
		}
	})
	t.Run("not fail fast", func(t *testing.T) {
		t.Parallel()
		w := newWorld(t)
		w.do["sync"] = fail
		p := w.run(input(withStage(stage("prod", targets, do("Sync", "sync"), do("Verify", "verify")), func(s *plan.Stage) { s.MaxParallel, s.FailFast = 1, false })))
		if n := len(w.calls["sync"]); n != 6 || p.Phase != promo.PhaseFailed || len(w.calls["verify"]) != 0 {
			t.Errorf("%d targets were synced and %d verified, want all and none; phase %s", n, len(w.calls["verify"]), p.Phase)
		}
	})
}

func TestOperationIDs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at(time.Minute, func() {
		w.decide("yes", contract.DecideMessage{RequestID: "1", By: promo.Principal{Name: "rita"}, Approve: true})
	})
	w.do["sync"] = func(n int, c plan.Call) (plan.Result, error) {
		if n == 1 {
			return plan.Result{}, promo.Errorf(promo.CodeSync, "boom")
		}
		return goodDay("Sync", c), nil
	}
	s := waved(plan.ChangesPerWave)
	plan.Steps(s.Nodes)[3].Retry = &plan.Retry{Attempts: 1, Backoff: time.Second}
	w.run(input(s))
	var got []string
	for _, name := range []string{"update", "merge", "sync"} {
		for _, c := range w.calls[name] {
			got = append(got, c.Operation)
		}
	}
	want := []string{
		"default/checkout/1/prod.1/update/wave-1", "default/checkout/1/prod.1/update/wave-2",
		"default/checkout/1/prod.1/merge/wave-1", "default/checkout/1/prod.1/merge/wave-2",
		"default/checkout/1/prod.1/sync/us", "default/checkout/1/prod.1-2/sync/us", "default/checkout/1/prod.1/sync/eu",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("operation ids (-want +got):\n%s", diff)
	}
}
