// Package app wires everything into one process: stores, Temporal, the local forge, the gateway, workers, sandbox
// clusters with their agents, REST and pages. It decides nothing about promotions.
//
// New opens part after part and undoes itself on an error; Run serves until the context ends; Stop is idempotent.
// Start reading at New.
package app

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/catalog"
	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/engine"
	"github.com/davit-cd/davit/internal/forge/local"
	"github.com/davit-cd/davit/internal/gateway"
	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/metrics"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/internal/store/sqlite"
	"github.com/davit-cd/davit/internal/temporal"
	"github.com/davit-cd/davit/steps"
)

// Options are what `davit up` starts with.
type Options struct {
	// Listen is the address of pages and REST, AgentListen that of the gateway.
	Listen      string
	AgentListen string
	// DataDir is where everything is kept.
	DataDir string
	// Demo loads the quickstart example and runs a first promotion.
	Demo bool
	// Users is a users file; without one the demo users are let in, on loopback only.
	Users string
	// TLSCert and TLSKey are PEM files; needed where others than this machine can reach Listen or AgentListen.
	TLSCert string
	TLSKey  string
	// URL is where people find the server, where that isn't Listen: behind a proxy, for instance.
	URL     string
	Version api.Version
	Log     *slog.Logger
}

// App is a running Davit.
type App struct {
	o     Options
	url   string // where people find the server
	self  string // where it finds itself
	tls   *certificate
	token promo.Secret
	undo  []func() // in reverse order of making

	listener  net.Listener
	agents    net.Listener
	store     *sqlite.Store
	temporal  *temporal.Server
	client    client.Client
	forge     *local.Forge
	mirrors   *git.Mirrors
	catalog   *catalog.Catalog
	lang      *spec.Language
	engine    *engine.Engine
	fleet     *fleet
	registry  *gateway.Registry
	gateway   *gateway.Gateway
	sandboxes *sandboxes
	auth      *auth.Authenticator
	authz     *auth.Authorizer
	worker    worker.Worker
	metrics   *prometheus.Registry
	counts    *metrics.Metrics
	server    *http.Server
	// endRequests ends what requests are still under way.
	endRequests context.CancelFunc
	ready       readiness

	stopOnce sync.Once
}

// New opens everything. When it returns, the server can be run; on an error nothing is left open.
func New(ctx context.Context, o Options) (a *App, err error) {
	a = &App{o: o, metrics: prometheus.NewRegistry()}
	defer func() {
		if err != nil {
			a.Stop()
			a = nil
		}
	}()
	for _, part := range []struct {
		name string
		open func(context.Context) error
	}{
		{"TLS", a.openTLS},
		{"data directory", a.openData},
		{"listeners", a.listen},
		{"store", a.openStore},
		{"workflow engine", a.openTemporal},
		{"local forge", a.openForge},
		{"engine", a.openEngine},
		{"users", a.openPeople},
		{"gateway", a.openGateway},
		{"metrics", a.openMetrics},
		{"worker", a.openWorker},
		{"sandbox clusters", a.openSandboxes},
		{"web", a.openWeb},
	} {
		if err := part.open(ctx); err != nil {
			return a, inPart(part.name, err)
		}
	}
	return a, nil
}

// inPart says which part could not be opened; the code stays.
func inPart(name string, err error) error {
	if pe, ok := errors.AsType[*promo.Error](err); ok {
		c := *pe
		c.Msg = name + ": " + pe.Msg
		return &c
	}
	return fmt.Errorf("%s: %w", name, err)
}

// onStop remembers how to undo a part.
func (a *App) onStop(f func()) { a.undo = append(a.undo, f) }

// Stop closes everything, newest first. It may be called at any time, more than once.
func (a *App) Stop() {
	a.stopOnce.Do(func() {
		for _, f := range slices.Backward(a.undo) {
			f()
		}
	})
}

func (a *App) openData(context.Context) error {
	if err := os.MkdirAll(a.o.DataDir, 0o700); err != nil {
		return promo.Errorf(promo.CodeConfiguration, "directory %q can't be made: %w", a.o.DataDir, err)
	}
	lock, err := temporal.LockDir(a.o.DataDir)
	if err != nil {
		return err
	}
	a.onStop(func() { a.logError("lock", lock.Release()) })
	return nil
}

func (a *App) logError(what string, err error) {
	if err != nil {
		a.o.Log.Error("not closed cleanly", "part", what, "error", err)
	}
}

func (a *App) listen(ctx context.Context) error {
	var lc net.ListenConfig
	var err error
	if a.listener, err = lc.Listen(ctx, "tcp", a.o.Listen); err != nil {
		return promo.Errorf(promo.CodeConfiguration, "address %s can't be listened on: %w", a.o.Listen, err).
			WithHint("another program has the port: choose one with --listen, such as --listen 127.0.0.1:0")
	}
	a.onStop(func() { _ = a.listener.Close() })
	if a.agents, err = lc.Listen(ctx, "tcp", a.o.AgentListen); err != nil {
		return promo.Errorf(promo.CodeConfiguration, "address %s can't be listened on: %w", a.o.AgentListen, err).
			WithHint("choose another with --agent-listen")
	}
	a.onStop(func() { _ = a.agents.Close() })
	return a.addresses()
}

func (a *App) openStore(ctx context.Context) error {
	var err error
	a.store, err = sqlite.Open(ctx, sqlite.Options{Path: a.path("davit.db"), Now: time.Now, Log: a.o.Log})
	if err != nil {
		return err
	}
	a.onStop(func() { a.logError("store", a.store.Close()) })
	return nil
}

func (a *App) path(elem ...string) string {
	return filepath.Join(append([]string{a.o.DataDir}, elem...)...)
}

func (a *App) openTemporal(ctx context.Context) error {
	var err error
	a.temporal, err = temporal.Start(ctx, temporal.Options{
		Dir: a.path("temporal"), Namespace: contract.Namespace, SearchAttributes: searchAttributes(), Logger: a.o.Log, LogLevel: slog.LevelError,
	})
	if err != nil {
		return err
	}
	a.onStop(func() { a.logError("workflow engine", a.temporal.Stop()) })
	a.client, err = a.temporal.Dial(ctx, client.Options{
		Logger: sdklog.NewStructuredLogger(quiet(a.o.Log)), MetricsHandler: temporal.NewMetricsHandler(a.metrics),
	})
	if err != nil {
		return err
	}
	a.onStop(a.client.Close)
	return nil
}

// forgeUser is how Davit itself signs in to the local forge.
const forgeUser = "davit"

func (a *App) openForge(ctx context.Context) error {
	key, err := a.store.ServerKey(ctx, "forge")
	if err != nil {
		return err
	}
	own := promo.Secret(fmt.Sprintf("%x", key))
	a.forge, err = local.New(ctx, local.Options{
		Dir: a.path("forge"), Store: a.store, URL: a.url, Authenticate: a.forgeAccess(own), Now: time.Now, Log: a.o.Log,
	})
	if err != nil {
		return err
	}
	a.onStop(a.forge.Stop)
	a.mirrors, err = git.NewMirrors(a.path("mirrors"), git.Options{Logger: a.o.Log, HTTP: a.gitClient()})
	if err != nil {
		return err
	}
	a.onStop(func() { a.logError("mirrors", a.mirrors.Close()) })
	a.lang = spec.New(steps.Builtin())
	a.catalog = catalog.New(a.store, a.lang)
	a.engine = a.newEngine(git.Auth{Username: forgeUser, Password: own})
	return nil
}
