package steps

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// Times of a sync. Events drive it; these are for events that got lost.
const (
	syncPoll      = 30 * time.Second // reads the application although nothing happened
	syncHeartbeat = 5 * time.Second  // well inside the heartbeat timeout of long work
	syncMargin    = 2 * time.Second  // to answer with a reason before the caller's own timeout
	terminateTime = 10 * time.Second // to end the operation of a cancelled step
)

// appSync brings one application to one revision.
type appSync struct {
	in   In
	cfg  *SyncSpec
	ref  promo.ApplicationRef
	want string

	app       promo.Application
	relations map[string]Relation // by commit; commits don't change
	startedAt time.Time           // of the last StartSync of this call
	seen      bool                // our operation has shown up
	compared  time.Time           // ReconciledAt of the first comparison after the operation that named another commit
	nudge     time.Time           // earliest time of the next refresh
	patience  time.Duration       // between refreshes
	degraded  time.Time           // since when Degraded counts
	waiting   string              // what is waited for
	err       error
}

func newAppSync(in In, cfg *SyncSpec, ref promo.ApplicationRef, want string) *appSync {
	return &appSync{in: in, cfg: cfg, ref: ref, want: want, relations: map[string]Relation{}}
}

// move is what to do next about an application.
type move int

const (
	moveWait move = iota
	moveStart
	moveRefresh
	moveDone
)

// run watches the application until it is as wanted, an error ends it, or the step's time is over.
func (s *appSync) run(ctx context.Context) error {
	left := s.in.Deadline.Sub(s.in.Now)
	if left > 10*syncMargin {
		left -= syncMargin
	}
	limited, cancel := context.WithTimeoutCause(ctx, left, errLate)
	defer cancel()
	err := s.loop(limited)
	if err == nil || limited.Err() == nil {
		return err
	}
	s.terminate(ctx)
	if errors.Is(context.Cause(limited), errLate) && ctx.Err() == nil {
		return promo.Errorf(promo.CodeTimeout, "application %s was not done within %s: %s", s.ref.Name, s.in.Deadline.Sub(s.in.StartedAt), s.waiting)
	}
	return ctx.Err()
}

var errLate = errors.New("the step's time is over")

func (s *appSync) loop(ctx context.Context) error { //nolint:gocognit // one grammar or protocol, read from top to bottom
	events, err := s.in.Ports.GitOps.Watch(ctx, s.ref)
	if err != nil {
		return err
	}
	poll, beat, wake := time.NewTicker(syncPoll), time.NewTicker(syncHeartbeat), time.NewTimer(syncPoll)
	defer poll.Stop()
	defer beat.Stop()
	defer wake.Stop()
	for {
		wake.Reset(s.sleep())
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-beat.C:
			if s.in.Ports.Heartbeat != nil {
				s.in.Ports.Heartbeat()
			}
			continue
		case app, ok := <-events:
			if !ok {
				events = nil // the poll goes on, and watches again
				continue
			}
			s.app = app
		case <-wake.C:
		case <-poll.C:
			if events == nil {
				if events, err = s.in.Ports.GitOps.Watch(ctx, s.ref); err != nil {
					return err
				}
			}
			if s.app, err = s.in.Ports.GitOps.Get(ctx, s.ref); err != nil {
				return err
			}
		}
		if done, err := s.step(ctx); done || err != nil {
			return err
		}
	}
}

// sleep is how long to wait where no event comes: until a refresh is due or Degraded has lasted too long.
func (s *appSync) sleep() time.Duration {
	d := syncPoll
	if !s.degraded.IsZero() {
		d = min(d, time.Until(s.degraded.Add(s.cfg.DegradedAfter.Std())))
	}
	if !s.nudge.IsZero() {
		d = min(d, time.Until(s.nudge))
	}
	return max(d, time.Millisecond)
}

// step looks at the application and acts once.
func (s *appSync) step(ctx context.Context) (done bool, err error) {
	m, err := s.decide(ctx)
	if err != nil {
		return false, err
	}
	now := time.Now()
	if m != moveRefresh {
		s.nudge, s.patience = time.Time{}, 0
	}
	switch m {
	case moveDone:
		return true, nil
	case moveStart:
		s.startedAt = now
		return false, s.in.Ports.GitOps.StartSync(ctx, s.ref, promo.SyncRequest{
			ID: s.in.Operation, Revision: s.want, InitiatedBy: "davit: " + s.in.Run.ID, Options: s.cfg.options(),
		})
	case moveRefresh:
		if now.Before(s.nudge) {
			return false, nil
		}
		s.patience = min(max(2*s.patience, time.Second), syncPoll)
		s.nudge = now.Add(s.patience)
		return false, s.in.Ports.GitOps.Refresh(ctx, s.ref, false)
	case moveWait:
	}
	return false, nil
}

// terminate ends our own operation, for nobody waits for it any more. A stopping agent leaves it alone.
func (s *appSync) terminate(ctx context.Context) {
	if errors.Is(context.Cause(ctx), ErrStopping) {
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), terminateTime)
	defer cancel()
	app, err := s.in.Ports.GitOps.Get(ctx, s.ref)
	if err != nil || !s.ours(app.PendingOperation) && (!s.ours(app.LastOperation) || finished(app.LastOperation)) {
		return
	}
	if err := s.in.Ports.GitOps.Terminate(ctx, s.ref); err != nil && s.in.Log != nil {
		s.in.Log.WarnContext(ctx, "operation of a cancelled sync goes on", "application", s.ref.Name, "error", err)
	}
}

func (s *appSync) ours(op *promo.Operation) bool { return op != nil && op.ID == s.in.Operation }

func finished(op *promo.Operation) bool {
	return op != nil && op.Phase != promo.OperationRunning && op.Phase != promo.OperationTerminating
}

func succeeded(op *promo.Operation) bool { return op != nil && op.Phase == promo.OperationSucceeded }

// relate compares a commit with the wanted one, by the application's path and the service's shared paths.
func (s *appSync) relate(ctx context.Context, commit string) (Relation, error) {
	if commit == "" {
		return Relation{Kind: RelationUnrelated}, nil
	}
	if commit == s.want {
		return Relation{Kind: RelationSame}, nil
	}
	if r, ok := s.relations[commit]; ok {
		return r, nil
	}
	paths := append([]string{strings.Trim(s.app.Path, "/")}, s.in.Stage.Service.Shared...)
	if paths[0] == "" || paths[0] == "." {
		paths = nil // the whole tree is the application's
	}
	repository := strings.TrimPrefix(s.in.Run.Project+"/"+s.in.Stage.Repository.Name, "/") // the server serves many projects
	r, err := s.in.Ports.Compare.Compare(ctx, repository, s.want, commit, paths)
	if promo.CodeOf(err) == promo.CodeNotFound && err != nil {
		r, err = Relation{Kind: RelationUnrelated}, nil // a commit that is in the repository no more
	}
	if err == nil {
		s.relations[commit] = r
	}
	return r, err
}

// holds reports whether the commit means the wanted content to the application.
func (r Relation) holds() bool { return r.Kind == RelationSame || r.Kind == RelationDescendantEqual }

func (s *appSync) overtaken(r Relation) error {
	return promo.Errorf(promo.CodeConflict, "application %s: overtaken by %s", s.ref.Name, firstText(r.By, "a later commit")).
		WithHint("promote the later commit, or roll back")
}

// syncedRevision is the commit that the application ended at: the wanted one or an equal descendant.
func (s *appSync) syncedRevision() string {
	if op := s.app.LastOperation; succeeded(op) && s.relations[op.Revision].holds() {
		return op.Revision
	}
	if s.app.AutoSync && s.relations[s.app.Revision].holds() {
		return s.app.Revision
	}
	return s.want
}

func (s *appSync) waitFor(format string, a ...any) (move, error) {
	s.waiting = fmt.Sprintf(format, a...)
	return moveWait, nil
}
