package agent

import (
	"context"
	"slices"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
)

// ConsentAnnotation on an application names the one "<project>/<service>/<environment>" that may drive it.
const ConsentAnnotation = "davit.dev/promote"

// guard is the agent's own say in what is driven, whatever the server asks.
type guard struct {
	name     string
	projects []string
	consent  map[string]string
}

// check reports whether a call may change the application.
func (g *guard) check(call plan.Call, app promo.Application) error {
	if len(g.projects) > 0 && !slices.Contains(g.projects, call.Run.Project) {
		return promo.Errorf(promo.CodeAuthorization, "agent %q does not serve project %q", g.name, call.Run.Project)
	}
	environment := ""
	if e := call.Stage.Environment; e != nil {
		environment = e.Name
	}
	want := call.Run.Project + "/" + call.Stage.Service.Name + "/" + environment
	if app.Annotations[ConsentAnnotation] == want || len(g.consent) > 0 && carries(app.Labels, g.consent) {
		return nil
	}
	return promo.Errorf(promo.CodeAuthorization, "application %s/%s on agent %q does not consent to be driven by %s", app.Namespace, app.Name, g.name, want).
		WithHint("annotate it with %s: %s", ConsentAnnotation, want)
}

func carries(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

// guarded is the engine as one call may use it: reads are free, changes need the application's consent.
type guarded struct {
	Engine
	guard *guard
	call  plan.Call
}

// StartSync asks for consent first.
func (g guarded) StartSync(ctx context.Context, ref promo.ApplicationRef, req promo.SyncRequest) error {
	if err := g.allowed(ctx, ref); err != nil {
		return err
	}
	return g.Engine.StartSync(ctx, ref, req)
}

// Terminate asks for consent first.
func (g guarded) Terminate(ctx context.Context, ref promo.ApplicationRef) error {
	if err := g.allowed(ctx, ref); err != nil {
		return err
	}
	return g.Engine.Terminate(ctx, ref)
}

// Refresh asks for consent first: it makes the engine work, and with auto-sync it deploys.
func (g guarded) Refresh(ctx context.Context, ref promo.ApplicationRef, hard bool) error {
	if err := g.allowed(ctx, ref); err != nil {
		return err
	}
	return g.Engine.Refresh(ctx, ref, hard)
}

func (g guarded) allowed(ctx context.Context, ref promo.ApplicationRef) error {
	if ref.Agent != "" && ref.Agent != g.guard.name {
		return promo.Errorf(promo.CodeConfiguration, "application %s/%s is on agent %q, this is agent %q", ref.Namespace, ref.Name, ref.Agent, g.guard.name)
	}
	app, err := g.Get(ctx, ref)
	if err != nil {
		return err
	}
	return g.guard.check(g.call, app)
}

// found is steps.Applications over the agent's own engine.
type found struct {
	name   string
	engine Observer
}

// Find returns the applications that carry the labels.
func (f found) Find(ctx context.Context, _ string, labels map[string]string) ([]promo.Application, error) {
	all, err := f.engine.Applications(ctx)
	if err != nil {
		return nil, err
	}
	var out []promo.Application
	for _, a := range all {
		if carries(a.Labels, labels) {
			a.Agent = f.name
			out = append(out, a)
		}
	}
	return out, nil
}

// Get returns one application.
func (f found) Get(ctx context.Context, ref promo.ApplicationRef) (promo.Application, error) {
	all, err := f.engine.Applications(ctx)
	if err != nil {
		return promo.Application{}, err
	}
	for _, a := range all {
		if a.Namespace == ref.Namespace && a.Name == ref.Name {
			a.Agent = f.name
			return a, nil
		}
	}
	return promo.Application{}, promo.Errorf(promo.CodeNotFound, "agent %q has no application %s/%s", f.name, ref.Namespace, ref.Name)
}

var _ steps.Applications = found{}
