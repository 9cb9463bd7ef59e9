package stepstest

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
)

// Engine is a GitOps engine whose event stream lies as Argo CD's does: after a sync is asked for, the last
// operation still is the one before; after it has succeeded, revision and health still are those from before; and
// the sync status compares with the target revision, which may be another commit.
type Engine struct {
	mu    sync.Mutex
	apps  map[string]*promo.Application
	watch map[string][]chan promo.Application
	clock time.Time
	// Starts counts operations that were really started, Terminated those that were ended, Refreshes what was asked.
	Starts, Terminated, Refreshes int
	// Play is the story of an operation: it calls emit for each state. Default: a sync that succeeds.
	Play func(e *Engine, app *promo.Application, req promo.SyncRequest, emit func())
	// OnRefresh changes the application when a refresh is asked for; default: it is compared again.
	OnRefresh func(app *promo.Application)
}

// NewEngine makes an engine without applications.
func NewEngine() *Engine {
	return &Engine{apps: map[string]*promo.Application{}, watch: map[string][]chan promo.Application{}, clock: Now, Play: Succeed}
}

// Add adds or replaces an application.
func (e *Engine) Add(app promo.Application) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.apps[app.Name] = &app
	e.emit(&app)
}

// Update changes an application and tells the watchers.
func (e *Engine) Update(name string, change func(*promo.Application)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	change(e.apps[name])
	e.emit(e.apps[name])
}

// Tick returns the engine's next second.
func (e *Engine) Tick() time.Time {
	e.clock = e.clock.Add(time.Second)
	return e.clock
}

func (e *Engine) emit(app *promo.Application) {
	for _, ch := range e.watch[app.Name] {
		ch <- copyOf(app)
	}
}

func copyOf(app *promo.Application) promo.Application {
	c := *app
	if app.LastOperation != nil {
		op := *app.LastOperation
		c.LastOperation = &op
	}
	if app.PendingOperation != nil {
		op := *app.PendingOperation
		c.PendingOperation = &op
	}
	c.Resources, c.History = slices.Clone(app.Resources), slices.Clone(app.History)
	return c
}

// Succeed plays a sync that succeeds, with every lie on the way.
func Succeed(e *Engine, app *promo.Application, req promo.SyncRequest, emit func()) {
	app.PendingOperation = &promo.Operation{ID: req.ID, Revision: req.Revision, InitiatedBy: req.InitiatedBy}
	emit() // the last operation still is the one before
	app.PendingOperation = nil
	app.LastOperation = &promo.Operation{ID: req.ID, Phase: promo.OperationRunning, Revision: req.Revision, StartedAt: e.Tick(), InitiatedBy: req.InitiatedBy}
	emit()
	app.LastOperation.Phase, app.LastOperation.FinishedAt = promo.OperationSucceeded, e.Tick()
	emit() // healthy and synced at the old revision
	app.Revision, app.Sync, app.Health, app.ReconciledAt = req.Revision, promo.SyncSynced, promo.HealthProgressing, e.Tick()
	emit()
	app.Health, app.ReconciledAt = promo.HealthHealthy, e.Tick()
	emit()
}

// Get implements steps.GitOps and steps.Applications.
func (e *Engine) Get(_ context.Context, ref promo.ApplicationRef) (promo.Application, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	app, ok := e.apps[ref.Name]
	if !ok {
		return promo.Application{}, promo.Errorf(promo.CodeNotFound, "no application %q", ref.Name)
	}
	return copyOf(app), nil
}

// Find implements steps.Applications.
func (e *Engine) Find(_ context.Context, agent string, labels map[string]string) ([]promo.Application, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []promo.Application
	for _, name := range slices.Sorted(maps.Keys(e.apps)) {
		app := e.apps[name]
		match := app.Agent == agent
		for k, v := range labels {
			match = match && app.Labels[k] == v
		}
		if match {
			out = append(out, copyOf(app))
		}
	}
	return out, nil
}

// Watch implements steps.GitOps.
func (e *Engine) Watch(ctx context.Context, ref promo.ApplicationRef) (<-chan promo.Application, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	app, ok := e.apps[ref.Name]
	if !ok {
		return nil, promo.Errorf(promo.CodeNotFound, "no application %q", ref.Name)
	}
	ch := make(chan promo.Application, 100)
	ch <- copyOf(app)
	e.watch[ref.Name] = append(e.watch[ref.Name], ch)
	context.AfterFunc(ctx, func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.watch[ref.Name] = slices.DeleteFunc(e.watch[ref.Name], func(c chan promo.Application) bool { return c == ch })
	})
	return ch, nil
}

// StartSync implements steps.GitOps: an operation with the same id is not started again.
func (e *Engine) StartSync(_ context.Context, ref promo.ApplicationRef, req promo.SyncRequest) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	app := e.apps[ref.Name]
	for _, op := range []*promo.Operation{app.PendingOperation, app.LastOperation} {
		if op != nil && op.ID == req.ID {
			return nil
		}
	}
	e.Starts++
	e.Play(e, app, req, func() { e.emit(app) })
	return nil
}

// Terminate implements steps.GitOps.
func (e *Engine) Terminate(_ context.Context, ref promo.ApplicationRef) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Terminated++
	app := e.apps[ref.Name]
	app.PendingOperation = nil
	if app.LastOperation != nil && app.LastOperation.Phase == promo.OperationRunning {
		app.LastOperation.Phase, app.LastOperation.FinishedAt = promo.OperationFailed, e.Tick()
	}
	e.emit(app)
	return nil
}

// Refresh implements steps.GitOps.
func (e *Engine) Refresh(_ context.Context, ref promo.ApplicationRef, _ bool) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.Refreshes++
	app := e.apps[ref.Name]
	if e.OnRefresh != nil {
		e.OnRefresh(app)
	}
	app.ReconciledAt = e.Tick()
	e.emit(app)
	return nil
}

func (e *Engine) snapshot() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	b, err := json.Marshal(e.apps)
	return fmt.Sprintln(string(b), err, e.Starts, e.Terminated)
}

// App is an application of checkout in dev at a revision, healthy and synced, as World.In expects it.
func App(name, revision string) promo.Application {
	return promo.Application{
		ApplicationRef: promo.ApplicationRef{Agent: "sandbox", Namespace: "argocd", Name: name}, Cluster: "https://dev.example.com",
		Labels:  map[string]string{steps.LabelService: "checkout", steps.LabelEnvironment: "dev", steps.LabelTarget: "dev-1"},
		RepoURL: "https://git.example.com/acme/deploy.git", Path: "services/checkout/dev", TargetRevision: "main",
		Revision: revision, Sync: promo.SyncSynced, Health: promo.HealthHealthy, ReconciledAt: Now.Add(-time.Hour),
		LastOperation: &promo.Operation{ID: "earlier", Phase: promo.OperationSucceeded, Revision: revision, StartedAt: Now.Add(-2 * time.Hour), FinishedAt: Now.Add(-2*time.Hour + time.Second)},
		Images:        []string{"registry.example.com/acme/checkout:v1.0.0"},
	}
}
