package steps

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// SyncSpec is the spec of a Sync.
type SyncSpec struct {
	// Applications to sync; the target's linked ones by default.
	Applications []LinkedApp `json:"applications,omitempty"`
	// Revision to sync to; the stage's merge commit by default.
	Revision string `json:"revision,omitempty"`
	// Prune deletes objects that the revision no longer has.
	Prune bool `json:"prune,omitempty"`
	// DryRun only tries; nothing is changed and health is not waited for.
	DryRun bool `json:"dryRun,omitempty"`
	// Force replaces objects that cannot be patched by deleting them first.
	Force bool `json:"force,omitempty"`
	// ApplyOutOfSyncOnly leaves alone what is as wanted already.
	ApplyOutOfSyncOnly bool `json:"applyOutOfSyncOnly"`
	// ServerSideApply applies on the server.
	ServerSideApply bool `json:"serverSideApply,omitempty"`
	// Replace replaces objects instead of applying them.
	Replace bool `json:"replace,omitempty"`
	// CreateNamespace makes the destination's namespace.
	CreateNamespace bool `json:"createNamespace,omitempty"`
	// PrunePropagation says how owned objects go when their owner is pruned.
	PrunePropagation string `json:"prunePropagation,omitempty" jsonschema:"enum=foreground,enum=background,enum=orphan"`
	// Resources limits the sync to these objects.
	Resources []SyncResource `json:"resources,omitempty"`
	// Retry of the operation by the engine.
	Retry SyncRetry `json:"retry,omitempty"` //nolint:modernize // the tag is read by the schema
	// WaitHealthy waits until the applications are healthy at the revision.
	WaitHealthy bool `json:"waitHealthy"`
	// DegradedAfter ends the wait with a Health verdict where an application stays Degraded this long.
	DegradedAfter Duration `json:"degradedAfter,omitempty"`
	// Rollouts says what to do with Argo Rollouts that pause.
	Rollouts string `json:"rollouts,omitempty" jsonschema:"enum=leave,enum=promote-full,enum=resume" davit:"later=promote-full|resume"`
}

// SyncResource selects one object of an application.
type SyncResource struct {
	// Group of the object's API, empty for the core group.
	Group string `json:"group,omitempty"`
	// Kind of the object.
	Kind string `json:"kind" jsonschema:"required"`
	// Namespace of the object.
	Namespace string `json:"namespace,omitempty"`
	// Name of the object.
	Name string `json:"name" jsonschema:"required"`
}

// SyncRetry says how often the engine itself tries an operation again.
type SyncRetry struct {
	// Limit of tries.
	Limit int `json:"limit,omitempty" jsonschema:"minimum=0,maximum=100"`
	// Backoff before the first one.
	Backoff Duration `json:"backoff,omitempty"`
	// Factor by which each backoff grows.
	Factor int `json:"factor,omitempty" jsonschema:"minimum=1,maximum=10"`
	// Max is the longest backoff.
	Max Duration `json:"max,omitempty"`
}

// ErrStopping is the cause with which an agent that shuts down cancels its work: the operation under way then goes
// on, and the next agent watches it. Any other cancellation terminates it.
var ErrStopping = errors.New("the agent is stopping")

// Sync brings the target's applications to the merged commit and waits until they are healthy.
func Sync() Type {
	return Type{
		Kind:    "Sync",
		Summary: "brings the applications to the merged commit and waits until healthy",
		Scope:   plan.ScopeTarget,
		Class:   plan.ClassSync,
		Agent:   true,
		Mutates: func(spec json.RawMessage) bool {
			var s SyncSpec
			return json.Unmarshal(spec, &s) != nil || !s.DryRun
		},
		Timeout: 10 * time.Minute, // as long as Kubernetes itself gives a Deployment to make progress
		Config: func() any {
			return &SyncSpec{
				ApplyOutOfSyncOnly: true, PrunePropagation: "foreground", WaitHealthy: true, Rollouts: "leave",
				Retry:         SyncRetry{Limit: 5, Backoff: Duration(5 * time.Second), Factor: 2, Max: Duration(3 * time.Minute)},
				DegradedAfter: Duration(2 * time.Minute), // crash loops pass through Degraded while images are pulled
			}
		},
		Check: checkSync,
		Outputs: map[string]string{
			"revision":     "commit that is synced",
			"health":       "worst health of the applications",
			"durations":    "how long each application's operation took",
			"images":       "images that run",
			"applications": "list of {namespace, name, revision, health, images}",
		},
		Run: runSync,
	}
}

func checkSync(cfg any) []Problem {
	c, ok := cfg.(*SyncSpec)
	if !ok {
		return nil
	}
	var out []Problem
	if c.Revision != "" && !unresolved(c.Revision) && !isCommit(c.Revision) {
		out = append(out, Problem{Path: "revision", Msg: fmt.Sprintf("%q is no commit", c.Revision), Hint: "write its full hash; targetRevision is never patched"})
	}
	if c.Replace && c.ServerSideApply {
		out = append(out, Problem{Path: "replace", Msg: "replace and serverSideApply exclude each other"})
	}
	return out
}

func (c *SyncSpec) options() promo.SyncOptions {
	o := promo.SyncOptions{
		Prune: c.Prune, DryRun: c.DryRun, Force: c.Force, ApplyOutOfSyncOnly: c.ApplyOutOfSyncOnly,
		ServerSideApply: c.ServerSideApply, Replace: c.Replace, CreateNamespace: c.CreateNamespace,
		PrunePropagation: c.PrunePropagation, RetryLimit: c.Retry.Limit, RetryBackoff: c.Retry.Backoff.Std(),
		RetryFactor: c.Retry.Factor, RetryMax: c.Retry.Max.Std(),
	}
	for _, r := range c.Resources {
		o.Resources = append(o.Resources, promo.ResourceRef(r))
	}
	return o
}

func runSync(ctx context.Context, in In) (Out, error) {
	c, err := readConfig[SyncSpec](Sync(), in)
	if err != nil {
		return Out{}, err
	}
	if err := need(in.Ports.GitOps != nil && in.Ports.Compare != nil, in, "a GitOps engine"); err != nil {
		return Out{}, err
	}
	want := firstText(c.Revision, in.Change.Merged)
	if want == "" {
		return Out{}, promo.Errorf(promo.CodeConfiguration, "step %q has no commit to sync to: stage %q has merged nothing", in.Stage.Step, in.Stage.Name).
			WithHint("put a MergePR before it, or name a revision")
	}
	apps, err := syncApps(ctx, in, c)
	if err != nil {
		return Out{}, err
	}
	syncs := make([]*appSync, len(apps))
	var wg sync.WaitGroup
	for i, a := range apps {
		syncs[i] = newAppSync(in, c, a.Ref(), want)
		wg.Go(func() { syncs[i].err = syncs[i].run(ctx) })
	}
	wg.Wait()
	return synced(syncs, want)
}

// syncApps are the applications of the step: those named, or the linked ones that this agent sees.
func syncApps(ctx context.Context, in In, c *SyncSpec) ([]LinkedApp, error) {
	if len(c.Applications) > 0 {
		return c.Applications, nil
	}
	found, err := linkedApps(ctx, in, &FetchLinkedAppsSpec{From: "labels", RequireAny: true})
	if err != nil {
		return nil, err
	}
	out := make([]LinkedApp, len(found))
	for i, a := range found {
		out[i] = LinkedApp{Agent: a.Agent, Namespace: a.Namespace, Name: a.Name}
	}
	return out, nil
}

// syncedApp is one application in the step's outputs.
type syncedApp struct {
	Namespace string       `json:"namespace"`
	Name      string       `json:"name"`
	Revision  string       `json:"revision"`
	Health    promo.Health `json:"health"`
	Duration  string       `json:"duration,omitempty"`
	Images    []string     `json:"images,omitempty"`
}

// synced puts the applications' ends together: the first trouble in the order of names decides.
func synced(syncs []*appSync, want string) (Out, error) {
	slices.SortFunc(syncs, func(a, b *appSync) int {
		return cmp.Compare(a.ref.Namespace+"/"+a.ref.Name, b.ref.Namespace+"/"+b.ref.Name)
	})
	outputs := struct {
		Revision     string            `json:"revision"`
		Health       promo.Health      `json:"health"`
		Durations    map[string]string `json:"durations"`
		Images       []string          `json:"images"`
		Applications []syncedApp       `json:"applications"`
	}{Revision: want, Health: promo.HealthHealthy, Durations: map[string]string{}}
	for _, s := range syncs {
		var verdict *promo.Error
		if errors.As(s.err, &verdict) && verdict.Code.IsVerdict() {
			return Out{Verdict: verdict}, nil
		}
		if s.err != nil {
			return Out{}, s.err
		}
		outputs.Revision = s.syncedRevision()
		a := syncedApp{Namespace: s.ref.Namespace, Name: s.ref.Name, Revision: s.syncedRevision(), Health: s.app.Health, Images: s.app.Images}
		if op := s.app.LastOperation; op != nil && !op.FinishedAt.IsZero() {
			a.Duration = op.FinishedAt.Sub(op.StartedAt).Round(time.Millisecond).String()
			outputs.Durations[s.ref.Name] = a.Duration
		}
		if healthRank(s.app.Health) > healthRank(outputs.Health) {
			outputs.Health = s.app.Health
		}
		outputs.Images = append(outputs.Images, s.app.Images...)
		outputs.Applications = append(outputs.Applications, a)
	}
	slices.Sort(outputs.Images)
	outputs.Images = slices.Compact(outputs.Images)
	what := "1 application is"
	if n := len(syncs); n != 1 {
		what = fmt.Sprintf("%d applications are", n)
	}
	return answer(outputs, "%s %s at %s", what, strings.ToLower(string(outputs.Health)), short(want))
}

// healthRank orders health from good to bad.
func healthRank(h promo.Health) int {
	return slices.Index([]promo.Health{
		promo.HealthHealthy, promo.HealthSuspended, promo.HealthProgressing, promo.HealthMissing, promo.HealthDegraded, promo.HealthUnknown,
	}, h)
}
