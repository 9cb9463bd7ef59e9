package agent

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"math/rand/v2"
	"net"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
)

const (
	// The pause before the next try grows from minPause to maxPause; the jitter spreads a fleet of agents
	// that lost their server at the same moment.
	minPause = 200 * time.Millisecond
	maxPause = 15 * time.Second
	// stopLimit is what work under way gets to notice that the agent stops.
	stopLimit = 10 * time.Second
)

// Options are an agent's own configuration.
type Options struct {
	Name string
	// Server is the gateway's host and port.
	Server string
	// Token is the enrolment token; it is used once, when there is no credential that the server takes.
	Token promo.Secret
	// CredentialFile keeps the credential over restarts; "" keeps it in memory.
	CredentialFile string
	// TLS may be nil only towards a loopback address.
	TLS *tls.Config

	Engine Engine
	// Types are the step types; those that run on agents are offered, as Capabilities allow.
	Types []steps.Type
	// Capabilities that the server may use; default "sync". See Capability.
	Capabilities []string
	// Projects whose promotions may drive applications here; empty for all.
	Projects []string
	// Consent, where set, are labels that every application consents by which carries them all.
	Consent map[string]string

	Version string
	Logger  *slog.Logger
	// Metrics may be nil.
	Metrics client.MetricsHandler
	// Rotate is how often the credential is replaced; default a day.
	Rotate time.Duration
}

// Agent is one agent.
type Agent struct {
	o     Options
	keys  *keyring
	link  *link
	guard *guard
}

// New checks the options and reads the credential.
func New(o Options) (*Agent, error) {
	if o.Name == "" || o.Server == "" || o.Engine == nil || o.Logger == nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "an agent needs Name, Server, Engine and Logger")
	}
	if o.TLS == nil && !loopback(o.Server) {
		return nil, promo.Errorf(promo.CodeConfiguration, "server %q without TLS: the credential would be sent in the clear", o.Server).
			WithHint("configure TLS; plaintext is for 127.0.0.1 only")
	}
	if o.Capabilities == nil {
		o.Capabilities = []string{Capability("Sync")}
	}
	if o.Rotate == 0 {
		o.Rotate = 24 * time.Hour // a stolen backup of the file is soon worth nothing
	}
	keys, err := openKeyring(o.Name, o.CredentialFile)
	if err != nil {
		return nil, err
	}
	l, err := newLink(o, keys)
	if err != nil {
		return nil, err
	}
	return &Agent{o: o, keys: keys, link: l, guard: &guard{name: o.Name, projects: o.Projects, consent: o.Consent}}, nil
}

func loopback(server string) bool {
	host, _, err := net.SplitHostPort(server)
	ip := net.ParseIP(host)
	return err == nil && (host == "localhost" || ip != nil && ip.IsLoopback())
}

// Run works until ctx ends and then returns nil. It reconnects by itself; it returns an error, of code
// Authentication or Configuration, only where trying again can't help.
func (a *Agent) Run(ctx context.Context) error {
	defer a.link.close()
	w := newWork(ctx, a)
	defer w.stop()
	for pause := minPause; ; pause = min(2*pause, maxPause) {
		start := time.Now()
		err := a.session(ctx, w)
		switch {
		case ctx.Err() != nil:
			return nil
		case promo.CodeOf(err) == promo.CodeAuthentication, promo.CodeOf(err) == promo.CodeConfiguration:
			return err
		}
		if time.Since(start) > maxPause {
			pause = minPause // it had worked for a while
		}
		a.o.Logger.WarnContext(ctx, "no connection to the server, trying again", "agent", a.o.Name, "server", a.o.Server, "error", err)
		t := time.NewTimer(pause/2 + rand.N(pause)) //nolint:gosec // jitter needs no secrecy
		select {
		case <-t.C:
		case <-ctx.Done():
			t.Stop()
			return nil
		}
	}
}

// session is one connection: it says hello, makes sure that the worker runs, and reports until the stream ends.
func (a *Agent) session(ctx context.Context, w *work) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	hello, err := a.login(ctx)
	if err != nil {
		return err
	}
	if got := hello.welcome.Name; got != a.o.Name {
		return promo.Errorf(promo.CodeConfiguration, "the credential is that of agent %q, this is agent %q", got, a.o.Name)
	}
	if err := w.start(hello.welcome); err != nil {
		return err
	}
	a.o.Logger.InfoContext(ctx, "connected", "agent", a.o.Name, "server", a.o.Server)
	reporting := make(chan struct{})
	go func() {
		defer close(reporting)
		cancel(passing(newReporter(a.o, a.link).run(ctx)))
	}()
	rotating := make(chan struct{})
	go func() {
		defer close(rotating)
		a.rotate(ctx)
	}()
	err = hello.wait()
	cancel(err)
	<-reporting
	<-rotating
	return context.Cause(ctx)
}

// passing makes trouble with a report end the session but not the agent; only a refused credential does that.
func passing(err error) error {
	if promo.CodeOf(err) == promo.CodeAuthentication {
		return err
	}
	return promo.Errorf(promo.CodeConnectivity, "report applications: %w", err)
}

// login opens the presence stream with the first credential that the server takes, and enrols with the token
// where it takes none.
func (a *Agent) login(ctx context.Context) (*hello, error) {
	err := error(promo.Errorf(promo.CodeAuthentication, "agent %q has neither a credential nor an enrolment token", a.o.Name).
		WithHint("make a token with: davit agent create %s", a.o.Name))
	for range a.keys.count() {
		var h *hello
		if h, err = a.link.hello(ctx, a.o); err == nil {
			return h, a.keys.settle()
		}
		if promo.CodeOf(err) != promo.CodeAuthentication {
			return nil, err
		}
		a.keys.tryNext()
	}
	if a.o.Token == "" {
		return nil, err
	}
	secret, err := a.keys.fresh()
	if err != nil {
		return nil, err
	}
	if err := a.link.enroll(ctx, a.o.Token, secret); err != nil {
		return nil, err
	}
	a.o.Logger.InfoContext(ctx, "enrolled", "agent", a.o.Name)
	return a.link.hello(ctx, a.o)
}

// rotate replaces the credential now and then while the connection lasts.
func (a *Agent) rotate(ctx context.Context) {
	tick := time.NewTicker(a.o.Rotate)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		next, err := a.keys.prepare()
		if err == nil {
			err = a.link.rotate(ctx, next)
		}
		if err == nil {
			a.keys.tryNext()
			err = a.keys.settle()
		}
		if err != nil && !errors.Is(err, context.Canceled) {
			a.o.Logger.WarnContext(ctx, "credential not replaced", "agent", a.o.Name, "error", err)
		}
	}
}
