package web

import (
	"net/http"
	"net/url"
	"strings"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
)

const environmentPage = "/projects/{project}/services/{service}/environments/{environment}"

// environmentData is what an environment's history shows.
type environmentData struct {
	Service, Environment string
	History              []promo.KnownGood
	Hold                 *promo.Hold
	Lane                 *api.Lane
	Applications         []api.FleetEntry
	Rollbacks            []promo.Rollback
}

func (s *Server) environmentPages() {
	e := s.services.Environments
	s.page(route{Method: http.MethodGet, Path: environmentPage, Action: auth.EnvironmentRead, Kind: "environment"}, "environment", s.loadEnvironment)
	s.page(route{Method: http.MethodGet, Path: "/projects/{project}/holds", Action: auth.EnvironmentRead, Kind: "environment"}, "holds", func(r *http.Request) (view, error) {
		holds, err := e.Holds(r.Context(), whoFrom(r.Context()), api.EnvironmentRef{Project: r.PathValue("project")})
		return view{Title: "Holds", Nav: "holds", Data: holds}, err
	})
	s.form(route{Path: environmentPage + "/hold", Action: auth.EnvironmentHold, Kind: "environment"}, func(r *http.Request) (string, error) {
		_, err := e.Hold(r.Context(), whoFrom(r.Context()), holdRequest(r))
		return pageOf(r), err
	})
	s.form(route{Path: environmentPage + "/release", Action: auth.EnvironmentHold, Kind: "environment"}, func(r *http.Request) (string, error) {
		to := pageOf(r)
		if r.PostFormValue("from") == "holds" {
			to = "/projects/" + url.PathEscape(r.PathValue("project")) + "/holds"
		}
		return to, e.Release(r.Context(), whoFrom(r.Context()), holdRequest(r))
	})
	s.form(route{Path: environmentPage + "/pin", Action: auth.EnvironmentPin, Kind: "environment"}, func(r *http.Request) (string, error) {
		return pageOf(r), e.Pin(r.Context(), whoFrom(r.Context()), api.PinRequest{
			Project: r.PathValue("project"), Service: r.PathValue("service"), Environment: r.PathValue("environment"),
			Commit: r.PostFormValue("commit"), Pinned: r.PostFormValue("pinned") == "true",
		})
	})
}

func environmentRef(r *http.Request) api.EnvironmentRef {
	return api.EnvironmentRef{Project: r.PathValue("project"), Service: r.PathValue("service"), Environment: r.PathValue("environment"), Limit: pageSize}
}

func holdRequest(r *http.Request) api.HoldRequest {
	return api.HoldRequest{
		Project: r.PathValue("project"), Service: r.PathValue("service"), Environment: r.PathValue("environment"),
		Reason: strings.TrimSpace(r.PostFormValue("reason")),
	}
}

func (s *Server) loadEnvironment(r *http.Request) (view, error) {
	ctx, who, ref := r.Context(), whoFrom(r.Context()), environmentRef(r)
	d := environmentData{Service: ref.Service, Environment: ref.Environment}
	var err error
	if d.History, err = s.services.Environments.History(ctx, who, ref); err != nil {
		return view{}, err
	}
	holds, err := s.services.Environments.Holds(ctx, who, api.EnvironmentRef{Project: ref.Project, Service: ref.Service, Environment: ref.Environment})
	if err != nil {
		return view{}, err
	}
	d.Hold = holdOf(holds, ref.Service, ref.Environment)
	if s.services.Rollbacks != nil {
		if d.Rollbacks, err = s.services.Rollbacks.List(ctx, who, ref); err != nil {
			return view{}, err
		}
	}
	if f := s.services.Fleet; f != nil {
		if d.Applications, err = f.Applications(ctx, who, ref); err != nil {
			return view{}, err
		}
		lanes, err := f.Lanes(ctx, who, ref)
		if err != nil {
			return view{}, err
		}
		for i, l := range lanes {
			if l.Service == ref.Service && l.Environment == ref.Environment {
				d.Lane = &lanes[i]
			}
		}
	}
	return view{Title: ref.Service + " in " + ref.Environment, Nav: "promotions", Data: d}, nil
}

// previewData is what the page before a rollback shows.
type previewData struct {
	Request   api.RollbackRequest
	Preview   promo.Preview
	RequestID string
}

func (s *Server) rollbackPages() {
	rb := s.services.Rollbacks
	const one = "/projects/{project}/rollbacks/{service}/{environment}/{run}"
	s.page(route{Method: http.MethodGet, Path: environmentPage + "/rollback", Action: auth.RollbackRead, Kind: "environment"}, "preview", s.loadPreview)
	s.form(route{Path: environmentPage + "/rollback", Action: auth.RollbackRun, Kind: "environment"}, func(r *http.Request) (string, error) {
		started, err := rb.Start(r.Context(), whoFrom(r.Context()), rollbackRequest(r))
		if err != nil {
			return "", err
		}
		return rollbackPath(started.ID), nil
	})
	s.page(route{Method: http.MethodGet, Path: one, Action: auth.RollbackRead, Kind: "rollback"}, "rollback", func(r *http.Request) (view, error) {
		got, err := rb.Get(r.Context(), whoFrom(r.Context()), rollbackID(r))
		return view{Title: "Rollback of " + got.Service + " in " + got.Environment, Nav: "promotions", Watch: "rollback/" + got.ID, Data: got}, err
	})
	s.form(route{Path: one + "/decide", Action: auth.RollbackRun, Kind: "rollback"}, func(r *http.Request) (string, error) {
		req := decideRequest(r)
		req.ID = "rollback/" + rollbackID(r)
		_, err := s.services.Promotions.Decide(r.Context(), whoFrom(r.Context()), req)
		return pageOf(r), err
	})
	s.form(route{Path: one + "/abort", Action: auth.RollbackRun, Kind: "rollback"}, func(r *http.Request) (string, error) {
		return pageOf(r), rb.Abort(r.Context(), whoFrom(r.Context()), api.AbortRequest{ID: rollbackID(r), Reason: r.PostFormValue("reason")})
	})
}

func rollbackID(r *http.Request) string {
	return r.PathValue("project") + "/" + r.PathValue("service") + "/" + r.PathValue("environment") + "/" + r.PathValue("run")
}

// rollbackPath is the page of a rollback by its id.
func rollbackPath(id string) string {
	project, rest, _ := strings.Cut(id, "/")
	return "/projects/" + project + "/rollbacks/" + rest
}

// rollbackRequest reads a preview's query or the form that confirms it.
func rollbackRequest(r *http.Request) api.RollbackRequest {
	return api.RollbackRequest{
		Project: r.PathValue("project"), Service: r.PathValue("service"), Environment: r.PathValue("environment"),
		To: r.FormValue("to"), Reason: strings.TrimSpace(r.FormValue("reason")), Shared: r.FormValue("shared"),
		NoPrune: r.FormValue("noPrune") != "", RequestID: r.FormValue("request"),
	}
}

func (s *Server) loadPreview(r *http.Request) (view, error) {
	req := rollbackRequest(r)
	preview, err := s.services.Rollbacks.Preview(r.Context(), whoFrom(r.Context()), req)
	return view{
		Title: "Roll back " + req.Service + " in " + req.Environment, Nav: "promotions",
		Data: previewData{Request: req, Preview: preview, RequestID: requestID()},
	}, err
}

// fleetData is what the fleet page shows.
type fleetData struct {
	Applications []api.FleetEntry
	Lanes        []api.Lane
	// OutOfSync are those whose difference from Git can be shown.
	OutOfSync []api.FleetEntry
}

func (s *Server) loadFleet(r *http.Request) (view, error) {
	ctx, who, ref := r.Context(), whoFrom(r.Context()), api.EnvironmentRef{Project: r.PathValue("project")}
	var d fleetData
	var err error
	if d.Applications, err = s.services.Fleet.Applications(ctx, who, ref); err != nil {
		return view{}, err
	}
	for _, e := range d.Applications {
		if e.Sync == promo.SyncOutOfSync && s.services.SandboxApps != nil {
			d.OutOfSync = append(d.OutOfSync, e)
		}
	}
	d.Lanes, err = s.services.Fleet.Lanes(ctx, who, ref)
	return view{Title: "Fleet", Nav: "fleet", Data: d}, err
}

func (s *Server) loadDecisions(r *http.Request) (view, error) {
	q := r.URL.Query()
	list, err := s.services.Records.Decisions(r.Context(), whoFrom(r.Context()), api.DecisionFilter{
		Project: r.PathValue("project"), Subject: q.Get("subject"), Denied: q.Get("denied") != "", Before: q.Get("before"), Limit: pageSize,
	})
	return view{Title: "Policy decisions", Nav: "decisions", Data: list}, err
}

func (s *Server) loadAudit(r *http.Request) (view, error) {
	list, err := s.services.Records.Audit(r.Context(), whoFrom(r.Context()), api.AuditFilter{Project: r.PathValue("project"), Who: r.URL.Query().Get("who"), Limit: 2 * pageSize})
	return view{Title: "Audit", Nav: "audit", Data: list}, err
}
