package workflows_test

import (
	"strings"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

func by(name string, groups ...string) promo.Principal {
	return promo.Principal{Name: name, Groups: groups}
}

func yes(id string, p promo.Principal) contract.DecideMessage {
	return contract.DecideMessage{RequestID: id, By: p, Approve: true}
}

// gated is a deployment behind an approval.
func gated(a plan.ApprovalSpec, opts ...stepOption) plan.Stage {
	return stage("prod", []string{"us"}, do("UpdateReleaseRepo", "update"), do("Approval", "sign-off", append(opts, spec(a))...),
		do("MergePR", "merge"), do("Sync", "sync"))
}

func TestApproval(t *testing.T) {
	t.Parallel()
	managers := plan.Approvers{Groups: []string{"managers"}}
	type sent struct {
		m    contract.DecideMessage
		want promo.Code // of the refusal
	}
	cases := map[string]struct {
		reason  string
		spec    plan.ApprovalSpec
		sent    []sent
		phase   promo.Phase
		code    promo.Code
		message string
	}{
		"approved": {
			reason: "one approval of a member is enough",
			spec:   plan.ApprovalSpec{Approvers: managers},
			sent:   []sent{{m: yes("1", by("rita", "managers"))}}, phase: promo.PhaseSucceeded,
		},
		"rejected": {
			reason: "a rejection is the verdict Approval and says who and why",
			spec:   plan.ApprovalSpec{Approvers: managers},
			sent:   []sent{{m: contract.DecideMessage{RequestID: "1", By: by("rita", "managers"), Comment: "too early"}}},
			phase:  promo.PhaseFailed, code: promo.CodeApproval, message: "rejected by rita: too early",
		},
		"minimum": {
			reason: "two different people; the same one twice is a conflict",
			spec:   plan.ApprovalSpec{Approvers: plan.Approvers{Minimum: 2}},
			sent: []sent{
				{m: yes("1", by("rita"))}, {m: yes("2", by("rita")), want: promo.CodeConflict}, {m: yes("3", by("ron"))},
			},
			phase: promo.PhaseSucceeded,
		},
		"same request": {
			reason: "a request that is sent twice is answered the same and counts once",
			spec:   plan.ApprovalSpec{Approvers: plan.Approvers{Minimum: 2}},
			sent:   []sent{{m: yes("1", by("rita"))}, {m: yes("1", by("rita"))}},
			phase:  promo.PhaseFailed, code: promo.CodeApproval, message: "1 of 2 approvals",
		},
		"wrong person": {
			reason: "who is in no group and not named may not decide, neither way",
			spec:   plan.ApprovalSpec{Approvers: plan.Approvers{Groups: []string{"managers"}, Users: []string{"ursula"}}},
			sent: []sent{
				{m: yes("1", by("eve", "guests")), want: promo.CodeAuthorization},
				{m: contract.DecideMessage{RequestID: "2", By: by("eve")}, want: promo.CodeAuthorization},
				{m: yes("3", by("ursula"))},
			},
			phase: promo.PhaseSucceeded,
		},
		"executor": {
			reason: "who started the promotion may not approve it",
			spec:   plan.ApprovalSpec{Approvers: plan.Approvers{DisallowExecutor: true}},
			sent:   []sent{{m: yes("1", by("dana")), want: promo.CodeAuthorization}, {m: yes("2", by("rita"))}}, phase: promo.PhaseSucceeded,
		},
		"author": {
			reason: "the author of the change may not approve it",
			spec:   plan.ApprovalSpec{Approvers: plan.Approvers{DisallowAuthor: true}},
			sent:   []sent{{m: yes("1", by("dana")), want: promo.CodeAuthorization}, {m: yes("2", by("rita"))}}, phase: promo.PhaseSucceeded,
		},
		"inputs": {
			reason: "required inputs must be given, and only allowed values",
			spec: plan.ApprovalSpec{Inputs: []plan.ApprovalInput{
				{Name: "ticket", Required: true}, {Name: "speed", Default: "slow", Allowed: []string{"slow", "fast"}},
			}},
			sent: []sent{
				{m: yes("1", by("rita")), want: promo.CodeConfiguration},
				{m: contract.DecideMessage{RequestID: "2", By: by("rita"), Approve: true, Inputs: map[string]string{"ticket": "T-1", "speed": "mad"}}, want: promo.CodeConfiguration},
				{m: contract.DecideMessage{RequestID: "3", By: by("rita"), Approve: true, Inputs: map[string]string{"ticket": "T-1"}}},
			},
			phase: promo.PhaseSucceeded,
		},
		"expired": {
			reason: "an approval that nobody decides is the verdict Approval when its time is over",
			spec:   plan.ApprovalSpec{Approvers: managers}, phase: promo.PhaseFailed, code: promo.CodeApproval, message: "not approved within 3h: 0 of 1",
		},
		"digest": {
			reason: "a decision about another change than the present one is refused",
			spec:   plan.ApprovalSpec{},
			sent: []sent{
				{m: contract.DecideMessage{RequestID: "1", By: by("rita"), Approve: true, Digest: "other"}, want: promo.CodeConflict},
				{m: contract.DecideMessage{RequestID: "2", By: by("rita"), Approve: true, Digest: "digest-stage"}},
			},
			phase: promo.PhaseSucceeded,
		},
		"another step": {
			reason: "a decision that names what doesn't wait is a conflict",
			spec:   plan.ApprovalSpec{},
			sent: []sent{
				{m: contract.DecideMessage{RequestID: "1", By: by("rita"), Approve: true, Step: "merge"}, want: promo.CodeConflict},
				{m: contract.DecideMessage{RequestID: "2", By: by("rita"), Approve: true, Stage: "prod", Step: "sign-off"}},
			},
			phase: promo.PhaseSucceeded,
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			names := make([]string, len(tc.sent))
			for i, s := range tc.sent {
				names[i] = "message-" + string(rune('a'+i))
				w.at(time.Duration(i+1)*time.Minute, func() { w.decide(names[i], s.m) })
			}
			p := w.run(input(gated(tc.spec, timeout(3*time.Hour))))
			for i, s := range tc.sent {
				if got := w.refused(names[i]); got != s.want {
					t.Errorf("%s: message %d: got %q (%v), want %q", tc.reason, i+1, got, w.refusals[names[i]], s.want)
				}
			}
			if p.Phase != tc.phase {
				t.Fatalf("%s: got %s (%s), want %s", tc.reason, p.Phase, p.Message, tc.phase)
			}
			if tc.code != "" && (p.Error.Code != tc.code || !strings.Contains(p.Error.Msg, tc.message)) {
				t.Errorf("%s: got %+v, want %s with %q", tc.reason, p.Error, tc.code, tc.message)
			}
		})
	}
}

func TestSameRequestSameReply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at(time.Minute, func() { w.decide("a", yes("1", by("rita"))) })
	w.at(2*time.Minute, func() { w.decide("b", yes("2", by("ron"))) })
	w.at(2*time.Minute+time.Second, func() { w.decide("c", yes("1", by("rita"))) })
	w.run(input(custom("a", do("Approval", "ok", spec(plan.ApprovalSpec{Approvers: plan.Approvers{Minimum: 2}})), do("Wait", "wait", spec(plan.WaitSpec{Duration: plan.Duration(time.Hour)}), timeout(2*time.Hour)))))
	if w.replies["a"] != w.replies["c"] || w.replies["a"].Approved != 1 || !w.replies["b"].Done || w.replies["b"].Approved != 2 {
		t.Errorf("replies %+v", w.replies)
	}
}

func TestApprovalOutputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.at(time.Minute, func() {
		m := yes("1", by("rita"))
		m.Comment, m.Inputs = "fine", map[string]string{"ticket": "T-1"}
		w.decide("a", m)
	})
	w.run(input(custom("a", do("Approval", "ok", spec(plan.ApprovalSpec{Inputs: []plan.ApprovalInput{{Name: "ticket"}, {Name: "speed", Default: "slow"}}})),
		do("Http", "use", spec(map[string]any{"url": "${{ steps.ok.outputs.inputs.ticket }}-${{ steps.ok.outputs.inputs.speed }}-${{ steps.ok.outputs.approvedBy[0] }}"})))))
	if got, want := string(w.calls["use"][0].Spec), `{"url":"T-1-slow-rita"}`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// pushed answers reads of the change: from the given call on somebody else's commit is on the branch.
func pushed(from int) func(int, contract.ReadChangeRequest) (contract.ReadChangeResult, error) {
	return func(n int, r contract.ReadChangeRequest) (contract.ReadChangeResult, error) {
		c := r.Change
		if n >= from {
			c.Head, c.Digest, c.Foreign = "head-mallory", "digest-mallory", "mallory"
		}
		return contract.ReadChangeResult{Change: c, State: "open", Checks: "green"}, nil
	}
}

func TestPushVoidsDecisions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.change = pushed(1)
	w.at(time.Minute, func() { w.decide("first", yes("1", by("rita"))) })
	w.at(2*time.Minute, func() { w.env.SignalWorkflow(contract.SignalWake, promo.EventPullRequest("deploy", 1)) })
	old := yes("2", by("ron"))
	old.Digest = "digest-stage"
	w.at(3*time.Minute, func() { w.decide("stale", old) })
	w.at(4*time.Minute, func() { w.decide("author", yes("3", by("mallory"))) })
	w.at(5*time.Minute, func() { w.decide("again", yes("4", by("rita"))) })
	w.at(6*time.Minute, func() { w.decide("second", yes("5", by("ron"))) })
	p := w.run(input(gated(plan.ApprovalSpec{Approvers: plan.Approvers{Minimum: 2, DisallowAuthor: true}})))
	if p.Phase != promo.PhaseSucceeded {
		t.Fatalf("got %s: %s", p.Phase, p.Message)
	}
	for name, want := range map[string]promo.Code{"first": "", "stale": promo.CodeConflict, "author": promo.CodeAuthorization, "again": "", "second": ""} {
		if got := w.refused(name); got != want {
			t.Errorf("message %s: got %q, want %q", name, got, want)
		}
	}
	a := stepOf(t, p, "prod", "sign-off", "").Approval
	if a.Digest != "digest-mallory" || len(a.Decisions) != 3 || !strings.Contains(a.Decisions[0].Void, "mallory") || a.Decisions[1].Void != "" {
		t.Errorf("the approval shows %+v", a)
	}
	if got := w.calls["merge"][0].Approved; got != "digest-mallory" {
		t.Errorf("the merge is bound to %q, want what was approved", got)
	}
}

func TestPushAfterApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.change = pushed(1) // first read: when the stage takes its lane
	w.at(time.Minute, func() { w.decide("first", yes("1", by("rita"))) })
	w.at(3*time.Minute, func() { w.decide("second", yes("2", by("rita"))) })
	w.ordered = true
	p := w.run(input(gated(plan.ApprovalSpec{})))
	want := "lane.arrive prod,UpdateReleaseRepo prod/update stage,lane.take prod,change.read 1,lane.yield prod,lane.take prod,change.read 1,baseline prod,MergePR prod/merge stage"
	if got := strings.Join(w.transcript(), ","); !strings.HasPrefix(got, want) {
		t.Errorf("the lane is given back and people are asked again: got %s", got)
	}
	a := stepOf(t, p, "prod", "sign-off", "").Approval
	if p.Phase != promo.PhaseSucceeded || len(a.Decisions) != 2 || a.Decisions[0].Void == "" || a.Digest != "digest-mallory" {
		t.Errorf("phase %s, approval %+v", p.Phase, a)
	}
}

func TestNobodyApprovedThePush(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.change = pushed(1)
	w.do["merge"] = func(_ int, c plan.Call) (plan.Result, error) {
		if c.Change.Digest != "digest-stage" || c.Change.Head != "head-stage" {
			t.Errorf("the merge is given %+v, want what Davit pushed", c.Change)
		}
		return plan.Result{}, promo.Errorf(promo.CodeConflict, "pull request 1 is not what Davit pushed")
	}
	s := stage("prod", []string{"us"}, release()...)
	plan.Steps(s.Nodes)[1].Retry = &plan.Retry{Attempts: 2, Backoff: time.Second}
	p := w.run(input(s))
	if p.Phase != promo.PhaseFailed || p.Error.Code != promo.CodeConflict || len(w.calls["merge"]) != 3 {
		t.Errorf("got %s, %+v after %d merges", p.Phase, p.Error, len(w.calls["merge"]))
	}
}

func TestWaitGate(t *testing.T) {
	t.Parallel()
	start := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for name, tc := range map[string]struct {
		spec  plan.WaitSpec
		limit time.Duration
		took  time.Duration
		phase promo.Phase
	}{
		"duration": {spec: plan.WaitSpec{Duration: plan.Duration(90 * time.Minute)}, limit: 2 * time.Hour, took: 90 * time.Minute, phase: promo.PhaseSucceeded},
		"until":    {spec: plan.WaitSpec{Until: "2026-01-01T03:00:00Z"}, limit: 4 * time.Hour, took: 3 * time.Hour, phase: promo.PhaseSucceeded},
		"past":     {spec: plan.WaitSpec{Until: "2025-01-01T03:00:00Z"}, limit: 4 * time.Hour, phase: promo.PhaseSucceeded},
		"too long": {spec: plan.WaitSpec{Duration: plan.Duration(3 * time.Hour)}, limit: time.Hour, took: time.Hour, phase: promo.PhaseFailed},
		"no time":  {spec: plan.WaitSpec{Until: "tomorrow"}, limit: time.Hour, phase: promo.PhaseFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.env.SetStartTime(start)
			p := w.run(input(custom("a", do("Wait", "wait", spec(tc.spec), timeout(tc.limit)))))
			st := stepOf(t, p, "a", "wait", "")
			if got := st.FinishedAt.Sub(st.StartedAt); got.Round(time.Minute) != tc.took || p.Phase != tc.phase {
				t.Errorf("it took %s and ended %s, want %s and %s", got, p.Phase, tc.took, tc.phase)
			}
		})
	}
}

func TestWaitForPR(t *testing.T) {
	t.Parallel()
	type look = contract.ReadChangeResult
	for name, tc := range map[string]struct {
		spec  plan.WaitForPRSpec
		looks []look // the last one stays
		code  promo.Code
		msg   string
		sha   string
	}{
		"merged by a person": {spec: plan.WaitForPRSpec{Until: "merged"}, looks: []look{{State: "open"}, {State: "open"}, {State: "merged", Change: plan.Change{Merged: "abc"}}}, sha: "abc"},
		"closed by somebody": {spec: plan.WaitForPRSpec{Until: "merged"}, looks: []look{{State: "open"}, {State: "closed", ClosedBy: "carl"}}, code: promo.CodeConflict, msg: "closed by carl"},
		"closed is wanted":   {spec: plan.WaitForPRSpec{Until: "closed"}, looks: []look{{State: "open"}, {State: "closed", ClosedBy: "carl"}}},
		"checks green":       {spec: plan.WaitForPRSpec{Until: "checks"}, looks: []look{{State: "open", Checks: "pending"}, {State: "open", Checks: "green"}}},
		"checks failed":      {spec: plan.WaitForPRSpec{Until: "checks"}, looks: []look{{State: "open", Checks: "pending"}, {State: "open", Checks: "failed"}}, code: promo.CodeConflict, msg: "checks of pull request 1 failed"},
		"foreign commit":     {spec: plan.WaitForPRSpec{Until: "merged"}, looks: []look{{State: "open"}, {State: "open", Change: plan.Change{Foreign: "mallory", Digest: "x"}}}, code: promo.CodeConflict, msg: "mallory pushed"},
		"foreign is allowed": {spec: plan.WaitForPRSpec{Until: "checks", ForeignCommits: "allow"}, looks: []look{{State: "open", Checks: "green", Change: plan.Change{Foreign: "mallory", Digest: "x"}}}},
		"never":              {spec: plan.WaitForPRSpec{Until: "merged"}, looks: []look{{State: "open"}}, code: promo.CodeTimeout, msg: "waiting until pull request 1 is merged"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.change = func(n int, r contract.ReadChangeRequest) (contract.ReadChangeResult, error) {
				l := tc.looks[min(n, len(tc.looks))-1]
				c := r.Change
				c.Merged, c.Foreign = l.Change.Merged, l.Change.Foreign
				if l.Change.Digest != "" {
					c.Digest = l.Change.Digest
				}
				return contract.ReadChangeResult{Change: c, State: l.State, ClosedBy: l.ClosedBy, Checks: l.Checks}, nil
			}
			p := w.run(input(stage("prod", []string{"us"}, do("UpdateReleaseRepo", "update"),
				do("WaitForPR", "wait", spec(tc.spec), timeout(7*24*time.Hour)), do("Sync", "sync"))))
			if tc.code == "" {
				if p.Phase != promo.PhaseSucceeded || w.calls["sync"][0].Change.Merged != tc.sha {
					t.Errorf("got %s: %s; synced %+v", p.Phase, p.Message, w.calls["sync"])
				}
				return
			}
			if p.Error == nil || p.Error.Code != tc.code || !strings.Contains(p.Error.Msg, tc.msg) {
				t.Errorf("got %+v, want %s %q", p.Error, tc.code, tc.msg)
			}
			if n := w.counts["change.read"]; n > 400 {
				t.Errorf("%d looks at the pull request in a week: too many for a history", n)
			}
		})
	}
}

func TestAskAboutVerdict(t *testing.T) {
	t.Parallel()
	ask := func(int, plan.Call) (plan.Result, error) {
		return plan.Result{Ask: &plan.Ask{Question: "no data: go on?", Otherwise: promo.Error{Code: promo.CodeVerification, Msg: "no data"}}}, nil
	}
	for name, tc := range map[string]struct {
		answers []bool
		phase   promo.Phase
	}{
		"go on":  {answers: []bool{true, true}, phase: promo.PhaseSucceeded},
		"stop":   {answers: []bool{true, false}, phase: promo.PhaseFailed},
		"nobody": {phase: promo.PhaseFailed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.do["verify"] = ask
			for i, a := range tc.answers {
				w.at(time.Duration(i+1)*time.Minute, func() {
					id := string(rune('1' + i))
					w.decide(id, contract.DecideMessage{RequestID: id, By: by("rita"), Approve: a})
				})
			}
			s := stage("prod", []string{"us", "eu"}, append(release(), do("Verify", "verify"))...)
			s.FailFast = false
			p := w.run(input(s))
			if p.Phase != tc.phase || (tc.phase == promo.PhaseFailed && p.Error.Code != promo.CodeVerification) {
				t.Errorf("got %s, %+v, want %s", p.Phase, p.Error, tc.phase)
			}
			if w.marks[0].Entry.KnownGood {
				t.Error("what a person let pass without evidence counts as known-good")
			}
		})
	}
}

func TestRollbackStep(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.write = func(int, plan.RollbackWrite) (plan.RollbackWritten, error) {
		return plan.RollbackWritten{Commit: "back", Changed: true, Merged: true}, nil
	}
	p := w.run(input(stage("prod", []string{"us"}, do("Rollback", "undo", spec(plan.RollbackSpec{To: "known-good", Shared: "paths-only"})), do("Http", "tell",
		spec(map[string]any{"body": "${{ steps.undo.outputs.commit }}"})))))
	if p.Phase != promo.PhaseSucceeded || len(w.calls["tell"]) != 1 || !strings.Contains(string(w.calls["tell"][0].Spec), "back") {
		t.Errorf("got %s (%s), calls %+v", p.Phase, p.Message, w.calls["tell"])
	}
	if len(w.holds) != 1 || w.backs[len(w.backs)-1].Phase != promo.PhaseSucceeded {
		t.Errorf("holds %+v, rollback %+v", w.holds, w.backs[len(w.backs)-1])
	}
}
