package steps

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// decide says what the application's present state means. It trusts none of Argo CD's words alone, because its
// event stream lies for moments:
//
//   - right after an operation is asked for, LastOperation still is the one before: only the operation's id counts;
//   - Sync compares with the application's targetRevision, not with what was synced: only the operation's own
//     revision counts;
//   - after an operation has succeeded, health (and Revision) may be those from before it: they count only from a
//     comparison made after the operation ended, at a revision that holds the wanted content.
func (s *appSync) decide(ctx context.Context) (move, error) {
	if s.app.Name == "" {
		return s.waitFor("its first state")
	}
	s.seen = s.seen || s.ours(s.app.PendingOperation) || s.ours(s.app.LastOperation)
	if op := s.app.PendingOperation; op != nil {
		return s.waitFor("%s to be picked up", s.whose(op))
	}
	if op := s.app.LastOperation; op != nil && !finished(op) {
		return s.waitFor("%s, which is %s", s.whose(op), strings.ToLower(string(op.Phase)))
	}
	if s.app.AutoSync && !s.cfg.DryRun {
		return s.decideAuto(ctx)
	}
	if s.ours(s.app.LastOperation) {
		return s.decideOurs(ctx, s.app.LastOperation)
	}
	return s.decideOthers(ctx, s.app.LastOperation)
}

func (s *appSync) whose(op *promo.Operation) string {
	if s.ours(op) {
		return "its operation"
	}
	return "an operation of " + firstText(op.InitiatedBy, "somebody else")
}

// decideOurs judges the step's own operation, which has ended.
func (s *appSync) decideOurs(ctx context.Context, op *promo.Operation) (move, error) {
	if !succeeded(op) {
		return moveWait, promo.Errorf(promo.CodeSync, "application %s: the operation is %s: %s", s.ref.Name, op.Phase, firstText(op.Message, "no reason given"))
	}
	if s.cfg.DryRun {
		return moveDone, nil
	}
	if op.Revision != s.want {
		return moveWait, promo.Errorf(promo.CodeSync, "application %s: the operation synced %s, not %s", s.ref.Name, short(op.Revision), short(s.want))
	}
	return s.decideHealth(ctx, op.FinishedAt)
}

// decideOthers looks at an ended operation of somebody else, or at none. The engine keeps only the last one, so
// ours may have been replaced: what it synced decides.
func (s *appSync) decideOthers(ctx context.Context, op *promo.Operation) (move, error) {
	if succeeded(op) && op.Revision != "" && !s.cfg.DryRun {
		r, err := s.relate(ctx, op.Revision)
		switch {
		case err != nil:
			return moveWait, err
		case r.Kind == RelationOvertaken:
			return moveWait, s.overtaken(r)
		case r.Kind == RelationDescendantEqual, r.Kind == RelationSame && s.seen:
			return s.decideHealth(ctx, op.FinishedAt)
		}
	}
	// The engine has not shown our operation yet. Should the wish have got lost, asking again with the same id
	// starts nothing twice.
	if !s.seen && !s.startedAt.IsZero() && time.Since(s.startedAt) < syncPoll {
		return s.waitFor("its operation to appear")
	}
	s.waiting = "its operation to start"
	return moveStart, nil
}

// decideAuto waits for an application that syncs itself: Davit only makes it look at Git again.
func (s *appSync) decideAuto(ctx context.Context) (move, error) {
	r, err := s.relate(ctx, s.app.Revision)
	if err != nil {
		return moveWait, err
	}
	op := s.app.LastOperation
	switch {
	case r.Kind == RelationOvertaken:
		return moveWait, s.overtaken(r)
	case !r.holds():
		s.waiting = fmt.Sprintf("the engine to see %s; it has seen %s of %s", short(s.want), firstText(short(s.app.Revision), "nothing"), s.app.TargetRevision)
		return moveRefresh, nil
	case op != nil && !succeeded(op) && op.Revision == s.app.Revision && s.app.Sync != promo.SyncSynced:
		return moveWait, promo.Errorf(promo.CodeSync, "application %s: its automatic operation is %s: %s", s.ref.Name, op.Phase, firstText(op.Message, "no reason given"))
	case s.app.Sync == promo.SyncSynced:
		after := time.Time{}
		if op != nil {
			after = op.FinishedAt
		}
		return s.decideHealth(ctx, after)
	}
	if extra := s.onlyPruning(); len(extra) > 0 && !s.app.AutoPrune {
		return moveWait, s.pruneError(extra, "its automatic sync does not prune")
	}
	return s.waitFor("its automatic sync to %s", short(s.app.Revision))
}

// decideHealth waits until the application is healthy, as seen after the operation ended.
func (s *appSync) decideHealth(ctx context.Context, ended time.Time) (move, error) {
	compared := s.app.ReconciledAt.After(ended) || ended.IsZero()
	r, err := s.relate(ctx, s.app.Revision)
	if err != nil {
		return moveWait, err
	}
	if compared && r.holds() && !s.cfg.Prune {
		if extra := s.toPrune(); len(extra) > 0 {
			return moveWait, s.pruneError(extra, "the step says prune: false")
		}
	}
	if !s.cfg.WaitHealthy {
		return moveDone, nil
	}
	switch {
	case !compared:
		s.waiting = "a comparison made after the operation"
		if s.nudge.IsZero() {
			s.nudge = time.Now().Add(time.Second) // the engine compares by itself; Argo CD's times are whole seconds
		}
		return moveRefresh, nil
	case !r.holds() && s.compared.IsZero():
		s.compared = s.app.ReconciledAt
		return moveRefresh, nil
	case !r.holds() && !s.app.ReconciledAt.After(s.compared):
		// A cached comparison may still name the commit before. Where a second one does too, the application's
		// targetRevision leads elsewhere, and the operation alone brought the wanted content.
		s.waiting = "a second comparison, because the first names " + short(s.app.Revision)
		return moveRefresh, nil
	}
	return s.judge()
}

// judge reads a health that counts.
func (s *appSync) judge() (move, error) {
	why := firstText(s.app.HealthMessage, unhealthy(s.app))
	if s.app.Health == promo.HealthHealthy {
		return moveDone, nil
	}
	if s.app.Health != promo.HealthDegraded {
		s.degraded = time.Time{}
		return s.waitFor("health; it is %s: %s", s.app.Health, why)
	}
	if s.degraded.IsZero() {
		s.degraded = time.Now()
	}
	if time.Since(s.degraded) < s.cfg.DegradedAfter.Std() {
		return s.waitFor("health; it is Degraded: %s", why)
	}
	return moveWait, promo.Errorf(promo.CodeHealth, "application %s at %s is Degraded for %s: %s", s.ref.Name, short(s.want), s.cfg.DegradedAfter, why)
}

// unhealthy names the objects that keep the application from being healthy.
func unhealthy(a promo.Application) string {
	var out []string
	for _, r := range a.Resources {
		if r.Health != "" && r.Health != promo.HealthHealthy {
			out = append(out, strings.TrimSpace(fmt.Sprintf("%s %s is %s %s", r.Kind, r.Name, r.Health, r.Message)))
		}
	}
	if len(out) == 0 {
		return "the engine names no object"
	}
	return fileList(out)
}

// toPrune lists live objects that the revision no longer has.
func (s *appSync) toPrune() []string {
	var out []string
	for _, r := range s.app.Resources {
		if r.RequiresPruning && s.selected(r) {
			out = append(out, r.Kind+" "+r.Name)
		}
	}
	return out
}

// selected reports whether the step is about the object at all.
func (s *appSync) selected(r promo.Resource) bool {
	if len(s.cfg.Resources) == 0 {
		return true
	}
	for _, w := range s.cfg.Resources {
		if w.Kind == r.Kind && w.Group == r.Group && w.Name == r.Name && (w.Namespace == "" || w.Namespace == r.Namespace) {
			return true
		}
	}
	return false
}

// onlyPruning lists the objects to prune where nothing else is out of sync.
func (s *appSync) onlyPruning() []string {
	for _, r := range s.app.Resources {
		if r.Sync == promo.SyncOutOfSync && !r.RequiresPruning {
			return nil
		}
	}
	return s.toPrune()
}

func (s *appSync) pruneError(extra []string, why string) error {
	return promo.Errorf(promo.CodeSync, "application %s still has objects that %s no longer declares: %s", s.ref.Name, short(s.want), fileList(extra)).
		WithHint("%s: say prune: true, or delete them", why)
}
