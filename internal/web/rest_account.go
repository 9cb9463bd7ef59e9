package web

import (
	"context"
	"net/http"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
)

func (s *Server) restAgents() {
	a := s.services.Agents
	operation(s, route{Method: http.MethodGet, Path: "/api/agents", Action: auth.AgentRead, Kind: "agent", Summary: "List agents"},
		func(ctx context.Context, who promo.Principal, _ *none) ([]api.Agent, error) {
			return list(a.List(ctx, who))
		})
	type createInput struct{ Body api.AgentRequest }
	operation(s, route{Method: http.MethodPost, Path: "/api/agents", Action: auth.AgentAdmin, Kind: "agent", Summary: "Create an agent; answers with its enrolment token, once"},
		func(ctx context.Context, who promo.Principal, in *createInput) (api.NewAgent, error) {
			return a.Create(ctx, who, in.Body)
		})
	operation(s, route{Method: http.MethodDelete, Path: "/api/agents/{name}", Action: auth.AgentAdmin, Kind: "agent", Summary: "Revoke an agent"},
		func(ctx context.Context, who promo.Principal, in *NamePath) (ok, error) {
			return ok{OK: true}, a.Revoke(ctx, who, in.Name)
		})
}

func (s *Server) restTokens() {
	t := s.services.Tokens
	operation(s, route{Method: http.MethodGet, Path: "/api/tokens", Action: auth.TokenAdmin, Kind: "token", Summary: "List tokens"},
		func(ctx context.Context, who promo.Principal, _ *none) ([]api.Token, error) {
			return list(t.List(ctx, who))
		})
	type createInput struct{ Body api.TokenRequest }
	operation(s, route{Method: http.MethodPost, Path: "/api/tokens", Action: auth.TokenAdmin, Kind: "token", Summary: "Make a token; answers with its secret, once"},
		func(ctx context.Context, who promo.Principal, in *createInput) (api.NewToken, error) {
			return t.Create(ctx, who, in.Body)
		})
	operation(s, route{Method: http.MethodDelete, Path: "/api/tokens/{name}", Action: auth.TokenAdmin, Kind: "token", Summary: "Revoke a token"},
		func(ctx context.Context, who promo.Principal, in *NamePath) (ok, error) {
			return ok{OK: true}, t.Revoke(ctx, who, in.Name)
		})
}

func (s *Server) restRecords() {
	r := s.services.Records
	type evalInput struct {
		ProjectPath
		Body api.EvaluateRequest
	}
	operation(s, route{Method: http.MethodPost, Path: "/api/projects/{project}/policies/evaluate", Action: auth.PolicyEvaluate, Kind: "policy", Summary: "Ask policy sets about an input; nothing is recorded"},
		func(ctx context.Context, who promo.Principal, in *evalInput) (api.EvaluateResult, error) {
			in.Body.Project = in.Project
			return r.Evaluate(ctx, who, in.Body)
		})
	type decisionsInput struct {
		ProjectPath
		Subject string `query:"subject"`
		Denied  bool   `query:"denied"`
		Limit   int    `query:"limit" minimum:"0" maximum:"1000"`
		Before  string `query:"before"`
	}
	operation(s, route{Method: http.MethodGet, Path: "/api/projects/{project}/decisions", Action: auth.DecisionRead, Kind: "decision", Summary: "List policy decisions, newest first"},
		func(ctx context.Context, who promo.Principal, in *decisionsInput) ([]api.Decision, error) {
			return list(r.Decisions(ctx, who, api.DecisionFilter{Project: in.Project, Subject: in.Subject, Denied: in.Denied, Limit: in.Limit, Before: in.Before}))
		})
	type auditInput struct {
		ProjectPath
		Who     string `query:"who"`
		Action  string `query:"action"`
		Subject string `query:"subject"`
		Limit   int    `query:"limit" minimum:"0" maximum:"1000"`
		Before  int64  `query:"before"`
	}
	operation(s, route{Method: http.MethodGet, Path: "/api/projects/{project}/audit", Action: auth.AuditRead, Kind: "audit", Summary: "List the audit, newest first"},
		func(ctx context.Context, who promo.Principal, in *auditInput) ([]api.AuditEntry, error) {
			return list(r.Audit(ctx, who, api.AuditFilter{Project: in.Project, Who: in.Who, Action: in.Action, Subject: in.Subject, Limit: in.Limit, Before: in.Before}))
		})
	s.route(route{Method: http.MethodGet, Path: "/api/projects/{project}/blobs/{digest}", Action: auth.PromotionRead, Kind: "blob", Summary: "Get a diff, chart or log by its digest"},
		http.HandlerFunc(s.blob))
}

// blob answers with stored data. It may be somebody's text, so a browser is told to show it as that.
func (s *Server) blob(w http.ResponseWriter, r *http.Request) {
	b, err := s.services.Records.Blob(r.Context(), whoFrom(r.Context()), api.BlobRequest{Project: r.PathValue("project"), Digest: r.PathValue("digest")})
	if err != nil {
		s.mapped(r.Context(), route{Method: r.Method, Path: "/api/projects/{project}/blobs/{digest}"}, err).write(w)
		return
	}
	mediaType := "text/plain; charset=utf-8"
	if b.MediaType == "application/json" {
		mediaType = b.MediaType
	}
	w.Header().Set("Content-Type", mediaType)
	w.Header().Set("Cache-Control", "private, max-age=31536000, immutable") // a digest names its bytes for ever
	_, _ = w.Write(b.Data)                                                  // the client may be gone
}

func (s *Server) restPullRequests() {
	p := s.services.PullRequests
	type listInput struct {
		Repository string `query:"repository"`
		State      string `query:"state" enum:"open,merged,closed"`
	}
	operation(s, route{Method: http.MethodGet, Path: "/api/pull-requests", Action: auth.PullRequestRead, Kind: "pullrequest", Summary: "List pull requests of the local forge"},
		func(ctx context.Context, who promo.Principal, in *listInput) ([]api.PullRequest, error) {
			return list(p.List(ctx, who, api.PullRequestRef{Repository: in.Repository, State: in.State}))
		})
	type RefPath struct {
		Repository string `path:"repository" maxLength:"128"`
		Number     int    `path:"number" minimum:"1"`
	}
	const one = "/api/pull-requests/{repository}/{number}"
	operation(s, route{Method: http.MethodGet, Path: one, Action: auth.PullRequestRead, Kind: "pullrequest", Summary: "Get a pull request with its diff"},
		func(ctx context.Context, who promo.Principal, in *RefPath) (api.PullRequest, error) {
			return p.Get(ctx, who, api.PullRequestRef{Repository: in.Repository, Number: in.Number})
		})
	type reviewInput struct {
		RefPath
		Body api.ReviewRequest
	}
	operation(s, route{Method: http.MethodPost, Path: one + "/review", Action: auth.PullRequestReview, Kind: "pullrequest", Summary: "Review a pull request"},
		func(ctx context.Context, who promo.Principal, in *reviewInput) (api.PullRequest, error) {
			in.Body.Repository, in.Body.Number = in.Repository, in.Number
			return p.Review(ctx, who, in.Body)
		})
	type mergeInput struct {
		RefPath
		Body api.PullRequestRef
	}
	operation(s, route{Method: http.MethodPost, Path: one + "/merge", Action: auth.PullRequestMerge, Kind: "pullrequest", Summary: "Merge a pull request"},
		func(ctx context.Context, who promo.Principal, in *mergeInput) (api.PullRequest, error) {
			in.Body.Repository, in.Body.Number = in.Repository, in.Number
			return p.Merge(ctx, who, in.Body)
		})
	operation(s, route{Method: http.MethodPost, Path: one + "/close", Action: auth.PullRequestMerge, Kind: "pullrequest", Summary: "Close a pull request"},
		func(ctx context.Context, who promo.Principal, in *RefPath) (api.PullRequest, error) {
			return p.Close(ctx, who, api.PullRequestRef{Repository: in.Repository, Number: in.Number})
		})
}

func (s *Server) restAccount() {
	operation(s, route{Method: http.MethodGet, Path: "/api/me", Action: auth.AccountRead, Kind: "account", Summary: "Say who the caller is"},
		func(_ context.Context, who promo.Principal, _ *none) (api.Me, error) {
			groups, _ := list(who.Groups, nil)
			return api.Me{Name: who.Name, Groups: groups, Demo: s.demo != nil}, nil
		})
	operation(s, route{Method: http.MethodGet, Path: "/api/version", Action: auth.AccountRead, Kind: "account", Summary: "Say which version this is"},
		func(context.Context, promo.Principal, *none) (api.Version, error) { return s.version, nil })
	s.route(route{Method: http.MethodGet, Path: "/api/schema", Action: auth.AccountRead, Kind: "account", Summary: "Get the JSON Schema of definitions"},
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.schema) }))
	s.route(route{Method: http.MethodGet, Path: "/api/openapi.json", Action: auth.AccountRead, Kind: "account", Summary: "Get this description"},
		http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, s.openAPI) }))
}

func writeJSON(w http.ResponseWriter, body []byte) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-cache")
	_, _ = w.Write(body) // the client may be gone
}
