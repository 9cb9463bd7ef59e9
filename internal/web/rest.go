package web

import (
	"context"
	"net/http"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
)

// Paths of requests. Names come from the path alone, so that the door has authorised what is then done.
type (
	none struct{}
	// ProjectPath and the others are exported because huma fills only exported fields, embedded ones too.
	ProjectPath struct {
		Project string `path:"project" maxLength:"128"`
	}
	// PromotionPath names a promotion.
	PromotionPath struct {
		ProjectPath
		Pipeline string `path:"pipeline" maxLength:"128"`
		Number   string `path:"number" maxLength:"20"`
	}
	// EnvironmentPath names a service in an environment.
	EnvironmentPath struct {
		ProjectPath
		Service     string `path:"service" maxLength:"128"`
		Environment string `path:"environment" maxLength:"128"`
	}
	// NamePath names a thing of the account.
	NamePath struct {
		Name string `path:"name" maxLength:"128"`
	}
)

func (p PromotionPath) id() string { return p.Project + "/" + p.Pipeline + "/" + p.Number }

// ok is the answer of requests that have nothing to tell.
type ok struct {
	OK bool `json:"ok"`
}

// list is never null in JSON.
func list[T any](items []T, err error) ([]T, error) {
	if items == nil {
		items = []T{}
	}
	return items, err
}

func (s *Server) restPromotions() {
	type filterInput struct {
		ProjectPath
		Pipeline    string `query:"pipeline"`
		Service     string `query:"service"`
		Environment string `query:"environment"`
		Phase       string `query:"phase"`
		Active      bool   `query:"active"`
		Limit       int    `query:"limit" minimum:"0" maximum:"1000"`
		Before      string `query:"before"`
	}
	p := s.services.Promotions
	const base = "/api/projects/{project}/promotions"
	operation(s, route{Method: http.MethodGet, Path: base, Action: auth.PromotionRead, Kind: "promotion", Summary: "List promotions, newest first"},
		func(ctx context.Context, who promo.Principal, in *filterInput) ([]promo.Promotion, error) {
			return list(p.List(ctx, who, api.PromotionFilter{
				Project: in.Project, Pipeline: in.Pipeline, Service: in.Service, Environment: in.Environment,
				Phase: promo.Phase(in.Phase), Active: in.Active, Limit: in.Limit, Before: in.Before,
			}))
		})
	const one = base + "/{pipeline}/{number}"
	operation(s, route{Method: http.MethodGet, Path: one, Action: auth.PromotionRead, Kind: "promotion", Summary: "Get a promotion"},
		func(ctx context.Context, who promo.Principal, in *PromotionPath) (promo.Promotion, error) {
			return p.Get(ctx, who, in.id())
		})
	type decideInput struct {
		PromotionPath
		Body api.DecideRequest
	}
	operation(s, route{Method: http.MethodPost, Path: one + "/decide", Action: auth.PromotionDecide, Kind: "promotion", Summary: "Approve or reject the step that waits"},
		func(ctx context.Context, who promo.Principal, in *decideInput) (api.DecideResult, error) {
			in.Body.ID = in.id()
			return p.Decide(ctx, who, in.Body)
		})
	type abortInput struct {
		PromotionPath
		Body api.AbortRequest
	}
	operation(s, route{Method: http.MethodPost, Path: one + "/abort", Action: auth.PromotionAbort, Kind: "promotion", Summary: "Abort a promotion and clean up"},
		func(ctx context.Context, who promo.Principal, in *abortInput) (ok, error) {
			in.Body.ID = in.id()
			return ok{OK: true}, p.Abort(ctx, who, in.Body)
		})
	type retryInput struct {
		PromotionPath
		Body api.RetryRequest
	}
	operation(s, route{Method: http.MethodPost, Path: one + "/retry", Action: auth.PromotionRetry, Kind: "promotion", Summary: "Go on with a failed promotion from its failed stages"},
		func(ctx context.Context, who promo.Principal, in *retryInput) (promo.Promotion, error) {
			in.Body.ID = in.id()
			return p.Retry(ctx, who, in.Body)
		})
}

func (s *Server) restRuns() {
	operation(s, route{Method: http.MethodGet, Path: "/api/projects/{project}/pipelines", Action: auth.DefinitionRead, Kind: "pipeline", Summary: "List pipelines with the inputs that a run takes"},
		func(ctx context.Context, who promo.Principal, in *ProjectPath) ([]api.Pipeline, error) {
			return list(s.services.Runs.Pipelines(ctx, who, in.Project))
		})
	type runInput struct {
		ProjectPath
		Pipeline string `path:"pipeline" maxLength:"128"`
		Body     api.RunRequest
	}
	const base = "/api/projects/{project}/pipelines/{pipeline}"
	operation(s, route{Method: http.MethodPost, Path: base + "/run", Action: auth.PromotionRun, Kind: "pipeline", Summary: "Start a promotion"},
		func(ctx context.Context, who promo.Principal, in *runInput) (promo.Promotion, error) {
			in.Body.Project, in.Body.Pipeline = in.Project, in.Pipeline
			return s.services.Runs.Run(ctx, who, in.Body)
		})
	operation(s, route{Method: http.MethodPost, Path: base + "/plan", Action: auth.PromotionRead, Kind: "pipeline", Summary: "Say what a promotion would do, without doing it"},
		func(ctx context.Context, who promo.Principal, in *runInput) (api.PlanResult, error) {
			in.Body.Project, in.Body.Pipeline = in.Project, in.Pipeline
			return s.services.Runs.Plan(ctx, who, in.Body)
		})
}

func (s *Server) restDefinitions() {
	d := s.services.Definitions
	type applyInput struct {
		ProjectPath
		Body api.ApplyRequest
	}
	operation(s, route{Method: http.MethodPost, Path: "/api/projects/{project}/apply", Action: auth.DefinitionApply, Kind: "definition", Summary: "Apply definitions as one change, all or nothing"},
		func(ctx context.Context, who promo.Principal, in *applyInput) (api.ApplyResult, error) {
			in.Body.Project = in.Project
			return d.Apply(ctx, who, in.Body)
		})
	const base = "/api/projects/{project}/definitions"
	type listInput struct {
		ProjectPath
		Kind string `query:"kind"`
	}
	operation(s, route{Method: http.MethodGet, Path: base, Action: auth.DefinitionRead, Kind: "definition", Summary: "List definitions"},
		func(ctx context.Context, who promo.Principal, in *listInput) ([]api.Definition, error) {
			return list(d.List(ctx, who, api.DefinitionRef{Project: in.Project, Kind: in.Kind}))
		})
	type refInput struct {
		ProjectPath
		Kind string `path:"kind" maxLength:"64"`
		Name string `path:"name" maxLength:"128"`
	}
	operation(s, route{Method: http.MethodGet, Path: base + "/{kind}/{name}", Action: auth.DefinitionRead, Kind: "definition", Summary: "Get a definition"},
		func(ctx context.Context, who promo.Principal, in *refInput) (api.Definition, error) {
			return d.Get(ctx, who, api.DefinitionRef{Project: in.Project, Kind: in.Kind, Name: in.Name})
		})
	operation(s, route{Method: http.MethodDelete, Path: base + "/{kind}/{name}", Action: auth.DefinitionDelete, Kind: "definition", Summary: "Delete a definition"},
		func(ctx context.Context, who promo.Principal, in *refInput) (ok, error) {
			return ok{OK: true}, d.Delete(ctx, who, api.DefinitionRef{Project: in.Project, Kind: in.Kind, Name: in.Name})
		})
}

func (s *Server) restFleet() {
	type listInput struct {
		ProjectPath
		Service     string `query:"service"`
		Environment string `query:"environment"`
	}
	operation(s, route{Method: http.MethodGet, Path: "/api/projects/{project}/fleet", Action: auth.FleetRead, Kind: "fleet", Summary: "List applications on every target"},
		func(ctx context.Context, who promo.Principal, in *listInput) ([]api.FleetEntry, error) {
			return list(s.services.Fleet.Applications(ctx, who, api.EnvironmentRef{Project: in.Project, Service: in.Service, Environment: in.Environment}))
		})
	operation(s, route{Method: http.MethodGet, Path: "/api/projects/{project}/lanes", Action: auth.FleetRead, Kind: "lane", Summary: "List lanes with their holders and queues"},
		func(ctx context.Context, who promo.Principal, in *listInput) ([]api.Lane, error) {
			return list(s.services.Fleet.Lanes(ctx, who, api.EnvironmentRef{Project: in.Project, Service: in.Service, Environment: in.Environment}))
		})
}
