package web

import (
	"crypto/rand"
	"encoding/json"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
)

const (
	promotionsPage = "/projects/{project}/promotions"
	promotionPage  = promotionsPage + "/{pipeline}/{number}"
)

// listData is what the list of promotions shows.
type listData struct {
	Filter     api.PromotionFilter
	Promotions []promo.Promotion
	Stands     []stand
	Columns    []string
	Next       string
}

// stand is where a service stands: per environment what runs there, as far as the promotions shown know.
type stand struct {
	Service string
	Cells   []standCell
}

type standCell struct {
	Environment string
	There       *promo.KnownGood
	Hold        *promo.Hold
}

const pageSize = 50

func (s *Server) pageRoutes() {
	s.route(route{Method: http.MethodGet, Path: "/{$}", Action: auth.AccountRead, Kind: "account", Page: true}, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/projects/"+url.PathEscape(s.project)+"/promotions", http.StatusFound)
	}))
	if s.services.Promotions != nil {
		s.promotionPages()
	}
	if s.services.Runs != nil {
		s.runPages()
	}
	if s.services.Environments != nil {
		s.environmentPages()
	}
	if s.services.Rollbacks != nil {
		s.rollbackPages()
	}
	if s.services.Fleet != nil {
		s.page(route{Method: http.MethodGet, Path: "/projects/{project}/fleet", Action: auth.FleetRead, Kind: "fleet"}, "fleet", s.loadFleet)
	}
	if s.services.PullRequests != nil {
		s.pullRequestPages()
	}
	if s.services.Records != nil {
		s.page(route{Method: http.MethodGet, Path: "/projects/{project}/decisions", Action: auth.DecisionRead, Kind: "decision"}, "decisions", s.loadDecisions)
		s.page(route{Method: http.MethodGet, Path: "/projects/{project}/audit", Action: auth.AuditRead, Kind: "audit"}, "audit", s.loadAudit)
	}
}

func (s *Server) promotionPages() {
	s.page(route{Method: http.MethodGet, Path: promotionsPage, Action: auth.PromotionRead, Kind: "promotion"}, "promotions", s.loadPromotions)
	s.page(route{Method: http.MethodGet, Path: promotionPage, Action: auth.PromotionRead, Kind: "promotion"}, "promotion", s.loadPromotion)
	p := s.services.Promotions
	s.form(route{Path: promotionPage + "/decide", Action: auth.PromotionDecide, Kind: "promotion"}, func(r *http.Request) (string, error) {
		_, err := p.Decide(r.Context(), whoFrom(r.Context()), decideRequest(r))
		return pageOf(r), err
	})
	s.form(route{Path: promotionPage + "/abort", Action: auth.PromotionAbort, Kind: "promotion"}, func(r *http.Request) (string, error) {
		return pageOf(r), p.Abort(r.Context(), whoFrom(r.Context()), api.AbortRequest{ID: promotionID(r), Reason: r.PostFormValue("reason"), RequestID: r.PostFormValue("request")})
	})
	s.form(route{Path: promotionPage + "/retry", Action: auth.PromotionRetry, Kind: "promotion"}, func(r *http.Request) (string, error) {
		_, err := p.Retry(r.Context(), whoFrom(r.Context()), api.RetryRequest{ID: promotionID(r), RequestID: r.PostFormValue("request")})
		return pageOf(r), err
	})
}

func promotionID(r *http.Request) string {
	return r.PathValue("project") + "/" + r.PathValue("pipeline") + "/" + r.PathValue("number")
}

// pageOf is the page whose form posted: its path without the verb.
func pageOf(r *http.Request) string {
	p := r.URL.EscapedPath()
	return p[:strings.LastIndex(p, "/")]
}

// decideRequest reads the approval form. Its digest is the one that the person looked at.
func decideRequest(r *http.Request) api.DecideRequest {
	wave, _ := strconv.Atoi(r.PostFormValue("wave")) // hidden field; anything else is wave 0
	req := api.DecideRequest{
		ID: promotionID(r), Approve: r.PostFormValue("decision") == "approve",
		Stage: r.PostFormValue("stage"), Step: r.PostFormValue("step"), Wave: wave,
		Comment: r.PostFormValue("comment"), Digest: r.PostFormValue("digest"), RequestID: r.PostFormValue("request"),
	}
	for name, values := range r.PostForm {
		if key, ok := strings.CutPrefix(name, "input."); ok && len(values) > 0 {
			if req.Inputs == nil {
				req.Inputs = map[string]string{}
			}
			req.Inputs[key] = values[0]
		}
	}
	return req
}

func (s *Server) loadPromotions(r *http.Request) (view, error) {
	q := r.URL.Query()
	f := api.PromotionFilter{
		Project: r.PathValue("project"), Pipeline: q.Get("pipeline"), Service: q.Get("service"), Environment: q.Get("environment"),
		Phase: promo.Phase(q.Get("phase")), Active: q.Get("active") != "", Before: q.Get("before"), Limit: pageSize,
	}
	list, err := s.services.Promotions.List(r.Context(), whoFrom(r.Context()), f)
	if err != nil {
		return view{}, err
	}
	d := listData{Filter: f, Promotions: list}
	if len(list) == pageSize {
		q.Set("before", list[len(list)-1].ID)
		d.Next = "?" + q.Encode()
	}
	if f.Before == "" {
		if d.Columns, d.Stands, err = s.stands(r, list); err != nil {
			return view{}, err
		}
	}
	return view{Title: "Promotions", Nav: "promotions", Data: d}, nil
}

// stands says where the services of the promotions stand, from the environments' own histories.
func (s *Server) stands(r *http.Request, list []promo.Promotion) ([]string, []stand, error) {
	if s.services.Environments == nil {
		return nil, nil, nil
	}
	services, columns, reaches := grid(list)
	ctx, who, project := r.Context(), whoFrom(r.Context()), r.PathValue("project")
	holds, err := s.services.Environments.Holds(ctx, who, api.EnvironmentRef{Project: project})
	if err != nil {
		return nil, nil, err
	}
	out := make([]stand, 0, len(services))
	for _, service := range services {
		row := stand{Service: service}
		for _, env := range columns {
			cell := standCell{Environment: env}
			if reaches[[2]string{service, env}] {
				h, err := s.services.Environments.History(ctx, who, api.EnvironmentRef{Project: project, Service: service, Environment: env, Limit: 1})
				if err != nil {
					return nil, nil, err
				}
				if len(h) > 0 {
					cell.There = &h[0]
				}
				cell.Hold = holdOf(holds, service, env)
			}
			row.Cells = append(row.Cells, cell)
		}
		out = append(out, row)
	}
	return columns, out, nil
}

// grid lists services and environments in the order of the promotions, and which service reaches which.
func grid(list []promo.Promotion) (services, environments []string, reaches map[[2]string]bool) {
	reaches = map[[2]string]bool{}
	for _, p := range list {
		if !slices.Contains(services, p.Service) {
			services = append(services, p.Service)
		}
		for _, st := range p.Stages {
			if st.Environment == "" {
				continue
			}
			reaches[[2]string{p.Service, st.Environment}] = true
			if !slices.Contains(environments, st.Environment) {
				environments = append(environments, st.Environment)
			}
		}
	}
	return services, environments, reaches
}

func holdOf(holds []promo.Hold, service, environment string) *promo.Hold {
	for i, h := range holds {
		if h.Service == service && h.Environment == environment {
			return &holds[i]
		}
	}
	return nil
}

// promotionData is what a promotion's page shows.
type promotionData struct {
	promo.Promotion
	Waiting   []waiting
	Decisions []api.Decision
	Diffs     map[string]string // by the digest under which they are kept
	RequestID string            // of the forms, so that a double click decides once
	Rollback  string            // the path of the rollback that the failure caused
}

// waiting is a step that waits for a decision.
type waiting struct {
	Stage string
	Step  promo.Step
	Left  int
}

func (s *Server) loadPromotion(r *http.Request) (view, error) {
	ctx, who := r.Context(), whoFrom(r.Context())
	p, err := s.services.Promotions.Get(ctx, who, promotionID(r))
	if err != nil {
		return view{}, err
	}
	d := promotionData{Promotion: p, Diffs: map[string]string{}, RequestID: requestID()}
	if p.Rollback != "" {
		d.Rollback = rollbackPath(p.Rollback)
	}
	for _, st := range p.Stages {
		for _, step := range st.Steps {
			if step.Approval != nil && (step.Phase == promo.PhaseWaitingForApproval || step.Phase == promo.PhasePaused) {
				d.Waiting = append(d.Waiting, waiting{Stage: st.Name, Step: step, Left: missingApprovals(step.Approval)})
			}
		}
	}
	s.loadDiffs(r, &d)
	if s.services.Records != nil {
		if d.Decisions, err = s.services.Records.Decisions(ctx, who, api.DecisionFilter{Project: p.Project, Subject: p.ID, Limit: pageSize}); err != nil {
			return view{}, err
		}
	}
	return view{Title: p.Pipeline + " #" + strconv.Itoa(p.Number), Nav: "promotions", Watch: "promotion/" + p.ID, Data: d}, nil
}

func missingApprovals(a *promo.Approval) int {
	left := a.Minimum
	for _, d := range a.Decisions {
		if d.Approve && d.Void == "" {
			left--
		}
	}
	return max(left, 0)
}

// maxDiffs bounds how many diffs a page reads from the store: those of some twenty waves.
const maxDiffs = 20

// loadDiffs reads the diffs that the promotion's steps name. One that is gone is left out: the page still shows
// the rest.
func (s *Server) loadDiffs(r *http.Request, d *promotionData) {
	if s.services.Records == nil {
		return
	}
	for _, digest := range diffDigests(d.Promotion) {
		if len(d.Diffs) == maxDiffs {
			return
		}
		b, err := s.services.Records.Blob(r.Context(), whoFrom(r.Context()), api.BlobRequest{Project: d.Project, Digest: digest})
		if err != nil {
			s.log.DebugContext(r.Context(), "diff not read", "digest", digest, "error", err)
			continue
		}
		d.Diffs[digest] = string(b.Data)
	}
}

func diffDigests(p promo.Promotion) []string {
	var out []string
	for _, st := range p.Stages {
		for _, step := range st.Steps {
			if digest := diffOf(step); digest != "" {
				out = append(out, digest)
			}
			if step.Approval != nil {
				for _, c := range step.Approval.Changes {
					if c.Diff != "" {
						out = append(out, c.Diff)
					}
				}
			}
		}
	}
	return out
}

// diffOf is the digest under which the diff of a step's change is kept, "" where it made none.
func diffOf(step promo.Step) string {
	var o struct {
		Diff string `json:"diff"`
	}
	if json.Unmarshal(step.Outputs, &o) != nil || len(o.Diff) != 64 {
		return ""
	}
	return o.Diff
}

// requestID makes the id by which a form that is sent twice acts once.
func requestID() string { return rand.Text() }
