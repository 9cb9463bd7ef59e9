package steps_test

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
	"github.com/davit-cd/davit/steps/stepstest"
)

// The commits of these tests, by hand, for time in them is virtual and must not wait for a network.
const (
	wanted  = "1111111111111111111111111111111111111111"
	before  = "0000000000000000000000000000000000000000"
	equal   = "2222222222222222222222222222222222222222"
	differs = "3333333333333333333333333333333333333333"
	strange = "4444444444444444444444444444444444444444"
)

type compared map[string]steps.Relation

func (c compared) Compare(_ context.Context, _, _, got string, _ []string) (steps.Relation, error) {
	r, ok := c[got]
	if !ok {
		return r, promo.Errorf(promo.CodeNotFound, "no commit %s", got)
	}
	return r, nil
}

// syncIn is a Sync of one application that is at the commit before.
func syncIn(e *stepstest.Engine, spec string) steps.In {
	w := stepstest.World{Ports: steps.Ports{GitOps: e, Apps: e, Compare: compared{
		before:  {Kind: steps.RelationAncestor},
		equal:   {Kind: steps.RelationDescendantEqual},
		differs: {Kind: steps.RelationOvertaken, By: differs},
		strange: {Kind: steps.RelationUnrelated},
	}}}
	in := w.In("sync", spec)
	in.Change.Merged = wanted
	return in
}

func auto(rev string) promo.Application {
	a := stepstest.App("checkout-dev", rev)
	a.AutoSync = true
	return a
}

// phase plays an operation up to an end, without what follows it.
func phase(p promo.OperationPhase, message string) func(*stepstest.Engine, *promo.Application, promo.SyncRequest, func()) {
	return func(e *stepstest.Engine, a *promo.Application, r promo.SyncRequest, emit func()) {
		a.LastOperation = &promo.Operation{ID: r.ID, Phase: p, Message: message, Revision: r.Revision, StartedAt: e.Tick()}
		if p != promo.OperationRunning {
			a.LastOperation.FinishedAt = e.Tick()
		}
		emit()
	}
}

// then plays an operation that succeeds and leaves the application compared, at a revision and health.
func then(rev string, h promo.Health, more ...func(*promo.Application)) func(*stepstest.Engine, *promo.Application, promo.SyncRequest, func()) {
	return func(e *stepstest.Engine, a *promo.Application, r promo.SyncRequest, emit func()) {
		phase(promo.OperationSucceeded, "")(e, a, r, emit)
		a.Revision, a.Health, a.ReconciledAt = rev, h, e.Tick()
		for _, m := range more {
			m(a)
		}
		emit()
	}
}

func TestSync(t *testing.T) {
	t.Parallel()
	extra := func(a *promo.Application) {
		a.Sync = promo.SyncOutOfSync
		a.Resources = []promo.Resource{{Kind: "Service", Name: "old", Sync: promo.SyncOutOfSync, RequiresPruning: true}}
	}
	other := func(p promo.OperationPhase, rev string) promo.Application {
		a := stepstest.App("checkout-dev", before)
		a.LastOperation = &promo.Operation{ID: "", Phase: p, Revision: rev, InitiatedBy: "erin", StartedAt: stepstest.Now.Add(-time.Minute)}
		if p != promo.OperationRunning {
			a.LastOperation.FinishedAt = stepstest.Now.Add(-30 * time.Second)
			a.ReconciledAt = stepstest.Now
			a.Revision = rev
		}
		return a
	}
	cases := map[string]struct {
		reason string
		app    promo.Application
		spec   string
		play   func(*stepstest.Engine, *promo.Application, promo.SyncRequest, func())
		events []func(*promo.Application) // a second apart, each
		// refresh is what a refresh brings to light
		refresh func(*promo.Application)
		code    promo.Code
		says    string
		starts  int
		lasts   time.Duration // at least
	}{
		"Traps":           {reason: "every lie of the event stream", app: stepstest.App("checkout-dev", before), starts: 1},
		"Fails":           {reason: "the operation failed", app: stepstest.App("checkout-dev", before), play: phase(promo.OperationFailed, "bad manifest"), code: promo.CodeSync, says: "bad manifest", starts: 1},
		"Errors":          {reason: "the operation errored", app: stepstest.App("checkout-dev", before), play: phase(promo.OperationError, ""), code: promo.CodeSync, says: "Error", starts: 1},
		"TargetElsewhere": {reason: "OutOfSync for ever, for targetRevision is another commit", app: stepstest.App("checkout-dev", before), play: then(before, promo.HealthHealthy, func(a *promo.Application) { a.Sync = promo.SyncOutOfSync }), starts: 1},
		"TargetUnknown":   {reason: "targetRevision is a commit that the mirror doesn't have", app: stepstest.App("checkout-dev", "5555"), starts: 1},
		"BranchGoesOn":    {reason: "others pushed meanwhile; the operation still synced what was wanted", app: stepstest.App("checkout-dev", before), play: then(differs, promo.HealthHealthy), starts: 1},
		"Degraded":        {reason: "Degraded for longer than degradedAfter", app: stepstest.App("checkout-dev", before), spec: `{"degradedAfter":"90s"}`, play: then(wanted, promo.HealthDegraded, func(a *promo.Application) { a.HealthMessage = "Deployment web crashes" }), code: promo.CodeHealth, says: "web crashes", starts: 1, lasts: 90 * time.Second},
		"Recovers": {
			reason: "Degraded only for a while", app: stepstest.App("checkout-dev", before), spec: `{"degradedAfter":"90s"}`, play: then(wanted, promo.HealthDegraded), starts: 1,
			events: []func(*promo.Application){func(a *promo.Application) { a.Health = promo.HealthProgressing }, func(a *promo.Application) { a.Health = promo.HealthHealthy }}, lasts: 2 * time.Second,
		},
		"StaleHealth":   {reason: "healthy of before, then the bad release shows", app: stepstest.App("checkout-dev", before), play: then(wanted, promo.HealthDegraded), code: promo.CodeHealth, says: "Degraded", starts: 1, lasts: 2 * time.Minute},
		"StaleRevision": {reason: "a cached comparison names the commit before and is healthy; the next one isn't", app: stepstest.App("checkout-dev", before), play: then(before, promo.HealthHealthy), refresh: func(a *promo.Application) { a.Revision, a.Health = wanted, promo.HealthDegraded }, code: promo.CodeHealth, says: "Degraded", starts: 1, lasts: 2 * time.Minute},
		"OldOperation":  {reason: "an operation of before at the same commit doesn't count as ours", app: other(promo.OperationSucceeded, wanted), play: phase(promo.OperationFailed, "immutable field"), code: promo.CodeSync, says: "immutable field", starts: 1},
		"NeverHealthy":  {reason: "the step's time is over", app: stepstest.App("checkout-dev", before), play: then(wanted, promo.HealthProgressing), code: promo.CodeTimeout, says: "Progressing", starts: 1, lasts: 9 * time.Minute},
		"NeverStarts":   {reason: "an engine that never picks the operation up", app: stepstest.App("checkout-dev", before), play: func(*stepstest.Engine, *promo.Application, promo.SyncRequest, func()) {}, code: promo.CodeTimeout, says: "its operation", starts: 20, lasts: 9 * time.Minute},
		"NoWait":        {reason: "waitHealthy: false", app: stepstest.App("checkout-dev", before), spec: `{"waitHealthy":false}`, play: then(wanted, promo.HealthDegraded), starts: 1},
		"DryRun":        {reason: "a dry run changes nothing and waits for no health", app: stepstest.App("checkout-dev", before), spec: `{"dryRun":true}`, play: phase(promo.OperationSucceeded, ""), starts: 1},
		"Prune":         {reason: "objects that only need pruning end it at once", app: stepstest.App("checkout-dev", before), play: then(wanted, promo.HealthHealthy, extra), code: promo.CodeSync, says: "Service old", starts: 1},
		"PruneAllowed":  {reason: "with prune: true the engine deletes them", app: stepstest.App("checkout-dev", before), spec: `{"prune":true}`, play: then(wanted, promo.HealthHealthy, extra), starts: 1},
		"PruneOther":    {reason: "objects that the step isn't about", app: stepstest.App("checkout-dev", before), spec: `{"resources":[{"group":"apps","kind":"Deployment","name":"web"}]}`, play: then(wanted, promo.HealthHealthy, extra), starts: 1},
		"OthersRunning": {reason: "an operation of others first, then ours", app: other(promo.OperationRunning, before), starts: 1, events: []func(*promo.Application){func(a *promo.Application) { a.LastOperation.Phase = promo.OperationFailed }}, lasts: time.Second},
		"OthersPending": {reason: "an operation of others that isn't picked up yet", app: func() promo.Application {
			a := stepstest.App("checkout-dev", before)
			a.PendingOperation = &promo.Operation{InitiatedBy: "erin", Revision: before}
			return a
		}(), starts: 1, events: []func(*promo.Application){func(a *promo.Application) { a.PendingOperation = nil }}, lasts: time.Second},
		"OthersEqual": {reason: "others have synced an equal descendant", app: other(promo.OperationSucceeded, equal), starts: 0},
		"Overtaken":   {reason: "others have synced a later change", app: other(promo.OperationSucceeded, differs), code: promo.CodeConflict, says: "overtaken by " + differs},
		"Auto": {
			reason: "auto-sync: look at Git again and wait", app: auto(before),
			events: []func(*promo.Application){
				func(a *promo.Application) {
					a.Revision, a.Sync, a.ReconciledAt = wanted, promo.SyncOutOfSync, stepstest.Now
				},
				func(a *promo.Application) {
					a.LastOperation = &promo.Operation{Phase: promo.OperationRunning, Revision: wanted, StartedAt: stepstest.Now}
				},
				func(a *promo.Application) {
					a.LastOperation.Phase, a.LastOperation.FinishedAt, a.Sync = promo.OperationSucceeded, stepstest.Now.Add(time.Hour), promo.SyncSynced
				},
				func(a *promo.Application) { a.ReconciledAt = stepstest.Now.Add(2 * time.Hour) },
			}, lasts: 3 * time.Second,
		},
		"AutoNothing":   {reason: "auto-sync: nothing was to sync at the commit", app: func() promo.Application { a := auto(wanted); a.LastOperation = nil; return a }()},
		"AutoEqual":     {reason: "auto-sync: an equal descendant", app: auto(equal)},
		"AutoOvertaken": {reason: "auto-sync: a later change", app: auto(differs), code: promo.CodeConflict, says: "overtaken"},
		"AutoElsewhere": {reason: "auto-sync of another branch", app: auto(strange), code: promo.CodeTimeout, says: "of main", lasts: 9 * time.Minute},
		"AutoFailed": {reason: "auto-sync: its operation failed", app: auto(before), events: []func(*promo.Application){func(a *promo.Application) {
			a.Revision, a.Sync = wanted, promo.SyncOutOfSync
			a.LastOperation = &promo.Operation{Phase: promo.OperationFailed, Revision: wanted, Message: "bad manifest"}
		}}, code: promo.CodeSync, says: "bad manifest", lasts: time.Second},
		"AutoPrune": {reason: "auto-sync that does not prune", app: auto(before), events: []func(*promo.Application){func(a *promo.Application) {
			a.Revision = wanted
			extra(a)
		}}, code: promo.CodeSync, says: "does not prune", lasts: time.Second},
		"Unknown": {reason: "no application has the labels", app: promo.Application{ApplicationRef: promo.ApplicationRef{Name: "other"}}, code: promo.CodeNotFound, says: "davit.dev/target=dev-1"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := stepstest.NewEngine()
				if tc.play != nil {
					e.Play = tc.play
				}
				e.OnRefresh = tc.refresh
				e.Add(tc.app)
				go func() {
					for _, change := range tc.events {
						<-time.After(time.Second)
						e.Update("checkout-dev", change)
					}
				}()
				began := time.Now()
				out, err := steps.Sync().Run(t.Context(), syncIn(e, tc.spec))
				switch {
				case tc.code.IsVerdict() && err == nil && out.Verdict != nil:
					failsWith(t, tc.reason, out.Verdict, tc.code, tc.says)
				case tc.code != "":
					failsWith(t, tc.reason, err, tc.code, tc.says)
				case err != nil || out.Verdict != nil:
					t.Errorf("%s: %v %v", tc.reason, err, out.Verdict)
				}
				if e.Starts != tc.starts && (name != "NeverStarts" || e.Starts <= 1 || e.Starts > tc.starts) {
					t.Errorf("%s: %d operations were started, want %d", tc.reason, e.Starts, tc.starts)
				}
				if took := time.Since(began); took < tc.lasts || tc.lasts == 0 && took > 5*time.Second {
					t.Errorf("%s: took %s, want %s", tc.reason, took, tc.lasts)
				}
			})
		})
	}
}

func TestSyncCancelled(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		cause      error
		terminated int
	}{"Abort": {context.Canceled, 1}, "AgentStops": {steps.ErrStopping, 0}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			synctest.Test(t, func(t *testing.T) {
				e := stepstest.NewEngine()
				e.Play = phase(promo.OperationRunning, "")
				e.Add(stepstest.App("checkout-dev", before))
				ctx, cancel := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Minute, func() { cancel(tc.cause) })
				beats := 0
				in := syncIn(e, `{}`)
				in.Ports.Heartbeat = func() { beats++ }
				_, err := steps.Sync().Run(ctx, in)
				if !errors.Is(err, context.Canceled) || e.Terminated != tc.terminated || e.Starts != 1 {
					t.Errorf("%v, terminated %d, started %d", err, e.Terminated, e.Starts)
				}
				if beats < 10 {
					t.Errorf("%d heartbeats in a minute", beats)
				}
				// Another agent takes the work over and only watches.
				if tc.terminated == 0 {
					time.AfterFunc(time.Second, func() {
						e.Update("checkout-dev", func(a *promo.Application) {
							a.LastOperation.Phase, a.LastOperation.FinishedAt = promo.OperationSucceeded, e.Tick()
							a.Revision, a.ReconciledAt = wanted, e.Tick()
						})
					})
					if _, err := steps.Sync().Run(t.Context(), in); err != nil || e.Starts != 1 {
						t.Errorf("taken over: %v, started %d", err, e.Starts)
					}
				}
			})
		})
	}
}

func TestSyncSeveral(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		e := stepstest.NewEngine()
		for _, name := range []string{"b", "a", "c"} {
			e.Add(stepstest.App(name, before))
		}
		e.Play = func(e *stepstest.Engine, a *promo.Application, r promo.SyncRequest, emit func()) {
			if a.Name == "b" {
				phase(promo.OperationFailed, "no")(e, a, r, emit)
				return
			}
			stepstest.Succeed(e, a, r, emit)
		}
		in := syncIn(e, `{}`)
		_, err := steps.Sync().Run(t.Context(), in)
		failsWith(t, "one of several fails", err, promo.CodeSync, "application b")
		for _, name := range []string{"a", "c"} {
			app, err := e.Get(t.Context(), promo.ApplicationRef{Name: name})
			if err != nil || app.LastOperation.Phase != promo.OperationSucceeded {
				t.Errorf("%s was not synced to its end: %+v", name, app.LastOperation)
			}
		}
		e.Play = stepstest.Succeed
		in.Operation += "-2"
		out, err := steps.Sync().Run(t.Context(), in)
		if err != nil || !strings.Contains(out.Message, "3 applications") || !strings.Contains(string(out.Outputs), `"revision":"`+wanted) {
			t.Errorf("%v %s %s", err, out.Message, out.Outputs)
		}
	})
}

func TestSyncSpec(t *testing.T) {
	t.Parallel()
	typ := steps.Sync()
	bad := typ.Check(&steps.SyncSpec{Revision: "main", Replace: true, ServerSideApply: true})
	if !slices.ContainsFunc(bad, func(p steps.Problem) bool { return p.Path == "revision" }) || len(bad) != 2 {
		t.Errorf("%+v", bad)
	}
	if !typ.Mutates([]byte(`{}`)) || typ.Mutates([]byte(`{"dryRun":true}`)) {
		t.Error("a dry run changes nothing, everything else does")
	}
	in := syncIn(stepstest.NewEngine(), `{}`)
	in.Change.Merged = ""
	_, err := typ.Run(t.Context(), in)
	failsWith(t, "nothing merged", err, promo.CodeConfiguration, "no commit to sync to")
}
