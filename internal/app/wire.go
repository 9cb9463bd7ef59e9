package app

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/activities"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/engine"
	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/gateway"
	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/knowngood"
	"github.com/davit-cd/davit/internal/outbound"
	"github.com/davit-cd/davit/internal/policy"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/repos"
	"github.com/davit-cd/davit/internal/spec/expression"
	"github.com/davit-cd/davit/internal/temporal"
	"github.com/davit-cd/davit/internal/web"
	"github.com/davit-cd/davit/steps"
	"github.com/davit-cd/davit/workflows"
)

func searchAttributes() temporal.SearchAttributes {
	out := temporal.SearchAttributes{}
	for _, name := range []string{
		contract.AttrProject.GetName(), contract.AttrPipeline.GetName(), contract.AttrService.GetName(), contract.AttrEnvironment.GetName(),
	} {
		out[name] = enums.INDEXED_VALUE_TYPE_KEYWORD
	}
	return out
}

func (a *App) newEngine(own git.Auth) *engine.Engine {
	r := &repos.Repos{
		Definitions: a.catalog, Mirrors: a.mirrors,
		Local: repos.Local{Forge: a.forge, URL: a.self + "/git", Auth: own},
	}
	e := &engine.Engine{
		Temporal: a.client, Store: a.store, Catalog: a.catalog, Lang: a.lang, Repos: r, Types: steps.Builtin(),
		Hosts: a.forge, URL: a.url, Log: a.o.Log, Now: time.Now,
	}
	return e
}

func (a *App) openEngine(context.Context) error {
	e := a.engine
	a.registry = gateway.NewRegistry(a.store, time.Now)
	a.fleet = &fleet{agents: a.store}
	a.fleet.view = gateway.NewView(time.Now, a.fleetChanged)
	e.Fleet = a.fleet
	e.KnownGood = &knowngood.Keeper{Repos: e.Repos, History: a.store, Fleet: a.fleet, Forge: e.Repos, Log: a.o.Log}
	e.Policy = policy.NewEngine(decisions{a.store}, time.Now, a.o.Log)
	return nil
}

// fleetChanged wakes the runs that wait for an agent. It is called from the gateway and must be quick.
func (a *App) fleetChanged(c gateway.Change) {
	if c.Presence == nil {
		return
	}
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ready.context()), wakeTime)
		defer cancel()
		a.engine.Wake(ctx, promo.EventAgent(c.Agent))
	}()
}

// wakeTime bounds the telling of one event; a run that was not told looks by itself.
const wakeTime = 10 * time.Second

// forgeEvent wakes the runs that wait for a pull request, and tells sandbox clusters of pushes as a webhook would.
func (a *App) forgeEvent(ev forge.Event) {
	go func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ready.context()), wakeTime)
		defer cancel()
		if ev.Type == forge.EventPush || ev.Type == forge.EventMerged {
			a.sandboxes.notify(ev.Repository)
		}
		if ev.Number != 0 {
			a.engine.Wake(ctx, promo.EventPullRequest(ev.Repository, ev.Number))
		}
	}()
}

func (a *App) openGateway(ctx context.Context) error {
	key, err := a.store.ServerKey(ctx, "gateway")
	if err != nil {
		return err
	}
	a.gateway, err = gateway.New(gateway.Options{
		Upstream: a.client.WorkflowService(), Namespace: contract.Namespace, Key: key,
		Agents: a.registry, Fleet: a.fleet.view, Comparer: comparer{a.engine.Repos}, Logger: a.o.Log, TLS: a.agentTLS(),
	})
	return err
}

// outboundClient is how pipelines reach the world, and this server's sandbox metrics.
func (a *App) outboundClient() (*http.Client, error) {
	client, err := outbound.New(outbound.Options{Allow: []string{strings.TrimPrefix(strings.TrimPrefix(a.self, "http://"), "https://")}})
	if err != nil {
		return nil, err
	}
	if t, ok := client.Transport.(*http.Transport); ok && a.tls != nil {
		t.TLSClientConfig = &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: a.tls.trust}
	}
	return client, nil
}

func (a *App) openWorker(context.Context) error {
	client, err := a.outboundClient()
	if err != nil {
		return err
	}
	connectors := &connectors{catalog: a.catalog, client: client}
	a.worker = worker.New(a.client, contract.TaskQueue, worker.Options{
		// Two cores run a few activities at a time; the rest of the slots wait on the network.
		MaxConcurrentActivityExecutionSize: 200, MaxConcurrentActivityTaskPollers: 4, MaxConcurrentWorkflowTaskPollers: 4,
		WorkerStopTimeout: 5 * time.Second,
	})
	a.worker.RegisterWorkflowWithOptions(workflows.Promotion, workflow.RegisterOptions{Name: contract.PromotionWorkflow})
	a.worker.RegisterWorkflowWithOptions(workflows.Lane, workflow.RegisterOptions{Name: contract.LaneWorkflow})
	a.worker.RegisterWorkflowWithOptions(workflows.Rollback, workflow.RegisterOptions{Name: contract.RollbackWorkflow})
	(&activities.Server{
		Recorder: recorder{a.store, a.counts}, Holds: a.store, Changes: a.engine.Repos, Fleet: a.fleet, KnownGood: a.engine.KnownGood,
		Runs: a.engine, Policy: a.engine, Types: steps.Builtin(), Log: a.o.Log,
		Ports: func(project string) steps.Ports {
			return steps.Ports{
				Git: meteredGit{a.engine.Repos.Git(project), a.counts}, Forge: a.engine.Repos.Forge(project), Apps: a.fleet.view, Policy: a.engine,
				Metrics: connectors.of(project), HTTP: client, Blobs: blobs{a.store}, Eval: expression.Bool, Secret: secret,
			}
		},
	}).Register(a.worker)
	return nil
}

func (a *App) openSandboxes(ctx context.Context) error {
	var err error
	a.sandboxes, err = newSandboxes(ctx, a)
	if err != nil {
		return err
	}
	a.onStop(a.sandboxes.stop)
	a.forge.Events(a.forgeEvent)
	return nil
}

func (a *App) openWeb(ctx context.Context) error {
	o := web.Options{
		Auth: a.auth, Authz: a.authz, Sessions: a.auth, Ready: a.ready.check, Version: a.o.Version, Log: a.o.Log, Now: time.Now,
		Metrics: promhttp.HandlerFor(a.metrics, promhttp.HandlerOpts{}), Schema: a.lang.Schema(),
		Services: web.Services{
			Promotions: engine.Promotions{Engine: a.engine}, Runs: engine.Runs{Engine: a.engine}, Definitions: engine.Definitions{Engine: a.engine},
			Environments: engine.Environments{Engine: a.engine}, Rollbacks: engine.Rollbacks{Engine: a.engine},
			Fleet: engine.Applications{Engine: a.engine}, PullRequests: engine.PullRequests{Forge: a.forge},
			Agents: engine.Agents{Engine: a.engine, Registry: a.registry, Gateway: a.sandboxServer()}, Tokens: engine.Tokens{Engine: a.engine, Tokens: a.store},
			Records: engine.Records{Engine: a.engine}, Changes: a.store,
			Sandbox: sandboxService{a.sandboxes}, SandboxApps: sandboxService{a.sandboxes},
		},
	}
	if a.auth.Demo() {
		o.Demo, o.Hosts = a.auth, auth.DemoHosts()
		o.DemoUsers = []string{auth.DemoDeveloper, auth.DemoReleaseManager, auth.DemoAdmin}
	}
	o.Services.Repositories, o.Services.SandboxLinks = engine.Repositories{Engine: a.engine, Forge: a.forge}, a.sandboxes
	pages, err := web.New(o)
	if err != nil {
		return err
	}
	mux := http.NewServeMux()
	mux.Handle("/", pages)
	mux.Handle("/git/", auth.Guard(o.Hosts, a.forge.Handler())) // a foreign page must not read repositories through a browser
	mux.Handle("/sandbox/prometheus/", http.StripPrefix("/sandbox/prometheus", a.sandboxes.prometheus()))
	requests, end := context.WithCancel(context.WithoutCancel(ctx))
	a.endRequests = end
	a.onStop(end)
	a.server = &http.Server{
		Handler: mux, ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, // slow clients must not hold connections
		BaseContext: func(net.Listener) context.Context { return requests },
	}
	return nil
}

// Run serves until ctx ends or a part fails. ready is called once everything answers.
func (a *App) Run(ctx context.Context, ready func(Info) error) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	a.ready.begin(ctx)
	failed := make(chan error, 4)
	serve := func(what string, f func() error) {
		go func() {
			if err := f(); err != nil && ctx.Err() == nil {
				failed <- inPart(what, err)
			}
		}()
	}
	serve("web", func() error {
		err := a.serveWeb()
		if errors.Is(err, http.ErrServerClosed) {
			return nil
		}
		return err
	})
	serve("gateway", func() error { return a.gateway.Serve(a.agents) })
	if err := a.worker.Start(); err != nil {
		return inPart("worker", promo.Errorf(promo.CodeInternal, "%w", err))
	}
	defer a.shutdown() //nolint:contextcheck // it runs when ctx has ended
	if err := a.sandboxes.start(ctx); err != nil {
		return inPart("sandbox clusters", err)
	}
	if err := a.engine.Resume(ctx); err != nil {
		return inPart("engine", err)
	}
	a.ready.set()
	go a.maintain(ctx)
	if a.o.Demo {
		serve("demo", func() error { return a.demo(ctx) })
	}
	if err := ready(a.info()); err != nil {
		return err
	}
	select {
	case <-ctx.Done():
		return nil
	case err := <-failed:
		return err
	case <-a.temporal.Failed():
		return inPart("workflow engine", a.temporal.Err())
	}
}

func (a *App) serveWeb() error {
	if a.tls == nil {
		return a.server.Serve(a.listener)
	}
	a.server.TLSConfig = a.tls.config
	return a.server.ServeTLS(a.listener, "", "") // the configuration has the certificate
}

// grace is how long requests may go on at a shutdown. Streams have no end of their own: they are ended then.
const grace = 500 * time.Millisecond

// maintenance is how often the local forge packs what pushes left loose.
const maintenance = time.Hour

// maintain keeps the local forge's repositories in shape until ctx ends.
func (a *App) maintain(ctx context.Context) {
	tick := time.NewTicker(maintenance)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		if err := a.forge.Maintain(ctx); err != nil && ctx.Err() == nil {
			a.o.Log.WarnContext(ctx, "repositories not packed; they work on, slower", "error", err)
		}
	}
}

// shutdown stops what serves, in the order in which each still needs the next.
func (a *App) shutdown() {
	a.ready.unset()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ready.context()), 5*time.Second)
	defer cancel()
	a.sandboxes.stop()
	a.worker.Stop()
	a.gateway.Stop()
	defer time.AfterFunc(grace, a.endRequests).Stop()
	if err := a.server.Shutdown(ctx); err != nil {
		a.logError("web", a.server.Close())
	}
}
