package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.temporal.io/sdk/client"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

func rollbackInput() contract.RollbackInput {
	verify := do("Verify", "verify")
	return contract.RollbackInput{
		ID: "default/checkout/prod/3", Number: 3, By: by("rita"), Reason: "p99",
		Target: plan.RollbackTarget{
			Project: "default", Environment: "prod", Service: plan.Service{Name: "checkout", Branch: "main"}, Repository: plan.Repository{Name: "deploy"},
		},
		Targets: []plan.Target{{Name: "us", Agent: "agent-us"}, {Name: "eu", Agent: "agent-eu"}},
		Env:     plan.Environment{Name: "prod"}, Verify: []plan.Step{*verify.Step},
		Run: plan.RunInfo{Project: "default", Number: 3, Attempt: 1, TriggeredBy: by("rita")},
	}
}

// back runs the rollback to its end.
func (w *world) back(in contract.RollbackInput) (promo.Rollback, contract.RollbackResult) {
	w.t.Helper()
	w.env.SetStartWorkflowOptions(client.StartWorkflowOptions{ID: contract.RollbackID(in.ID), TaskQueue: contract.TaskQueue})
	w.env.ExecuteWorkflow(contract.RollbackWorkflow, in)
	if err := w.env.GetWorkflowError(); err != nil || !w.env.IsWorkflowCompleted() {
		w.t.Fatalf("the rollback broke: %v; %v", err, w.transcript())
	}
	var res contract.RollbackResult
	if err := w.env.GetWorkflowResult(&res); err != nil {
		w.t.Fatal(err)
	}
	b := w.backs[len(w.backs)-1]
	if b.FinishedAt.IsZero() || b.Phase != res.Phase {
		w.t.Fatalf("the end was not recorded: %+v", b)
	}
	return b, res
}

func TestRollback(t *testing.T) {
	t.Parallel()
	shared := func(plan.RollbackTarget) (promo.Preview, error) {
		return promo.Preview{To: "good", From: "bad", Version: "v1", Shared: []string{"base/x.yaml"}, Readers: []string{"dev"}}, nil
	}
	start := []string{"lane.preempt prod", "preview prod", "decide rollback "}
	finish := []string{"hold.set prod", "lane.leave prod"}
	done := []string{"Sync rollback/sync eu", "Sync rollback/sync us", "Verify rollback/verify eu", "Verify rollback/verify us", "mark prod back good=true"}
	cases := map[string]struct {
		reason  string
		in      func(*contract.RollbackInput)
		set     func(w *world)
		want    []string
		phase   promo.Phase
		code    promo.Code
		message string
	}{
		"by a person": {
			reason: "lane, commit, every target at once with prune, verification, record, hold",
			want:   append(append(append([]string{}, start...), "write good shared=false"), append(done, finish...)...), phase: promo.PhaseSucceeded,
		},
		"refused": {
			reason: "what can't be undone is said, and nothing is touched",
			set: func(w *world) {
				w.preview = func(plan.RollbackTarget) (promo.Preview, error) {
					return promo.Preview{Refusal: "no known-good commit yet"}, nil
				}
			},
			want: []string{"lane.preempt prod", "preview prod", "lane.leave prod"}, phase: promo.PhaseFailed, code: promo.CodeConfiguration, message: "no known-good commit yet",
		},
		"denied": {
			reason: "a rollback obeys policy",
			set: func(w *world) {
				w.policy = func(contract.DecideRequest) contract.DecideResult {
					return contract.DecideResult{Deny: []string{"frozen"}}
				}
			},
			want: append(append([]string{}, start...), "lane.leave prod"), phase: promo.PhaseFailed, code: promo.CodePolicy, message: "frozen",
		},
		"break glass": {
			reason: "an audited break-glass asks no policy", in: func(in *contract.RollbackInput) { in.BreakGlass = true },
			want: append(append([]string{"lane.preempt prod", "preview prod", "write good shared=false"}, done...), finish...), phase: promo.PhaseSucceeded,
		},
		"shared must be chosen": {
			reason: "a person chooses what happens to shared files", set: func(w *world) { w.preview = shared },
			want: append(append([]string{}, start...), "lane.leave prod"), phase: promo.PhaseFailed, code: promo.CodeConfiguration, message: "base/x.yaml",
		},
		"shared included": {
			reason: "what was chosen is done", set: func(w *world) { w.preview = shared }, in: func(in *contract.RollbackInput) { in.Shared = "include" },
			want: append(append(append([]string{}, start...), "write good shared=true"), append(done, finish...)...), phase: promo.PhaseSucceeded,
		},
		"automatic asks": {
			reason: "an automatic rollback asks about shared files and other people's commits, and takes the answer",
			in:     func(in *contract.RollbackInput) { in.Automatic, in.LaneToken = true, "passed" },
			set: func(w *world) {
				w.preview = func(r plan.RollbackTarget) (promo.Preview, error) {
					p, err := shared(r)
					p.Foreign = []promo.Commit{{Author: "olaf"}}
					return p, err
				}
				w.at(time.Second, func() {
					w.env.SignalWorkflow(contract.SignalLane, contract.LaneAnswer{Kind: contract.LaneGranted, Token: "passed"})
				})
				w.at(time.Minute, func() { w.decide("empty", yes("1", by("rita"))) })
				w.at(2*time.Minute, func() {
					m := yes("2", by("rita"))
					m.Inputs = map[string]string{"shared": "include"}
					w.decide("include", m)
				})
			},
			want: append(append([]string{"preview prod", "decide rollback ", "write good shared=true"}, done...), finish...), phase: promo.PhaseSucceeded,
		},
		"automatic, nobody agrees": {
			reason: "a rejection leaves the environment alone",
			in:     func(in *contract.RollbackInput) { in.Automatic = true },
			set: func(w *world) {
				w.preview = shared
				w.at(time.Minute, func() { w.decide("no", contract.DecideMessage{RequestID: "1", By: by("rita")}) })
			},
			want: append(append([]string{}, start...), "lane.leave prod"), phase: promo.PhaseFailed, code: promo.CodeApproval,
		},
		"pull request": {
			reason: "where the branch refuses a push, the pull request is waited for and the page says for what",
			in:     func(in *contract.RollbackInput) { in.Delivery = "pull-request" },
			set: func(w *world) {
				w.write = func(n int, _ plan.RollbackWrite) (plan.RollbackWritten, error) {
					ch := plan.Change{PR: 9, Changed: true, Branch: "davit/r"}
					if n < 3 {
						return plan.RollbackWritten{Changed: true, Waiting: "a review by rita is missing", Change: ch}, nil
					}
					return plan.RollbackWritten{Changed: true, Merged: true, Commit: "back", Change: ch}, nil
				}
				w.at(10*time.Second, func() { w.env.SignalWorkflow(contract.SignalWake, promo.EventPullRequest("deploy", 9)) })
			},
			want: append(append(append([]string{}, start...), "write good shared=false", "write good shared=false", "write good shared=false"), append(done, finish...)...), phase: promo.PhaseSucceeded,
		},
		"aborted while it waits": {
			reason: "the pull request is closed and the lane left",
			set: func(w *world) {
				w.write = func(int, plan.RollbackWrite) (plan.RollbackWritten, error) {
					return plan.RollbackWritten{Changed: true, Waiting: "reviews", Change: plan.Change{PR: 9, Changed: true, Branch: "davit/r"}}, nil
				}
				w.at(30*time.Second, func() { w.abort("abort", contract.AbortMessage{RequestID: "1", By: by("rita")}) })
			},
			want: append(append([]string{}, start...), "write good shared=false", "cleanup 9", "lane.leave prod"), phase: promo.PhaseAborted, message: "aborted by rita",
		},
		"aborted in the queue": {
			reason: "a rollback that waits for the lane can be aborted",
			set: func(w *world) {
				w.tell = func(contract.LaneMessage) {}
				w.at(30*time.Second, func() { w.abort("abort", contract.AbortMessage{RequestID: "1", By: by("rita")}) })
			},
			want: []string{"lane.preempt prod", "lane.leave prod"}, phase: promo.PhaseAborted, message: "aborted by rita",
		},
		"sync fails": {
			reason: "the commit is recorded as not good, and the environment is held all the same",
			set: func(w *world) {
				w.do["sync"] = func(_ int, c plan.Call) (plan.Result, error) {
					if c.Target.Name == "us" {
						return plan.Result{}, promo.Errorf(promo.CodeSync, "boom")
					}
					return goodDay("Sync", c), nil
				}
			},
			want: append(append([]string{}, start...), append([]string{
				"write good shared=false", "Sync rollback/sync eu", "Sync rollback/sync us", "mark prod back good=false",
			}, finish...)...), phase: promo.PhaseFailed, code: promo.CodeSync,
		},
		"verification fails": {
			reason: "a verdict fails the rollback",
			set: func(w *world) {
				w.do["verify"] = func(int, plan.Call) (plan.Result, error) {
					return plan.Result{Verdict: promo.Errorf(promo.CodeVerification, "p99")}, nil
				}
			},
			want: append(append([]string{}, start...), append([]string{
				"write good shared=false", "Sync rollback/sync eu", "Sync rollback/sync us",
				"Verify rollback/verify eu", "Verify rollback/verify eu", "Verify rollback/verify eu",
				"Verify rollback/verify us", "Verify rollback/verify us", "Verify rollback/verify us", "mark prod back good=false",
			}, finish...)...), phase: promo.PhaseFailed, code: promo.CodeVerification,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			in := rollbackInput()
			if tc.in != nil {
				tc.in(&in)
			}
			if tc.set != nil {
				tc.set(w)
			}
			b, res := w.back(in)
			if diff := cmp.Diff(tc.want, w.transcript()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if b.Phase != tc.phase || !strings.Contains(b.Message, tc.message) || (tc.code != "" && (b.Error == nil || b.Error.Code != tc.code)) {
				t.Errorf("%s: got %s, %q, %+v", tc.reason, b.Phase, b.Message, b.Error)
			}
			if tc.phase == promo.PhaseSucceeded && (res.Commit != "back" || b.To != "good" || b.From != "bad") {
				t.Errorf("%s: result %+v", tc.reason, res)
			}
			for _, c := range w.calls["sync"] {
				if string(c.Spec) != `{"prune":true,"revision":"back","waitHealthy":true}` || c.Operation != "rollback/default/checkout/prod/3/rollback.1/sync/"+c.Target.Name {
					t.Errorf("%s: sync %s as %s", tc.reason, c.Spec, c.Operation)
				}
			}
			if tc.code == promo.CodeSync || tc.phase == promo.PhaseSucceeded {
				if len(w.holds) != 1 || !strings.Contains(w.holds[0].Reason, "rolled back: p99") || w.holds[0].By != "rita" {
					t.Errorf("%s: holds %+v", tc.reason, w.holds)
				}
			}
		})
	}
}
