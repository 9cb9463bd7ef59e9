package engine

import (
	"context"
	"strings"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/policy"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

// Decisions lists recorded policy decisions, newest first.
func (r Records) Decisions(ctx context.Context, _ promo.Principal, f api.DecisionFilter) ([]api.Decision, error) {
	list, err := r.Store.Decisions(ctx, store.DecisionFilter{Project: f.Project, Subject: f.Subject, Denied: f.Denied, Limit: f.Limit, Before: f.Before})
	out := make([]api.Decision, 0, len(list))
	for _, d := range list {
		out = append(out, api.Decision{
			ID: d.ID, At: d.At, Project: d.Project, Event: d.Event, Subject: d.Subject, Sets: d.Sets, By: d.By,
			InputHash: d.InputHash, Deny: d.Deny, Warn: d.Warn,
		})
	}
	return out, err
}

// Audit lists the audit log, newest first.
func (r Records) Audit(ctx context.Context, _ promo.Principal, f api.AuditFilter) ([]api.AuditEntry, error) {
	list, err := r.Store.Audit(ctx, store.AuditFilter{
		Project: f.Project, Who: f.Who, Action: f.Action, Subject: f.Subject, Limit: f.Limit, Before: f.Before,
	})
	out := make([]api.AuditEntry, 0, len(list))
	for _, e := range list {
		out = append(out, api.AuditEntry{
			Sequence: e.Seq, At: e.At, Who: e.Who, Action: e.Action, Subject: e.Subject, Project: e.Project, Detail: string(e.Detail), Hash: e.Hash,
		})
	}
	return out, err
}

// Blob returns a diff, chart or log.
func (r Records) Blob(ctx context.Context, _ promo.Principal, req api.BlobRequest) (api.Blob, error) {
	b, err := r.Store.Blob(ctx, req.Digest)
	return api.Blob{MediaType: b.MediaType, Data: b.Data}, err
}

// filesOf lists the files of a unified diff with their parts of it.
func filesOf(diff string) []policy.FileDiff {
	var out []policy.FileDiff
	for part := range strings.SplitSeq("\n"+diff, "\ndiff --git ") {
		head, _, _ := strings.Cut(part, "\n")
		_, path, ok := strings.Cut(head, " b/")
		if ok {
			out = append(out, policy.FileDiff{Path: path, Unified: "diff --git " + part})
		}
	}
	return out
}
