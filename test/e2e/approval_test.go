package e2e

import (
	"net/http"
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

// TestApproval decides by REST and command line, as those who may and those who may not.
func TestApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t, commonServer(t))
	w.apply(prod)
	id := w.start("prod-"+w.name, "v1.1.0")
	p := w.waits(id)
	short := strings.TrimPrefix(id, "default/")
	a := step(p, "prod", "sign-off").Approval
	if a == nil || a.PlanHash != p.PlanHash || a.Digest == "" || len(a.Changes) != 2 {
		t.Fatalf("the approval does not bind to plan and changes: %s", toJSON(a))
	}

	w.s.refused(t, developer, http.MethodPost, on(id, "decide"), api.DecideRequest{Approve: true}, http.StatusForbidden, developer)
	w.s.cli(t, "--as", developer, "approve", short).says(t, 1, developer)
	w.s.refused(t, manager, http.MethodPost, on(id, "decide"), api.DecideRequest{Approve: true, Digest: strings.Repeat("0", 64)}, http.StatusConflict, "look again")
	w.s.refused(t, manager, http.MethodPost, on(id, "decide"), api.DecideRequest{Approve: true, Step: "sing-off"}, http.StatusConflict, "sing-off")
	w.s.refused(t, manager, http.MethodPost, "/api/projects/default/promotions/nowhere/1/decide", api.DecideRequest{Approve: true}, http.StatusNotFound, "nowhere")

	w.s.cli(t, "--as", manager, "approve", short, "--comment", "fine by me").says(t, 0)
	w.ends(id, promo.PhaseSucceeded)
	w.s.refused(t, manager, http.MethodPost, on(id, "decide"), api.DecideRequest{Approve: true}, http.StatusConflict, "ended")
	got := step(w.promotion(id), "prod", "sign-off").Approval
	if len(got.Decisions) != 1 || got.Decisions[0].User != manager || got.Decisions[0].Comment != "fine by me" {
		t.Errorf("decisions: %s", toJSON(got.Decisions))
	}
}

// TestApprovalOfOnesOwn refuses who started the run, and an answer given twice where two people are needed.
func TestApprovalOfOnesOwn(t *testing.T) {
	t.Parallel()
	w := newWorld(t, commonServer(t))
	w.apply(strings.Replace(prod, "minimum: 1", "minimum: 2", 1))
	var p promo.Promotion
	w.s.must(t, admin, http.MethodPost, "/api/projects/default/pipelines/prod-"+w.name+"/run", api.RunRequest{Inputs: map[string]any{"version": "v1.1.0"}}, &p)
	w.waits(p.ID)
	w.s.refused(t, admin, http.MethodPost, on(p.ID, "decide"), api.DecideRequest{Approve: true}, http.StatusForbidden, "started")
	w.approve(manager, p.ID)
	w.s.refused(t, manager, http.MethodPost, on(p.ID, "decide"), api.DecideRequest{Approve: true, RequestID: "again"}, http.StatusConflict, "already")
	w.s.must(t, admin, http.MethodPost, on(p.ID, "abort"), api.AbortRequest{Reason: "enough"}, nil)
	w.ends(p.ID, promo.PhaseAborted)
	if open := w.pulls("open"); len(open) > 0 {
		t.Errorf("pull requests left open: %s", toJSON(open))
	}
}

// TestRejectAndExpire ends promotions by a no and by nobody's answer; neither changes anything.
func TestRejectAndExpire(t *testing.T) {
	t.Parallel()
	w := newWorld(t, commonServer(t))
	w.apply(strings.Replace(prod, "type: Approval\n", "type: Approval\n          timeout: 2s\n", 1))
	before := w.pull()
	p := w.ends(w.start("prod-"+w.name, "v1.1.0"), promo.PhaseFailed)
	if p.Error == nil || p.Error.Code != promo.CodeApproval || !strings.Contains(p.Error.Msg, "not approved within 2s") {
		t.Errorf("expired: %s", describe(p))
	}
	w.apply(prod)
	id := w.start("prod-"+w.name, "v1.1.0")
	w.waits(id)
	w.s.cli(t, "--as", manager, "reject", strings.TrimPrefix(id, "default/"), "--comment", "not on a Friday").says(t, 0)
	p = w.ends(id, promo.PhaseFailed)
	if p.Error == nil || p.Error.Code != promo.CodeApproval || !strings.Contains(p.Error.Msg, "not on a Friday") || !strings.Contains(p.Error.Msg, manager) {
		t.Errorf("rejected: %s", describe(p))
	}
	if got := w.pull(); got != before {
		t.Errorf("main moved to %s", got)
	}
	if open := w.pulls("open"); len(open) > 0 {
		t.Errorf("pull requests left open: %s", toJSON(open))
	}
}

// TestPushVoidsApproval pushes to the pull request's branch between two approvals: the first no longer counts.
func TestPushVoidsApproval(t *testing.T) {
	t.Parallel()
	w := newWorld(t, commonServer(t))
	w.apply(strings.Replace(prod, "minimum: 1", "minimum: 2", 1))
	id := w.start("prod-"+w.name, "v1.1.0")
	p := w.waits(id)
	old := step(p, "prod", "sign-off").Approval
	w.approve(manager, id)
	w.git("fetch", "-q", "origin")
	w.git("checkout", "-q", "-B", "theirs", "origin/"+old.Changes[0].Branch)
	w.write("services/"+w.name+"/prod/us/sneaked.txt", "in\n")
	w.git("add", "-A")
	w.git("commit", "-q", "-m", "sneaked in")
	w.git("push", "-q", "origin", "HEAD:refs/heads/"+old.Changes[0].Branch)
	w.git("checkout", "-q", "-B", "main", "origin/main")
	p = w.reach(id, "says that the approval is void", func(p promo.Promotion) bool {
		a := step(p, "prod", "sign-off").Approval
		return len(a.Decisions) > 0 && a.Decisions[0].Void != ""
	})
	now := step(p, "prod", "sign-off")
	if !strings.Contains(now.Message, developer) || !strings.Contains(now.Message, "void") || now.Approval.Digest == old.Digest {
		t.Errorf("after the push: %q, digest %s was %s", now.Message, now.Approval.Digest, old.Digest)
	}
	w.s.refused(t, admin, http.MethodPost, on(id, "decide"), api.DecideRequest{Approve: true, Digest: old.Digest}, http.StatusConflict)
	w.approve(manager, id)
	w.approve(admin, id)
	p = w.reach(id, "has ended", func(p promo.Promotion) bool { return p.Phase.Final() })
	if p.Phase != promo.PhaseSucceeded {
		t.Logf("a foreign commit that was approved: %s", describe(p))
		if p.Error == nil || p.Error.Code != promo.CodeConflict || !strings.Contains(p.Error.Msg, developer) {
			t.Errorf("want it merged, or a Conflict that names its author: %s", describe(p))
		}
	}
}
