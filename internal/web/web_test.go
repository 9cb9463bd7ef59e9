package web_test

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
	"github.com/davit-cd/davit/internal/web"
	"github.com/davit-cd/davit/internal/web/webtest"
)

type world struct {
	fakes webtest.Fakes
	feed  store.Feed
	web   *web.Server
	url   string
}

func serve(t *testing.T, people webtest.People) *world {
	t.Helper()
	w := &world{}
	var err error
	w.web, err = web.New(web.Options{
		Services: w.fakes.Services(&w.feed), Auth: people, Authz: people, Log: slog.New(slog.DiscardHandler),
		Version: api.Version{Version: "test"}, Schema: []byte(`{"type":"object"}`),
		Metrics: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "davit_up 1\n") }),
	})
	if err != nil {
		t.Fatal(err)
	}
	srv := httptest.NewServer(w.web)
	t.Cleanup(srv.Close)
	w.url = srv.URL
	return w
}

func (w *world) do(t *testing.T, method, path, as, body string, header ...string) (int, string, http.Header) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), method, w.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if as != "" {
		req.Header.Set("Authorization", "Bearer "+as)
	}
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i+1 < len(header); i += 2 {
		req.Header.Set(header[i], header[i+1])
	}
	client := &http.Client{CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }}
	res, err := client.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	b, err := io.ReadAll(io.LimitReader(res.Body, 1<<20))
	if err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	return res.StatusCode, string(b), res.Header
}

// pathOf fills a route's parameters.
func pathOf(pattern string) string {
	pattern = strings.ReplaceAll(strings.TrimSuffix(pattern, "{$}"), "{number}", "1")
	return regexp.MustCompile(`\{[a-z]+\}`).ReplaceAllString(pattern, "x")
}

func TestEveryRouteIsBehindTheDoor(t *testing.T) {
	t.Parallel()
	w := serve(t, webtest.People{})
	routes := w.web.Routes()
	if len(routes) < 60 {
		t.Fatalf("%d routes: the walk does not see them all", len(routes))
	}
	for _, rt := range routes {
		t.Run(rt.Method+" "+rt.Path, func(t *testing.T) {
			t.Parallel()
			if got, _, _ := w.do(t, rt.Method, pathOf(rt.Path), "", ""); got != http.StatusUnauthorized {
				t.Errorf("anonymous: status %d, want 401", got)
			}
			if strings.HasSuffix(rt.Action, ":read") {
				return
			}
			if got, _, _ := w.do(t, rt.Method, pathOf(rt.Path), "viewer", ""); got != http.StatusForbidden {
				t.Errorf("viewer without %s: status %d, want 403", rt.Action, got)
			}
		})
	}
}

func TestChangesAreNeverAllowedByARead(t *testing.T) {
	t.Parallel()
	w := serve(t, webtest.People{})
	// These only say what would be.
	dry := map[string]bool{"/plan": true, "/preview": true}
	for _, rt := range w.web.Routes() {
		last := rt.Path[strings.LastIndex(rt.Path, "/"):]
		if rt.Method != http.MethodGet && strings.HasSuffix(rt.Action, ":read") && !dry[last] {
			t.Errorf("%s %s changes something with %s", rt.Method, rt.Path, rt.Action)
		}
	}
}

func TestPublicRoutesAreAClosedList(t *testing.T) {
	t.Parallel()
	w := serve(t, webtest.People{})
	want := []string{"GET /healthz", "GET /readyz", "GET /metrics", "GET /assets/", "GET /login", "POST /login", "POST /logout"}
	if d := cmp.Diff(want, w.web.PublicRoutes()); d != "" {
		t.Error(d)
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/login"} {
		if got, _, _ := w.do(t, http.MethodGet, path, "", ""); got != http.StatusOK {
			t.Errorf("%s: status %d", path, got)
		}
	}
}

func TestTheDoorAsksAboutThePath(t *testing.T) {
	t.Parallel()
	var asked []auth.Resource
	w := serve(t, webtest.People{Asked: func(_ promo.Principal, _ string, on auth.Resource) { asked = append(asked, on) }})
	w.do(t, http.MethodPost, "/api/projects/shop/promotions/checkout/7/abort", "admin", `{"id":"other/checkout/1"}`)
	want := []auth.Resource{{Project: "shop", Kind: "promotion", Name: "checkout/7"}}
	if d := cmp.Diff(want, asked); d != "" {
		t.Error(d)
	}
}

func TestThePathWinsOverTheBody(t *testing.T) {
	t.Parallel()
	w := serve(t, webtest.People{})
	var got api.RunRequest
	w.fakes.Runs.RunFn = func(_ context.Context, _ promo.Principal, req api.RunRequest) (promo.Promotion, error) {
		got = req
		return promo.Promotion{ID: "shop/checkout/1"}, nil
	}
	status, body, _ := w.do(t, http.MethodPost, "/api/projects/shop/pipelines/checkout/run", "admin", `{"project":"other","pipeline":"x","inputs":{"version":"v1"}}`)
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	if d := cmp.Diff(api.RunRequest{Project: "shop", Pipeline: "checkout", Inputs: map[string]any{"version": "v1"}}, got); d != "" {
		t.Error(d)
	}
}

func TestErrors(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		err    error
		status int
		body   string
	}{
		"NotFound": {"a thing that isn't there", promo.Errorf(promo.CodeNotFound, "no promotion 9"), 404, `{"code":"NotFound","message":"no promotion 9"}`},
		"Conflict": {"the hint is told", promo.Errorf(promo.CodeConflict, "digest changed").WithHint("look again"), 409, `{"code":"Conflict","message":"digest changed","hint":"look again"}`},
		"Policy":   {"a refusal has its own body", promo.Errorf(promo.CodePolicy, "denied"), 403, `{"deny":["denied"]}`},
		"Denials":  {"all reasons are told", api.Refused([]string{"no friday", "no http"}), 403, `{"deny":["no friday","no http"]}`},
		"Config":   {"bad input", promo.Errorf(promo.CodeConfiguration, "bad"), 422, `{"code":"Configuration","message":"bad"}`},
		"Files":    {"every problem is told", api.Diagnosed(promo.Errorf(promo.CodeConfiguration, "2 problems"), []string{"a:1:1: x", "b:2:2: y"}), 422, `{"code":"Configuration","message":"2 problems","diagnostics":["a:1:1: x","b:2:2: y"]}`},
		"Rate":     {"too often", promo.Errorf(promo.CodeRateLimit, "slow down"), 429, `{"code":"RateLimit","message":"slow down"}`},
		"Secret":   {"internals stay in the log", errors.New("dial tcp 10.0.0.1: password=x"), 500, `{"code":"Internal","message":"the server met an unexpected error","hint":"the server's log says more"}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := serve(t, webtest.People{})
			w.fakes.Promotions.GetFn = func(context.Context, promo.Principal, string) (promo.Promotion, error) {
				return promo.Promotion{}, tc.err
			}
			status, body, _ := w.do(t, http.MethodGet, "/api/projects/shop/promotions/checkout/9", "admin", "")
			if status != tc.status || strings.TrimSpace(body) != tc.body {
				t.Errorf("%s: got %d %s", tc.reason, status, body)
			}
			if status, _, _ := w.do(t, http.MethodGet, "/projects/shop/promotions/checkout/9", "admin", ""); status != tc.status {
				t.Errorf("%s: page answers %d", tc.reason, status)
			}
		})
	}
}

func TestMalformedRequests(t *testing.T) {
	t.Parallel()
	w := serve(t, webtest.People{})
	for name, tc := range map[string]struct{ reason, path, body string }{
		"unknown field": {"a misspelt field must not be dropped", "/api/projects/shop/pipelines/checkout/run", `{"input":{}}`},
		"not JSON":      {"", "/api/projects/shop/pipelines/checkout/run", `{`},
		"wrong type":    {"", "/api/projects/shop/promotions/checkout/1/decide", `{"approve":"yes"}`},
		"unknown query": {"a misspelt filter must not list all", "/api/projects/shop/promotions/checkout/1/abort?force=1", `{}`},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			status, body, _ := w.do(t, http.MethodPost, tc.path, "admin", tc.body)
			var p api.Problem
			if err := json.Unmarshal([]byte(body), &p); err != nil || status/100 != 4 || p.Code != promo.CodeConfiguration || p.Message == "" {
				t.Errorf("%s: %d %s", tc.reason, status, body)
			}
		})
	}
}

func TestOtherSitesCannotAct(t *testing.T) {
	t.Parallel()
	w := serve(t, webtest.People{})
	w.fakes.Promotions.AbortFn = func(context.Context, promo.Principal, api.AbortRequest) error {
		t.Error("the request went through")
		return nil
	}
	for _, header := range [][]string{{"Sec-Fetch-Site", "cross-site"}, {"Origin", "https://evil.example.com"}} {
		if got, _, _ := w.do(t, http.MethodPost, "/api/projects/shop/promotions/checkout/1/abort", "admin", `{}`, header...); got != http.StatusForbidden {
			t.Errorf("%v: status %d", header, got)
		}
	}
}

func TestHeaders(t *testing.T) {
	t.Parallel()
	w := serve(t, webtest.People{})
	_, body, h := w.do(t, http.MethodGet, "/login", "", "")
	if csp := h.Get("Content-Security-Policy"); !strings.Contains(csp, "default-src 'none'") || strings.Contains(csp, "unsafe") {
		t.Errorf("policy %q", csp)
	}
	if strings.Contains(body, "style=") || strings.Contains(body, "onclick") {
		t.Error("the page has inline style or script, which its own policy forbids")
	}
	asset := regexp.MustCompile(`/assets/app\.[0-9a-f]+\.css`).FindString(body)
	status, _, h := w.do(t, http.MethodGet, asset, "", "")
	if status != http.StatusOK || !strings.Contains(h.Get("Cache-Control"), "immutable") {
		t.Errorf("asset %q: %d %q", asset, status, h.Get("Cache-Control"))
	}
}

func TestOpenAPIDescribesEveryRESTRoute(t *testing.T) {
	t.Parallel()
	w := serve(t, webtest.People{})
	_, body, _ := w.do(t, http.MethodGet, "/api/openapi.json", "viewer", "")
	var doc struct {
		OpenAPI string                    `json:"openapi"`
		Paths   map[string]map[string]any `json:"paths"`
	}
	if err := json.Unmarshal([]byte(body), &doc); err != nil {
		t.Fatal(err)
	}
	if !strings.HasPrefix(doc.OpenAPI, "3.1") {
		t.Errorf("version %q", doc.OpenAPI)
	}
	for _, rt := range w.web.Routes() {
		if strings.HasPrefix(rt.Path, "/api/") && doc.Paths[rt.Path][strings.ToLower(rt.Method)] == nil {
			t.Errorf("%s %s is not described", rt.Method, rt.Path)
		}
	}
}

func TestAPromotionIsStreamedToItsEnd(t *testing.T) {
	t.Parallel()
	w := serve(t, webtest.People{})
	phases := make(chan promo.Phase, 1)
	phases <- promo.PhaseRunning
	w.fakes.Promotions.GetFn = func(_ context.Context, _ promo.Principal, id string) (promo.Promotion, error) {
		return promo.Promotion{ID: id, Phase: <-phases}, nil
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, w.url+"/api/projects/shop/promotions/checkout/1/events", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer viewer")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = res.Body.Close() }()
	var got []string
	for lines := bufio.NewScanner(res.Body); lines.Scan(); {
		if event, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			got = append(got, event)
			if len(got) == 1 { // the first state is there: the next one is the last
				phases <- promo.PhaseSucceeded
				w.feed.Publish(store.Event{Kind: store.EventPromotion, ID: "shop/other/1"}, store.Event{Kind: store.EventPromotion, ID: "shop/checkout/1"})
			}
		}
	}
	if d := cmp.Diff([]string{"promotion", "promotion", "end"}, got); d != "" {
		t.Error(d)
	}
}

func TestEveryPathParameterArrives(t *testing.T) {
	t.Parallel()
	w := serve(t, webtest.People{})
	seen := map[string]any{}
	f := &w.fakes
	f.Promotions.GetFn = func(_ context.Context, _ promo.Principal, id string) (promo.Promotion, error) {
		seen["promotion"] = id
		return promo.Promotion{}, nil
	}
	f.Definitions.GetFn = func(_ context.Context, _ promo.Principal, ref api.DefinitionRef) (api.Definition, error) {
		seen["definition"] = ref
		return api.Definition{}, nil
	}
	f.Rollbacks.AbortFn = func(_ context.Context, _ promo.Principal, req api.AbortRequest) error {
		seen["rollback"] = req.ID
		return nil
	}
	f.Environments.ReleaseFn = func(_ context.Context, _ promo.Principal, req api.HoldRequest) error {
		seen["hold"] = req
		return nil
	}
	f.PullRequests.MergeFn = func(_ context.Context, _ promo.Principal, ref api.PullRequestRef) (api.PullRequest, error) {
		seen["pull"] = ref
		return api.PullRequest{}, nil
	}
	f.Agents.RevokeFn = func(_ context.Context, _ promo.Principal, name string) error {
		seen["agent"] = name
		return nil
	}
	w.do(t, http.MethodGet, "/api/projects/p/promotions/l/4", "admin", "")
	w.do(t, http.MethodGet, "/api/projects/p/definitions/Service/s", "admin", "")
	w.do(t, http.MethodPost, "/api/projects/p/rollbacks/s/e/l-4.1.1/abort", "admin", "{}")
	w.do(t, http.MethodDelete, "/api/projects/p/services/s/environments/e/hold?reason=ok", "admin", "")
	w.do(t, http.MethodPost, "/api/pull-requests/deploy/3/merge", "admin", `{"ifHead":"abc"}`)
	w.do(t, http.MethodDelete, "/api/agents/us", "admin", "")
	want := map[string]any{
		"promotion": "p/l/4", "definition": api.DefinitionRef{Project: "p", Kind: "Service", Name: "s"}, "rollback": "p/s/e/l-4.1.1",
		"hold": api.HoldRequest{Project: "p", Service: "s", Environment: "e", Reason: "ok"},
		"pull": api.PullRequestRef{Repository: "deploy", Number: 3, IfHead: "abc"}, "agent": "us",
	}
	if d := cmp.Diff(want, seen); d != "" {
		t.Error(d)
	}
}

func TestRollbackQuestion(t *testing.T) {
	t.Parallel()
	w := serve(t, webtest.People{})
	var asked api.DecideRequest
	w.fakes.Promotions.DecideFn = func(_ context.Context, _ promo.Principal, req api.DecideRequest) (api.DecideResult, error) {
		asked = req
		return api.DecideResult{Done: true}, nil
	}
	const body = `{"approve":true,"inputs":{"shared":"paths-only"}}`
	if code, _, _ := w.do(t, http.MethodPost, "/api/projects/p/rollbacks/s/e/l-4.1.1/decide", "admin", body); code != http.StatusOK {
		t.Fatalf("status %d", code)
	}
	if asked.ID != "rollback/p/s/e/l-4.1.1" || asked.Inputs["shared"] != "paths-only" || !asked.Approve {
		t.Errorf("asked %+v", asked)
	}
}
