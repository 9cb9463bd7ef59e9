package sandbox

import (
	"context"
	"errors"
	"io/fs"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/davit-cd/davit/internal/gitops/sandbox/appspec"
	"github.com/davit-cd/davit/internal/gitops/sandbox/prom"
	"github.com/davit-cd/davit/internal/gitops/sandbox/render"
	"github.com/davit-cd/davit/internal/promo"
)

// GitSource reads the repositories that Applications name.
type GitSource interface {
	// Resolve returns the commit that revision (branch, tag, commit or HEAD) of repoURL names now.
	Resolve(ctx context.Context, repoURL, revision string) (string, error)
	// Tree returns the files of a commit. Links must show as links (fs.ModeSymlink). It is used only until ctx
	// ends.
	Tree(ctx context.Context, repoURL, commit string) (fs.FS, error)
}

// Clock tells the time and waits.
type Clock interface {
	Now() time.Time
	After(d time.Duration) <-chan time.Time
}

// Options describe a cluster. Name, Dir and Source are needed, the rest has defaults.
type Options struct {
	// Name is the cluster's name: the destination.name of its Applications and its metrics' label "cluster".
	Name string
	// Dir is where the cluster keeps its state, as one file named after the cluster.
	Dir     string
	Source  GitSource
	Clock   Clock
	Logger  *slog.Logger
	Timings Timings
	// Metrics is where workloads leave their metrics; nil leaves none. Several clusters may share one.
	Metrics *prom.DB
}

// Cluster is one sandbox cluster. Its methods may be called from any goroutine, before and while Run runs;
// nothing happens until Run runs. Errors are *promo.Error.
type Cluster struct {
	name    string
	file    string
	source  GitSource
	clock   Clock
	log     *slog.Logger
	timings Timings
	metrics *meter
	wake    chan struct{}

	mu         sync.Mutex
	closed     bool
	apps       map[string]*app // by "namespace/name"
	objects    map[render.Key]*liveObject
	namespaces map[string]bool
	schedule   schedule
	watchers   map[*watcher]bool
	cache      renderCache
	dirty      bool
}

// app is an Application, declared and observed.
type app struct {
	Spec   appspec.Application `json:"spec"`
	Status promo.Application   `json:"status"`
	// Request is the operation that is pending or under way.
	Request *request `json:"request,omitempty"`
	// NextID is the id of the next history entry.
	NextID int64 `json:"nextID"`

	level      level           // what the next refresh must do
	staleUntil time.Time       // nothing is compared before, see Timings.Stale
	target     []render.Object // the manifests of Status.Revision
	targetErr  error           // why there are none
	loaded     bool            // target or targetErr is set
}

func (a *app) key() string { return a.Spec.Namespace + "/" + a.Spec.Name }

func refKey(ref promo.ApplicationRef) string {
	if ref.Namespace == "" {
		ref.Namespace = appspec.DefaultNamespace
	}
	return ref.Namespace + "/" + ref.Name
}

// New opens a cluster and its state.
func New(o Options) (*Cluster, error) {
	if !regexp.MustCompile(`^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$`).MatchString(o.Name) {
		return nil, promo.Errorf(promo.CodeConfiguration, "cluster name %q is no DNS label", o.Name).
			WithHint("use lower-case letters, digits and dashes")
	}
	if o.Source == nil || o.Dir == "" {
		return nil, promo.Errorf(promo.CodeConfiguration, "cluster %q needs a Git source and a directory", o.Name)
	}
	c := &Cluster{
		name: o.Name, source: o.Source, clock: o.Clock, log: o.Logger, timings: o.Timings.withDefaults(),
		wake: make(chan struct{}, 1), apps: map[string]*app{}, objects: map[render.Key]*liveObject{},
		watchers: map[*watcher]bool{}, schedule: schedule{},
		namespaces: map[string]bool{"default": true, "kube-system": true, appspec.DefaultNamespace: true},
	}
	if c.clock == nil {
		c.clock = systemClock{}
	}
	if c.log == nil {
		c.log = slog.New(slog.DiscardHandler)
	}
	if o.Metrics != nil {
		c.metrics = newMeter(o.Metrics, o.Name)
	}
	if err := c.open(o.Dir); err != nil {
		return nil, err
	}
	c.resume()
	return c, nil
}

// resume schedules what a restart interrupted. Nobody else knows the cluster yet.
func (c *Cluster) resume() {
	now := c.clock.Now()
	for key, a := range c.apps {
		c.refresh(a, now, levelResolve)
		if a.Request != nil {
			c.at("operation "+key, now, func(ctx context.Context) { c.advance(ctx, key) })
		}
	}
	for key := range c.objects {
		c.watchWorkload(key, now)
	}
	c.at("poll", now.Add(c.timings.Poll), c.poll)
	if c.metrics != nil {
		c.at("scrape", now.Add(c.timings.Scrape), c.scrape)
	}
}

// Apply declares Applications. Applying the same manifests again changes nothing; an Application that exists is
// updated; others are left alone.
func (c *Cluster) Apply(manifests []byte) error {
	specs, err := appspec.Parse(manifests)
	if err != nil {
		return err
	}
	for _, s := range specs {
		if err := c.checkDestination(s); err != nil {
			return err
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range specs {
		c.declare(s)
	}
	return c.save()
}

func (c *Cluster) checkDestination(s appspec.Application) error {
	d := s.Destination
	here := d.Server == "" && (d.Name == c.name || d.Name == "in-cluster") ||
		d.Name == "" && d.Server == "https://kubernetes.default.svc"
	if here {
		return nil
	}
	return promo.Errorf(promo.CodeConfiguration, "application manifest: line %d: spec.destination of %q is not cluster %q",
		d.Line, s.Name, c.name).WithHint("give name: %s, name: in-cluster or server: https://kubernetes.default.svc", c.name)
}

func (c *Cluster) declare(s appspec.Application) {
	s.Destination.Line = 0 // a line number is no state
	key := s.Namespace + "/" + s.Name
	a, exists := c.apps[key]
	if exists && equalSpecs(a.Spec, s) {
		return
	}
	if !exists {
		a = &app{Status: promo.Application{Sync: promo.SyncUnknown, Health: promo.HealthUnknown}}
		c.apps[key] = a
	}
	if a.Spec.Source != s.Source || a.Spec.Destination != s.Destination {
		a.loaded = false
	}
	a.Spec = s
	st := &a.Status
	st.ApplicationRef = promo.ApplicationRef{Namespace: s.Namespace, Name: s.Name}
	st.Cluster, st.Labels, st.Annotations = c.name, s.Labels, davitOnly(s.Annotations)
	st.RepoURL, st.Path, st.TargetRevision = s.Source.RepoURL, s.Source.Path, s.Source.TargetRevision
	st.AutoSync, st.SelfHeal, st.AutoPrune = s.SyncPolicy.Automated, s.SyncPolicy.SelfHeal, s.SyncPolicy.Prune
	c.publish(a)
	c.refresh(a, c.clock.Now().Add(c.timings.Pickup), levelResolve)
}

func davitOnly(annotations map[string]string) map[string]string {
	out := map[string]string{}
	for k, v := range annotations {
		if strings.HasPrefix(k, "davit.dev/") {
			out[k] = v
		}
	}
	return out
}

// Run does the cluster's work until ctx ends, saves the state and returns nil. Call it once.
func (c *Cluster) Run(ctx context.Context) error {
	for {
		wait := c.runDue(ctx)
		select {
		case <-ctx.Done():
			c.mu.Lock()
			defer c.mu.Unlock()
			return c.save()
		case <-c.wake:
		case <-c.clock.After(wait):
		}
	}
}

// Close saves the state and ends all watches. Run must have ended, or must end.
func (c *Cluster) Close() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.closed {
		return nil
	}
	c.closed = true
	for w := range c.watchers {
		w.stop()
	}
	return c.save()
}

// Notify says that a repository changed, as a forge's webhook would: Applications of that repository resolve
// their revisions anew.
func (c *Cluster) Notify(repoURL string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, a := range c.apps {
		if normalURL(a.Spec.Source.RepoURL) == normalURL(repoURL) {
			c.refresh(a, c.clock.Now(), levelResolve)
		}
	}
}

func normalURL(u string) string {
	return strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(u), "/"), ".git")
}

// poll looks at every repository now and then, in case no one calls Notify.
func (c *Cluster) poll(context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	now := c.clock.Now()
	for _, a := range c.apps {
		c.refresh(a, now, levelResolve)
	}
	c.at("poll", now.Add(c.timings.Poll), c.poll)
}

func (c *Cluster) find(ref promo.ApplicationRef) (*app, error) {
	if a, ok := c.apps[refKey(ref)]; ok {
		return a, nil
	}
	return nil, promo.Errorf(promo.CodeNotFound, "application %q is not on cluster %q", refKey(ref), c.name)
}

// sortedApps returns the applications by key, so that what is done for all is done in the same order each time.
func (c *Cluster) sortedApps() []*app {
	out := make([]*app, 0, len(c.apps))
	for _, a := range c.apps {
		out = append(out, a)
	}
	slices.SortFunc(out, func(a, b *app) int { return strings.Compare(a.key(), b.key()) })
	return out
}

// asPromo makes an error of a Git source or of rendering one of this package's border.
func asPromo(err error) error {
	var known *promo.Error
	if err == nil || errors.As(err, &known) || errors.Is(err, context.Canceled) {
		return err
	}
	return promo.Errorf(promo.CodeConnectivity, "read the repository: %w", err)
}
