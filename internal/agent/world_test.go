package agent

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/gateway"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/temporal"
	"github.com/davit-cd/davit/steps"
)

// engine is a GitOps engine in memory: a sync is done as soon as it is asked for.
type engine struct {
	mu     sync.Mutex
	apps   map[string]promo.Application
	events []chan promo.Application
	syncs  []string // the operations that were started
}

func newEngine(apps ...promo.Application) *engine {
	e := &engine{apps: map[string]promo.Application{}}
	for _, a := range apps {
		e.apps[a.Name] = a
	}
	return e
}

func (e *engine) set(a promo.Application) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.apps[a.Name] = a
	for _, c := range e.events {
		c <- a
	}
}

func (e *engine) Get(_ context.Context, ref promo.ApplicationRef) (promo.Application, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	a, ok := e.apps[ref.Name]
	if !ok {
		return a, promo.Errorf(promo.CodeNotFound, "no application %q", ref.Name)
	}
	return a, nil
}

func (e *engine) Applications(context.Context) ([]promo.Application, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	var out []promo.Application
	for _, a := range e.apps {
		out = append(out, a)
	}
	return out, nil
}

func (e *engine) WatchAll(context.Context) (<-chan promo.Application, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	c := make(chan promo.Application, 1000)
	for _, a := range e.apps {
		c <- a
	}
	e.events = append(e.events, c)
	return c, nil
}

func (e *engine) Watch(ctx context.Context, _ promo.ApplicationRef) (<-chan promo.Application, error) {
	return e.WatchAll(ctx)
}

func (e *engine) StartSync(_ context.Context, _ promo.ApplicationRef, r promo.SyncRequest) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.syncs = append(e.syncs, r.ID)
	return nil
}

func (*engine) Terminate(context.Context, promo.ApplicationRef) error     { return nil }
func (*engine) Refresh(context.Context, promo.ApplicationRef, bool) error { return nil }
func (*engine) Diff(_ context.Context, _ promo.ApplicationRef, revision string) ([]promo.ResourceDiff, error) {
	return []promo.ResourceDiff{{Unified: "-" + revision}}, nil
}

func app(name, consent string) promo.Application {
	return promo.Application{
		ApplicationRef: promo.ApplicationRef{Namespace: "argocd", Name: name},
		Labels:         map[string]string{"team": "a"}, Annotations: map[string]string{ConsentAnnotation: consent},
	}
}

func call(operation, service string) plan.Call {
	return plan.Call{
		Operation: operation, Run: plan.RunInfo{Project: "shop"},
		Stage: plan.StageInfo{Service: plan.Service{Name: service}, Environment: &plan.Environment{Name: "prod"}},
	}
}

// world is a Temporal server, a worker with the test's workflow, and the server's side of agents.
type world struct {
	client   client.Client
	registry *gateway.Registry
	presence chan gateway.Change
	view     *gateway.View
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s, err := temporal.Start(t.Context(), temporal.Options{Dir: t.TempDir(), Namespace: "davit", Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := s.Dial(t.Context(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := worker.New(c, "flows", worker.Options{})
	w.RegisterWorkflowWithOptions(runStep, workflow.RegisterOptions{Name: "RunStep"})
	w.RegisterWorkflowWithOptions(diffAndRefresh, workflow.RegisterOptions{Name: "DiffAndRefresh"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	return &world{client: c, registry: gateway.NewRegistry(gateway.NewMemoryStore(), time.Now), presence: make(chan gateway.Change, 1000)}
}

// runStep runs one step on an agent as the promotion workflow does.
func runStep(ctx workflow.Context, kind string, c plan.Call) (plan.Result, error) {
	o := contract.Options(plan.ClassSync)
	o.TaskQueue, o.RetryPolicy.InitialInterval = contract.AgentTaskQueue("eu"), 50*time.Millisecond
	return contract.Step(kind, plan.ClassSync).CallWith(ctx, o, c)
}

// diffAndRefresh asks an agent about an application.
func diffAndRefresh(ctx workflow.Context, req contract.AppRequest) (contract.DiffResult, error) {
	o := contract.Options(plan.ClassNetwork)
	o.TaskQueue = contract.AgentTaskQueue("eu")
	if _, err := contract.Refresh.CallWith(ctx, o, contract.RefreshRequest{AppRequest: req}); err != nil {
		return contract.DiffResult{}, err
	}
	return contract.Diff.CallWith(ctx, o, contract.DiffRequest{AppRequest: req, Revision: "abc"})
}

func (w *world) run(t *testing.T, kind string, c plan.Call) client.WorkflowRun {
	t.Helper()
	run, err := w.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: c.Operation, TaskQueue: "flows"}, "RunStep", kind, c)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// serve runs a gateway with a new view on address ("" for any) until stop.
func (w *world) serve(t *testing.T, address string) (at string, stop func()) {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	w.view = gateway.NewView(time.Now, func(c gateway.Change) { w.presence <- c })
	g, err := gateway.New(gateway.Options{
		Upstream: w.client.WorkflowService(), Namespace: "davit", Key: []byte(strings.Repeat("k", 32)),
		Agents: w.registry, Fleet: w.view, Comparer: comparer{}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	go func() { _ = g.Serve(l) }() // ends with Stop
	stop = sync.OnceFunc(g.Stop)
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

type comparer struct{}

// until waits for a change of the fleet that satisfies ok.
func (w *world) until(t *testing.T, what string, ok func(gateway.Change) bool) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		select {
		case c := <-w.presence:
			if ok(c) {
				return
			}
		case <-limit:
			t.Fatalf("%s: nothing for 20 s", what)
		}
	}
}

func connected(yes bool) func(gateway.Change) bool {
	return func(c gateway.Change) bool { return c.Presence != nil && c.Presence.Connected == yes }
}

func reported(c gateway.Change) bool { return c.Presence == nil }

// stepsOf are a step that syncs, one that this agent doesn't offer, and one that hangs until told.
func stepTypes(started chan<- struct{}, release <-chan struct{}) []steps.Type {
	syncRun := func(ctx context.Context, in steps.In) (steps.Out, error) {
		r, err := in.Ports.Compare.Compare(ctx, in.Stage.Repository.Name, "w", "g", nil)
		if err != nil {
			return steps.Out{}, err
		}
		apps, err := in.Ports.Apps.Find(ctx, "eu", map[string]string{"team": "a"})
		if err != nil {
			return steps.Out{}, err
		}
		for _, a := range apps {
			if err := in.Ports.GitOps.StartSync(ctx, a.ApplicationRef, promo.SyncRequest{ID: in.Operation}); err != nil {
				return steps.Out{}, err
			}
		}
		return steps.Out{Message: r.Kind}, nil
	}
	hang := func(ctx context.Context, _ steps.In) (steps.Out, error) {
		started <- struct{}{}
		select {
		case <-release:
			return steps.Out{Message: "released"}, nil
		case <-ctx.Done():
			return steps.Out{}, ctx.Err()
		}
	}
	return []steps.Type{
		{Kind: "Sync", Class: plan.ClassSync, Agent: true, Run: syncRun},
		{Kind: "Job", Class: plan.ClassSync, Agent: true, Run: syncRun},
		{Kind: "Hang", Class: plan.ClassSync, Agent: true, Run: hang},
		{Kind: "OnServer", Class: plan.ClassSync, Run: syncRun},
	}
}

// start runs an agent until stop; wait waits for it to end by itself. Both return what Run returned.
func start(t *testing.T, o Options) (stop, wait func() error) {
	t.Helper()
	a, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	wait = sync.OnceValue(func() error { return <-done })
	stop = func() error {
		cancel()
		return wait()
	}
	t.Cleanup(func() { _ = stop() })
	return stop, wait
}

func wantCode(t *testing.T, what string, err error, want promo.Code, text string) {
	t.Helper()
	e := contract.Unwire(err)
	if e == nil || e.Code != want || !strings.Contains(e.Error(), text) {
		t.Errorf("%s: got %v, want %s %q", what, e, want, text)
	}
}

// signalHandler tells of each log line.
type signalHandler struct {
	slog.Handler
	seen chan struct{}
}

func (h signalHandler) Enabled(context.Context, slog.Level) bool { return true }
func (h signalHandler) Handle(_ context.Context, r slog.Record) error {
	if r.Level == slog.LevelWarn {
		h.seen <- struct{}{}
	}
	return nil
}
