package app

import (
	"context"
	"net/http"
	"os"
	"sync"
	"time"

	"github.com/davit-cd/davit/internal/agent"
	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/gitops/sandbox"
	"github.com/davit-cd/davit/internal/gitops/sandbox/prom"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/internal/store"
	"github.com/davit-cd/davit/steps"
)

// sandboxes are the clusters of `davit up`: one per agent that an environment names, each with its agent, which is
// connected through the gateway like any other. An agent that a person created is left alone.
type sandboxes struct {
	a  *App
	db *prom.DB

	mu       sync.Mutex
	running  map[string]*box
	wg       sync.WaitGroup
	stopOnce sync.Once
	cancel   context.CancelFunc
	ctx      context.Context //nolint:containedctx // the clusters' life, set by start
}

// box is one cluster and its agent.
type box struct {
	cluster *sandbox.Cluster
	agent   agent.Options
	// leave ends the agent's connection and returns when it has ended; nil while there is none.
	leave func()
}

func newSandboxes(_ context.Context, a *App) (*sandboxes, error) {
	for _, dir := range []string{"clusters", "agents", "metrics"} {
		if err := os.MkdirAll(a.path("sandbox", dir), 0o700); err != nil {
			return nil, promo.Errorf(promo.CodeConfiguration, "%w", err)
		}
	}
	db, err := prom.Open(prom.Options{Dir: a.path("sandbox", "metrics"), Logger: a.o.Log})
	if err != nil {
		return nil, err
	}
	return &sandboxes{a: a, db: db, running: map[string]*box{}}, nil
}

func (s *sandboxes) prometheus() http.Handler { return s.db.Handler() }

// start runs the clusters that definitions name, and follows the definitions.
func (s *sandboxes) start(ctx context.Context) error {
	s.ctx, s.cancel = context.WithCancel(ctx)
	if err := s.reconcile(s.ctx); err != nil { //nolint:contextcheck // the clusters' life, not the caller's
		return err
	}
	changes := s.a.store.Subscribe(s.ctx) //nolint:contextcheck // the clusters' life, not the caller's
	s.wg.Go(func() {
		for ev := range changes {
			if ev.Kind != store.EventDefinition && ev.Kind != store.EventLost {
				continue
			}
			if err := s.reconcile(s.ctx); err != nil && s.ctx.Err() == nil {
				s.a.o.Log.ErrorContext(s.ctx, "sandbox clusters not brought up", "error", err)
			}
		}
	})
	return nil
}

// stop ends clusters and agents and waits for them. It is idempotent.
func (s *sandboxes) stop() {
	s.stopOnce.Do(func() {
		if s.cancel != nil {
			s.cancel()
		}
		s.wg.Wait()
		s.mu.Lock()
		defer s.mu.Unlock()
		for _, b := range s.running {
			s.a.logError("sandbox cluster", b.cluster.Close())
		}
		s.a.logError("sandbox metrics", s.db.Close())
	})
}

// reconcile brings up what is named and not there yet.
func (s *sandboxes) reconcile(ctx context.Context) error {
	s.a.catalog.Invalidate()
	v, err := s.a.catalog.View(ctx)
	if err != nil {
		return err
	}
	var names []string
	for _, doc := range v.Defs.Documents(spec.KindEnvironment) {
		if env, ok := doc.Spec.(*spec.EnvironmentSpec); ok {
			for _, t := range env.Targets {
				names = append(names, t.Agent)
			}
		}
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, name := range sortedUnique(names) {
		if s.running[name] != nil {
			continue
		}
		if err := s.bring(ctx, name); err != nil {
			return err
		}
	}
	return nil
}

// sandboxOwner marks agents that `davit up` made itself.
const sandboxOwner = "davit up"

func (s *sandboxes) bring(ctx context.Context, name string) error {
	known, err := s.a.store.Agent(ctx, name)
	switch {
	case err == nil && (known.CreatedBy != sandboxOwner || !known.RevokedAt.IsZero()):
		return nil // a person's own, or shut out by a person
	case err != nil && promo.CodeOf(err) != promo.CodeNotFound:
		return err
	}
	cluster, err := sandbox.New(sandbox.Options{
		Name: name, Dir: s.a.path("sandbox", "clusters"), Source: repoSource{s.a}, Logger: s.a.o.Log, Metrics: s.db,
	})
	if err != nil {
		return err
	}
	token, _, err := s.a.registry.Create(ctx, name, sandboxOwner, nil)
	if err != nil {
		return err
	}
	b := &box{cluster: cluster, agent: agent.Options{
		Name: name, Server: s.a.sandboxServer(), TLS: s.a.sandboxTLS(), Token: token, CredentialFile: s.a.path("sandbox", "agents", name),
		Engine: cluster, Types: steps.Builtin(), Version: s.a.o.Version.Version, Logger: quiet(s.a.o.Log),
	}}
	s.running[name] = b
	s.wg.Add(1)
	go s.run(s.ctx, name, "cluster", cluster.Run) //nolint:contextcheck // the clusters' life, not the caller's
	return s.join(b)                              //nolint:contextcheck // the clusters' life, not the caller's
}

// join connects a cluster's agent.
func (s *sandboxes) join(b *box) error {
	ag, err := agent.New(b.agent)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan struct{})
	b.leave = func() {
		cancel()
		<-ended
	}
	s.wg.Add(1)
	go func() {
		defer close(ended)
		s.run(ctx, b.agent.Name, "agent", ag.Run)
	}()
	return nil
}

func (s *sandboxes) run(ctx context.Context, name, what string, f func(context.Context) error) {
	defer s.wg.Done()
	if err := f(ctx); err != nil && ctx.Err() == nil {
		s.a.o.Log.ErrorContext(ctx, "sandbox ended", "cluster", name, "part", what, "error", err)
	}
}

// notify tells the clusters that a repository was pushed to, as a webhook would.
func (s *sandboxes) notify(repository string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, b := range s.running {
		b.cluster.Notify(s.a.url + "/git/" + repository + ".git")
	}
}

// cluster returns a running cluster.
func (s *sandboxes) cluster(name string) (*sandbox.Cluster, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.running[name]
	if !ok {
		return nil, promo.Errorf(promo.CodeNotFound, "no sandbox cluster %q", name).
			WithHint("each agent that an environment names has one")
	}
	return b.cluster, nil
}

// remote is how the mirrors know a repository of the local forge.
func (a *App) remote(name string) git.Remote {
	return git.Remote{Name: spec.DefaultProject + "/" + name, URL: a.engine.Repos.Local.URL + "/" + name + ".git", Auth: a.engine.Repos.Local.Auth}
}

// settle is how long the demo waits for its clusters to run the first release.
const settle = 30 * time.Second

// Connect ends or restores the connection of a cluster's agent. The cluster runs on meanwhile.
func (s *sandboxes) Connect(_ context.Context, _ promo.Principal, req api.SandboxConnectRequest) error {
	if _, err := s.cluster(req.Cluster); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	b := s.running[req.Cluster]
	switch {
	case req.Connected && b.leave == nil:
		return s.join(b) //nolint:contextcheck // the clusters' life, not the caller's
	case !req.Connected && b.leave != nil:
		b.leave()
		b.leave = nil
	}
	return nil
}
