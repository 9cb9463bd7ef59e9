package web

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
)

// runData is what the page shows from which people start a promotion.
type runData struct {
	Pipelines []api.Pipeline
	Chosen    *api.Pipeline
	// Given are the inputs as they were typed.
	Given map[string]string
	// Plan is what a run with them would do, where that was asked for.
	Plan *api.PlanResult
	// Problem is why there is no plan.
	Problem   *problem
	RequestID string
}

const runPage = "/projects/{project}/run"

func (s *Server) runPages() {
	s.page(route{Method: http.MethodGet, Path: runPage, Action: auth.PromotionRun, Kind: "pipeline"}, "run", s.loadRun)
	s.form(route{Path: "/projects/{project}/pipelines/{pipeline}/run", Action: auth.PromotionRun, Kind: "pipeline"}, func(r *http.Request) (string, error) {
		req, err := s.runRequest(r, r.PathValue("pipeline"))
		if err != nil {
			return "", err
		}
		p, err := s.services.Runs.Run(r.Context(), whoFrom(r.Context()), req)
		if err != nil {
			return "", err
		}
		return "/projects/" + url.PathEscape(p.Project) + "/promotions/" + url.PathEscape(p.Pipeline) + "/" + strconv.Itoa(p.Number), nil
	})
}

func (s *Server) loadRun(r *http.Request) (view, error) {
	d := runData{Given: map[string]string{}, RequestID: requestID()}
	var err error
	if d.Pipelines, err = s.services.Runs.Pipelines(r.Context(), whoFrom(r.Context()), r.PathValue("project")); err != nil {
		return view{}, err
	}
	wanted := r.FormValue("pipeline")
	for i, p := range d.Pipelines {
		if p.Name == wanted || (wanted == "" && len(d.Pipelines) == 1) {
			d.Chosen = &d.Pipelines[i]
		}
	}
	if d.Chosen == nil {
		if wanted != "" {
			return view{}, promo.Errorf(promo.CodeNotFound, "there is no pipeline %q", wanted)
		}
		return view{Title: "Run", Nav: "promotions", Data: d}, nil
	}
	for name := range r.Form {
		if key, ok := strings.CutPrefix(name, "input."); ok {
			d.Given[key] = r.FormValue(name)
		}
	}
	if r.FormValue("plan") != "" {
		req, err := s.runRequest(r, d.Chosen.Name)
		if err == nil {
			var plan api.PlanResult
			plan, err = s.services.Runs.Plan(r.Context(), whoFrom(r.Context()), req)
			d.Plan = &plan
		}
		if err != nil {
			d.Plan, d.Problem = nil, s.mapped(r.Context(), route{Method: r.Method, Path: runPage}, err)
		}
	}
	return view{Title: "Run " + d.Chosen.Name, Nav: "promotions", Data: d}, nil
}

// runRequest reads the form: a number and a boolean become what the pipeline declares; an empty field is left to
// the pipeline's default.
func (s *Server) runRequest(r *http.Request, pipeline string) (api.RunRequest, error) {
	req := api.RunRequest{Project: r.PathValue("project"), Pipeline: pipeline, Inputs: map[string]any{}, RequestID: r.FormValue("request")}
	list, err := s.services.Runs.Pipelines(r.Context(), whoFrom(r.Context()), req.Project)
	if err != nil {
		return req, err
	}
	for _, p := range list {
		if p.Name != pipeline {
			continue
		}
		for _, in := range p.Inputs {
			text := strings.TrimSpace(r.FormValue("input." + in.Name))
			switch {
			case text == "":
			case in.Type == "number":
				n, err := strconv.ParseFloat(text, 64)
				if err != nil {
					return req, promo.Errorf(promo.CodeConfiguration, "input %q: %q is no number", in.Name, text)
				}
				req.Inputs[in.Name] = n
			case in.Type == "boolean":
				req.Inputs[in.Name] = text == "true"
			default:
				req.Inputs[in.Name] = text
			}
		}
	}
	return req, nil
}
