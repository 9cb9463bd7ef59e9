package web

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"net/http"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
)

// Options are what a Server is made of. Auth, Authz and Log are needed, the rest may be left out.
type Options struct {
	Services Services
	Auth     Authenticator
	Authz    Authorizer
	Sessions Sessions
	// Demo, where set, lets anybody act as one of DemoUsers; every page says so.
	Demo      Demo
	DemoUsers []string
	// Hosts are the only names under which the server answers; empty for any (auth.Guard).
	Hosts []string
	// Ready answers nil once the server can work.
	Ready func(context.Context) error
	// Metrics serves Prometheus's text format.
	Metrics http.Handler
	// Schema is the JSON Schema of definitions.
	Schema  []byte
	Version api.Version
	// Project is the one that pages open with; "default" where empty.
	Project string
	Log     *slog.Logger
	Now     func() time.Time
}

// Sessions keeps browsers signed in by a cookie. *auth.Authenticator is one.
type Sessions interface {
	SignIn(w http.ResponseWriter, r *http.Request, token promo.Secret) (auth.Identity, error)
	SignOut(w http.ResponseWriter)
}

// Demo lets a browser act as one of a few users without a password. *auth.Authenticator is one.
type Demo interface {
	Switch(w http.ResponseWriter, r *http.Request, user string) error
}

// Server is the handler of everything under the listen address.
type Server struct {
	mux      *http.ServeMux
	huma     huma.API
	services Services
	auth     Authenticator
	authz    Authorizer
	sessions Sessions
	demo     Demo
	users    []string
	pages    *pages
	log      *slog.Logger
	now      func() time.Time
	version  api.Version
	project  string
	schema   []byte
	openAPI  []byte
	routes   []route
	publics  []string
	handler  http.Handler
}

// New wires every route. Errors are mistakes in the embedded assets.
func New(o Options) (*Server, error) {
	s := &Server{
		mux: http.NewServeMux(), services: o.Services, auth: o.Auth, authz: o.Authz, sessions: o.Sessions,
		demo: o.Demo, users: o.DemoUsers, log: o.Log, now: o.Now, version: o.Version, project: o.Project, schema: o.Schema,
	}
	if s.now == nil {
		s.now = time.Now
	}
	if s.project == "" {
		s.project = "default"
	}
	if len(s.schema) == 0 {
		s.schema = []byte("{}")
	}
	var err error
	if s.pages, err = newPages(s.now); err != nil {
		return nil, err
	}
	s.huma = huma.NewAPI(apiConfig(o.Version.Version), doorAdapter{s})
	s.rest()
	s.pageRoutes()
	s.publicRoutes(o)
	if err := s.describe(); err != nil {
		return nil, err
	}
	s.handler = secured(auth.Guard(o.Hosts, s.mux))
	return s, nil
}

// ServeHTTP serves a request.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

// Describe returns the OpenAPI document, for the generated reference.
func (s *Server) Describe() []byte { return bytes.Clone(s.openAPI) }

func apiConfig(version string) huma.Config {
	c := huma.DefaultConfig("Davit", version)
	c.Info.Description = "Promotion pipelines for GitOps."
	// Davit registers its own description behind the door, and answers hold nothing but what they mean.
	c.OpenAPIPath, c.DocsPath, c.SchemasPath, c.CreateHooks = "", "", "", nil
	c.FieldsOptionalByDefault = true
	c.RejectUnknownQueryParameters = true
	c.Transformers = []huma.Transformer{fromHuma}
	c.Components.SecuritySchemes = map[string]*huma.SecurityScheme{"token": {Type: "http", Scheme: "bearer"}}
	c.Security = []map[string][]string{{"token": {}}}
	return c
}

// rest registers what services are there for.
func (s *Server) rest() {
	sv := s.services
	for _, noun := range []struct {
		there    bool
		register func()
	}{
		{sv.Promotions != nil, s.restPromotions},
		{sv.Runs != nil, s.restRuns},
		{sv.Definitions != nil, s.restDefinitions},
		{sv.Environments != nil, s.restEnvironments},
		{sv.Rollbacks != nil, s.restRollbacks},
		{sv.Fleet != nil, s.restFleet},
		{sv.PullRequests != nil, s.restPullRequests},
		{sv.Agents != nil, s.restAgents},
		{sv.Tokens != nil, s.restTokens},
		{sv.Records != nil, s.restRecords},
		{sv.Sandbox != nil, s.restSandbox},
		{sv.SandboxApps != nil, s.restSandboxApps},
		{sv.Changes != nil, s.streams},
		{sv.Repositories != nil, s.restRepositories},
		{sv.SandboxLinks != nil, s.restSandboxLinks},
		{true, s.restAccount},
	} {
		if noun.there {
			noun.register()
		}
	}
}

// describe completes the OpenAPI document with the operations that huma doesn't serve, and freezes it.
func (s *Server) describe() error {
	doc := s.huma.OpenAPI()
	for _, rt := range s.routes {
		if rt.Page || (doc.Paths[rt.Path] != nil && rt.Method == http.MethodGet && doc.Paths[rt.Path].Get != nil) || rt.Summary == "" {
			continue
		}
		if item := doc.Paths[rt.Path]; item != nil && rt.Method != http.MethodGet {
			continue
		}
		doc.AddOperation(&huma.Operation{
			OperationID: operationID(rt), Method: rt.Method, Path: rt.Path, Summary: rt.Summary, Tags: []string{rt.Kind},
			Description: "Needs the permission `" + rt.Action + "`.",
			Responses:   map[string]*huma.Response{"200": {Description: "OK"}},
		})
	}
	problems(doc)
	var err error
	if s.openAPI, err = json.MarshalIndent(doc, "", "  "); err != nil {
		return fmt.Errorf("OpenAPI document: %w", err)
	}
	return nil
}

// problems documents the body of every error.
func problems(doc *huma.OpenAPI) {
	schema := doc.Components.Schemas.Schema(typeOf[api.Problem](), true, "")
	answer := &huma.Response{
		Description: "What went wrong; a policy's refusal is {\"deny\": [reasons]} with status 403.",
		Content:     map[string]*huma.MediaType{"application/json": {Schema: schema}},
	}
	for _, item := range doc.Paths {
		for _, op := range []*huma.Operation{item.Get, item.Post, item.Put, item.Delete} {
			if op != nil {
				op.Responses["default"] = answer
			}
		}
	}
}

// public registers a route without the door. The list is closed: a test holds it.
func (s *Server) public(pattern string, h http.Handler) {
	s.publics = append(s.publics, pattern)
	s.mux.Handle(pattern, http.MaxBytesHandler(h, 64<<10)) // forms of a field or two
}

func (s *Server) publicRoutes(o Options) {
	text := func(status int, body string) http.HandlerFunc {
		return func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Type", "text/plain; charset=utf-8")
			w.WriteHeader(status)
			_, _ = w.Write([]byte(body)) // the client may be gone
		}
	}
	s.public("GET /healthz", text(http.StatusOK, "ok\n"))
	s.public("GET /readyz", http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if o.Ready != nil {
			ctx, cancel := context.WithTimeout(r.Context(), 5*time.Second) // a probe's patience
			defer cancel()
			if err := o.Ready(ctx); err != nil {
				s.log.WarnContext(ctx, "not ready", "error", err)
				text(http.StatusServiceUnavailable, "not ready\n")(w, r)
				return
			}
		}
		text(http.StatusOK, "ready\n")(w, r)
	}))
	if o.Metrics != nil {
		s.public("GET /metrics", o.Metrics)
	}
	s.public("GET /assets/", s.pages.assets)
	s.public("GET /login", http.HandlerFunc(s.loginPage))
	s.public("POST /login", http.HandlerFunc(s.login))
	s.public("POST /logout", http.HandlerFunc(s.logout))
	if s.demo != nil {
		s.public("POST /demo", http.HandlerFunc(s.switchUser))
	}
}

// secured sets the headers that every answer carries.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "+
			"connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=()")
		h.Set("Cache-Control", "no-cache")
		next.ServeHTTP(w, r)
	})
}
