package web

import (
	"context"
	"net/http"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
)

const environmentBase = "/api/projects/{project}/services/{service}/environments/{environment}"

func (s *Server) restEnvironments() {
	e := s.services.Environments
	type historyInput struct {
		EnvironmentPath
		Limit int `query:"limit" minimum:"0" maximum:"1000"`
	}
	operation(s, route{Method: http.MethodGet, Path: environmentBase + "/history", Action: auth.EnvironmentRead, Kind: "environment", Summary: "List what the environment was, newest first, with known-good marks"},
		func(ctx context.Context, who promo.Principal, in *historyInput) ([]promo.KnownGood, error) {
			return list(e.History(ctx, who, api.EnvironmentRef{Project: in.Project, Service: in.Service, Environment: in.Environment, Limit: in.Limit}))
		})
	type pinInput struct {
		EnvironmentPath
		Body api.PinRequest
	}
	operation(s, route{Method: http.MethodPost, Path: environmentBase + "/pin", Action: auth.EnvironmentPin, Kind: "environment", Summary: "Mark a commit as known-good by hand, or take the mark away"},
		func(ctx context.Context, who promo.Principal, in *pinInput) (ok, error) {
			in.Body.Project, in.Body.Service, in.Body.Environment = in.Project, in.Service, in.Environment
			return ok{OK: true}, e.Pin(ctx, who, in.Body)
		})
	operation(s, route{Method: http.MethodGet, Path: "/api/projects/{project}/holds", Action: auth.EnvironmentRead, Kind: "environment", Summary: "List holds"},
		func(ctx context.Context, who promo.Principal, in *ProjectPath) ([]promo.Hold, error) {
			return list(e.Holds(ctx, who, api.EnvironmentRef{Project: in.Project}))
		})
	type holdInput struct {
		EnvironmentPath
		Body api.HoldRequest
	}
	operation(s, route{Method: http.MethodPut, Path: environmentBase + "/hold", Action: auth.EnvironmentHold, Kind: "environment", Summary: "Hold automatic promotions"},
		func(ctx context.Context, who promo.Principal, in *holdInput) (promo.Hold, error) {
			in.Body.Project, in.Body.Service, in.Body.Environment = in.Project, in.Service, in.Environment
			return e.Hold(ctx, who, in.Body)
		})
	type releaseInput struct {
		EnvironmentPath
		Reason string `query:"reason" maxLength:"2000"`
	}
	operation(s, route{Method: http.MethodDelete, Path: environmentBase + "/hold", Action: auth.EnvironmentHold, Kind: "environment", Summary: "Release a hold"},
		func(ctx context.Context, who promo.Principal, in *releaseInput) (ok, error) {
			return ok{OK: true}, e.Release(ctx, who, api.HoldRequest{Project: in.Project, Service: in.Service, Environment: in.Environment, Reason: in.Reason})
		})
}

func (s *Server) restRollbacks() {
	r := s.services.Rollbacks
	type rollbackInput struct {
		EnvironmentPath
		Body api.RollbackRequest
	}
	request := func(in *rollbackInput) (api.RollbackRequest, error) {
		req := in.Body
		req.Project, req.Service, req.Environment = in.Project, in.Service, in.Environment
		if req.BreakGlass {
			return req, promo.Errorf(promo.CodeConfiguration, "breakGlass is not a field of this request").
				WithHint("POST to …/rollback/break-glass, which needs its own permission")
		}
		return req, nil
	}
	operation(s, route{Method: http.MethodPost, Path: environmentBase + "/rollback/preview", Action: auth.RollbackRead, Kind: "environment", Summary: "Say what a rollback would do, without doing it"},
		func(ctx context.Context, who promo.Principal, in *rollbackInput) (promo.Preview, error) {
			req, err := request(in)
			if err != nil {
				return promo.Preview{}, err
			}
			return r.Preview(ctx, who, req)
		})
	operation(s, route{Method: http.MethodPost, Path: environmentBase + "/rollback", Action: auth.RollbackRun, Kind: "environment", Summary: "Put the environment back to a known-good commit"},
		func(ctx context.Context, who promo.Principal, in *rollbackInput) (promo.Rollback, error) {
			req, err := request(in)
			if err != nil {
				return promo.Rollback{}, err
			}
			return r.Start(ctx, who, req)
		})
	operation(s, route{Method: http.MethodPost, Path: environmentBase + "/rollback/break-glass", Action: auth.RollbackBreakGlass, Kind: "environment", Summary: "Put the environment back although a policy denies; audited"},
		func(ctx context.Context, who promo.Principal, in *rollbackInput) (promo.Rollback, error) {
			in.Body.BreakGlass = false
			req, err := request(in)
			if err != nil {
				return promo.Rollback{}, err
			}
			req.BreakGlass = true
			return r.Start(ctx, who, req)
		})
	s.restRollbackRuns()
}

// restRollbackRuns are the routes of rollbacks that were started.
func (s *Server) restRollbackRuns() {
	r := s.services.Rollbacks
	type listInput struct {
		ProjectPath
		Service     string `query:"service"`
		Environment string `query:"environment"`
		Limit       int    `query:"limit" minimum:"0" maximum:"1000"`
	}
	type RunPath struct {
		EnvironmentPath
		Run string `path:"run" maxLength:"160"`
	}
	type abortInput struct {
		RunPath
		Body api.AbortRequest
	}
	type decideInput struct {
		RunPath
		Body api.DecideRequest
	}
	id := func(p RunPath) string {
		return p.Project + "/" + p.Service + "/" + p.Environment + "/" + p.Run
	}
	const base = "/api/projects/{project}/rollbacks"
	operation(s, route{Method: http.MethodGet, Path: base, Action: auth.RollbackRead, Kind: "rollback", Summary: "List rollbacks, newest first"},
		func(ctx context.Context, who promo.Principal, in *listInput) ([]promo.Rollback, error) {
			return list(r.List(ctx, who, api.EnvironmentRef{Project: in.Project, Service: in.Service, Environment: in.Environment, Limit: in.Limit}))
		})
	operation(s, route{Method: http.MethodGet, Path: base + "/{service}/{environment}/{run}", Action: auth.RollbackRead, Kind: "rollback", Summary: "Get a rollback"},
		func(ctx context.Context, who promo.Principal, in *RunPath) (promo.Rollback, error) {
			return r.Get(ctx, who, id(*in))
		})
	operation(s, route{Method: http.MethodPost, Path: base + "/{service}/{environment}/{run}/abort", Action: auth.RollbackRun, Kind: "rollback", Summary: "Abort a rollback"},
		func(ctx context.Context, who promo.Principal, in *abortInput) (ok, error) {
			in.Body.ID = id(in.RunPath)
			return ok{OK: true}, r.Abort(ctx, who, in.Body)
		})
	if s.services.Promotions == nil {
		return
	}
	operation(s, route{Method: http.MethodPost, Path: base + "/{service}/{environment}/{run}/decide", Action: auth.RollbackRun, Kind: "rollback", Summary: "Answer a rollback that asks"},
		func(ctx context.Context, who promo.Principal, in *decideInput) (api.DecideResult, error) {
			in.Body.ID = "rollback/" + id(in.RunPath)
			return s.services.Promotions.Decide(ctx, who, in.Body)
		})
}
