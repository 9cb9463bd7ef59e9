package agent

import (
	"context"
	"errors"
	"slices"
	"strings"

	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/davit-cd/davit/activities"
	"github.com/davit-cd/davit/internal/gateway"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
)

// work is the activity worker. It starts with the first connection and lives as long as the agent: Temporal's
// client reconnects by itself.
type work struct {
	a      *Agent
	ctx    context.Context //nolint:containedctx // the activities' root, ended by stop with ErrStopping
	cancel context.CancelCauseFunc
	client client.Client
	worker worker.Worker
}

func newWork(ctx context.Context, a *Agent) *work {
	w := &work{a: a}
	w.ctx, w.cancel = context.WithCancelCause(context.WithoutCancel(ctx))
	return w
}

// start runs the worker, once.
func (w *work) start(welcome gateway.Welcome) error {
	if w.worker != nil {
		return nil
	}
	o := client.Options{
		HostPort: w.a.o.Server, Namespace: welcome.Namespace, Identity: "agent:" + w.a.o.Name,
		Logger: sdklog.NewStructuredLogger(w.a.o.Logger), MetricsHandler: w.a.o.Metrics,
		ConnectionOptions: client.ConnectionOptions{TLS: w.a.o.TLS, TLSDisabled: w.a.o.TLS == nil},
		Credentials: client.NewAPIKeyDynamicCredentials(func(context.Context) (string, error) {
			return w.a.keys.secret().Reveal(), nil
		}),
	}
	c, err := client.NewLazyClient(o)
	if err != nil {
		return promo.Errorf(promo.CodeConfiguration, "client of the agent's worker: %w", err)
	}
	wk := worker.New(c, welcome.TaskQueue, worker.Options{
		DisableWorkflowWorker: true, WorkerStopTimeout: stopLimit, BackgroundActivityContext: w.ctx,
		MaxConcurrentActivityTaskPollers: 2, // one waits while the other hands over
	})
	w.register(wk)
	if err := wk.Start(); err != nil {
		c.Close()
		return promo.Errorf(promo.CodeConnectivity, "start the agent's worker: %w", err)
	}
	w.client, w.worker = c, wk
	return nil
}

// stop ends the work under way so that another start of the agent goes on with it.
func (w *work) stop() {
	w.cancel(steps.ErrStopping)
	if w.worker != nil {
		w.worker.Stop()
		w.client.Close()
	}
}

func (w *work) register(r worker.Worker) {
	w.a.registerApplications(r)
	for _, t := range w.a.o.Types {
		if t.Agent && t.Run != nil {
			activities.RegisterStep(r, w.a.offered(t), w.a.ports, w.a.o.Logger)
		}
	}
}

// Capability is the name in an agent's configuration for a step type: "sync" for Sync, "updateApp" for UpdateApp.
func Capability(kind string) string {
	if kind == "" {
		return ""
	}
	return strings.ToLower(kind[:1]) + kind[1:]
}

func (a *Agent) ports(string) steps.Ports {
	return steps.Ports{
		GitOps: a.o.Engine, Compare: a.link, Apps: found{name: a.o.Name, engine: a.o.Engine},
	}
}

// offered is the step type as this agent runs it: refused where its capability isn't offered, with the engine
// guarded by consent, and tried again elsewhere when the agent stops.
func (a *Agent) offered(t steps.Type) steps.Type {
	run := t.Run
	t.Run = func(ctx context.Context, in steps.In) (steps.Out, error) {
		if !slices.Contains(a.o.Capabilities, Capability(t.Kind)) {
			return steps.Out{}, promo.Errorf(promo.CodeAuthorization, "agent %q does not offer %q", a.o.Name, Capability(t.Kind)).
				WithHint("add it to the agent's own configuration")
		}
		in.Ports.GitOps = guarded{Engine: a.o.Engine, guard: a.guard, call: in.Call}
		out, err := run(ctx, in)
		if err != nil && errors.Is(context.Cause(ctx), steps.ErrStopping) {
			err = promo.Errorf(promo.CodeConnectivity, "agent %q is stopping", a.o.Name)
		}
		return out, err
	}
	return t
}
