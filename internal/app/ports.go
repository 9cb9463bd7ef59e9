package app

import (
	"context"
	"io/fs"
	"maps"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/catalog"
	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/gateway"
	"github.com/davit-cd/davit/internal/gitops/sandbox"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/policy"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/repos"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/internal/store"
	"github.com/davit-cd/davit/internal/store/sqlite"
	"github.com/davit-cd/davit/internal/verify/providers"
	"github.com/davit-cd/davit/steps"
)

// The labels by which applications say what they are.
const (
	labelService     = "davit.dev/service"
	labelEnvironment = "davit.dev/environment"
	labelTarget      = "davit.dev/target"
)

// fleet is what agents report, beside what the store knows of them.
type fleet struct {
	view   *gateway.View
	agents *sqlite.Store
}

func (f *fleet) Agent(ctx context.Context, name string) (store.Agent, error) {
	return f.agents.Agent(ctx, name)
}

// Presence says whether the agent exists and is connected, and since when it is not.
func (f *fleet) Presence(ctx context.Context, agent string) (contract.PresenceResult, error) {
	a, err := f.agents.Agent(ctx, agent)
	if promo.CodeOf(err) == promo.CodeNotFound && err != nil {
		return contract.PresenceResult{}, nil //nolint:nilerr // not Known is the answer
	}
	if err != nil {
		return contract.PresenceResult{}, err
	}
	out := contract.PresenceResult{Known: true, Since: a.LastSeenAt}
	if p, ok := f.view.Connected(agent); ok {
		out.Connected, out.Since = p.Connected, p.Since
	}
	return out, nil
}

// Linked finds the applications of a service on a target by their labels.
func (f *fleet) Linked(ctx context.Context, _ string, service plan.Service, environment string, target plan.Target) ([]promo.Application, error) {
	labels := map[string]string{labelEnvironment: environment, labelTarget: target.Name}
	if len(service.Selector) == 0 {
		labels[labelService] = service.Name
	}
	maps.Copy(labels, service.Selector)
	return f.view.Find(ctx, target.Agent, labels)
}

// Reported lists everything that agents reported.
func (f *fleet) Reported(context.Context) []api.FleetEntry {
	var out []api.FleetEntry
	for _, s := range f.view.All() {
		e := api.FleetEntry{
			Agent: s.Agent, Service: s.Labels[labelService], Target: s.Labels[labelTarget], Environment: s.Labels[labelEnvironment],
			Application: s.Name, Revision: s.Revision, Sync: s.Sync, Health: s.Health, Message: s.HealthMessage, Images: s.Images, ReportedAt: s.ReportedAt,
		}
		if e.Images == nil {
			e.Images = []string{}
		}
		out = append(out, e)
	}
	return out
}

// comparer compares commits for agents; they name a repository as "<project>/<name>".
type comparer struct{ repos *repos.Repos }

func (c comparer) Compare(ctx context.Context, repository, wanted, got string, paths []string) (steps.Relation, error) {
	project, name, ok := strings.Cut(repository, "/")
	if !ok {
		project, name = spec.DefaultProject, repository
	}
	return c.repos.Compare(ctx, project, name, wanted, got, paths)
}

// connectors queries metrics by the name of a connector.
type connectors struct {
	catalog *catalog.Catalog
	client  *http.Client
}

func (c *connectors) of(project string) steps.Metrics { return projectMetrics{c, project} }

type projectMetrics struct {
	c       *connectors
	project string
}

func (m projectMetrics) Range(ctx context.Context, connector, query string, start, end time.Time, step time.Duration) ([]steps.Series, error) {
	def, err := m.c.catalog.Connector(ctx, m.project, connector)
	if err != nil {
		return nil, err
	}
	o := providers.PrometheusOptions{URL: def.URL, Client: m.c.client}
	if def.Auth != nil && def.Auth.Bearer != nil {
		at, err := url.Parse(def.URL)
		if err != nil {
			return nil, promo.Errorf(promo.CodeConfiguration, "connector %q: address: %w", connector, err)
		}
		if o.Bearer, err = secret(def.Auth.Bearer.Secret, at.Host); err != nil {
			return nil, err
		}
	}
	p, err := providers.NewPrometheus(o)
	if err != nil {
		return nil, err
	}
	series, err := p.Range(ctx, query, start, end, step)
	out := make([]steps.Series, len(series))
	for i, s := range series {
		out[i] = steps.Series{Labels: s.Labels, Points: make([]steps.Point, len(s.Points))}
		for j, pt := range s.Points {
			out[i].Points[j] = steps.Point(pt)
		}
	}
	return out, err
}

// secret returns a secret of the server's configuration. `davit up` has none.
func secret(name, _ string) (promo.Secret, error) {
	return "", promo.Errorf(promo.CodeConfiguration, "secret %q is not in the configuration of this server", name).
		WithHint("`davit up` has no secrets: leave the field out, or use a service that asks for none")
}

// decisions records policy decisions in the store.
type decisions struct{ store *sqlite.Store }

func (d decisions) RecordDecision(ctx context.Context, p policy.Decision) error {
	var sets []string
	for _, s := range p.Sets {
		sets = append(sets, s.Name)
	}
	return d.store.AddDecision(ctx, store.Decision{
		ID: p.ID, At: p.At, Project: p.Project, Sets: sets, Event: string(p.Event), Subject: p.Subject, By: p.By,
		InputHash: p.InputHash, Input: p.InputHash, Deny: p.Deny, Warn: p.Warn,
	})
}

func (d decisions) RecordInput(ctx context.Context, _ string, json []byte) error {
	_, err := d.store.PutBlob(ctx, "application/json", json)
	return err
}

// blobs keeps larger things by digest.
type blobs struct{ store *sqlite.Store }

func (b blobs) Put(ctx context.Context, mediaType string, data []byte) (string, error) {
	return b.store.PutBlob(ctx, mediaType, data)
}

// repoSource gives sandbox clusters the commits of the local forge's repositories, whatever host their URLs name.
type repoSource struct{ a *App }

func (s repoSource) name(repoURL string) (string, error) {
	u, err := url.Parse(repoURL)
	if err != nil || !strings.Contains(u.Path, "/git/") {
		return "", promo.Errorf(promo.CodeConfiguration, "repository %q is not one of the local forge", repoURL).
			WithHint("sandbox clusters read %s/git/<name>.git", s.a.url)
	}
	return strings.TrimSuffix(path.Base(u.Path), ".git"), nil
}

func (s repoSource) Resolve(ctx context.Context, repoURL, revision string) (string, error) {
	name, err := s.name(repoURL)
	if err != nil {
		return "", err
	}
	if len(revision) == 40 && strings.Trim(revision, "0123456789abcdef") == "" {
		return revision, nil
	}
	if revision == "HEAD" || revision == "" {
		r, err := s.a.forge.Repository(ctx, name)
		if err != nil {
			return "", err
		}
		revision = r.DefaultBranch
	}
	return s.a.forge.Head(ctx, name, revision)
}

func (s repoSource) Tree(ctx context.Context, repoURL, commit string) (fs.FS, error) {
	name, err := s.name(repoURL)
	if err != nil {
		return nil, err
	}
	repo, err := s.a.mirrors.Open(ctx, s.a.remote(name))
	if err != nil {
		return nil, err
	}
	tree, err := repo.Tree(ctx, commit)
	if err != nil {
		return nil, err
	}
	return sandbox.TreeFS(tree), nil
}

// readiness is what /readyz answers.
type readiness struct {
	mu   sync.Mutex
	ctx  context.Context //nolint:containedctx // the run's, for work that events start
	done bool
}

func (r *readiness) begin(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ctx = ctx
}

func (r *readiness) context() context.Context {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ctx
}

func (r *readiness) set() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = true
}

func (r *readiness) unset() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.done = false
}

func (r *readiness) check(context.Context) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if !r.done {
		return promo.Errorf(promo.CodeConnectivity, "starting")
	}
	return nil
}

func sortedUnique(list []string) []string {
	slices.Sort(list)
	return slices.Compact(list)
}
