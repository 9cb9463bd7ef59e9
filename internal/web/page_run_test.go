package web_test

import (
	"context"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
	"github.com/davit-cd/davit/internal/web"
	"github.com/davit-cd/davit/internal/web/webtest"
)

// TestRunForm: a person chooses a pipeline, sees what a run would do, and runs it; who may not sees no way to.
func TestRunForm(t *testing.T) {
	t.Parallel()
	var fakes webtest.Fakes
	var feed store.Feed
	fakes.Promotions.ListFn = func(context.Context, promo.Principal, api.PromotionFilter) ([]promo.Promotion, error) {
		return nil, nil
	}
	fakes.Environments.HoldsFn = func(context.Context, promo.Principal, api.EnvironmentRef) ([]promo.Hold, error) { return nil, nil }
	fakes.Runs.PipelinesFn = func(context.Context, promo.Principal, string) ([]api.Pipeline, error) {
		return []api.Pipeline{{Name: "checkout", Service: "checkout", Stages: []string{"dev", "prod"}, Inputs: []api.PipelineInput{
			{Name: "version", Type: "string", Required: true, Description: "image tag"},
			{Name: "share", Type: "number", Default: 10},
			{Name: "fast", Type: "boolean"},
			{Name: "ring", Type: "choice", Allowed: []string{"one", "two"}},
		}}, {Name: "empty", Service: "checkout"}}, nil
	}
	var planned, ran api.RunRequest
	fakes.Runs.PlanFn = func(_ context.Context, _ promo.Principal, req api.RunRequest) (api.PlanResult, error) {
		planned = req
		if req.Inputs["version"] == "bad" {
			return api.PlanResult{}, promo.Errorf(promo.CodeConfiguration, "no such version").WithHint("take another")
		}
		return api.PlanResult{Stages: []api.PlanStage{{Name: "dev", Steps: []string{"update", "merge"}, Waves: []api.PlanWave{{Targets: []api.PlanTarget{{Name: "dev-1"}}, Files: []string{"a.yaml"}, Diff: "--- a/a.yaml\n+++ b/a.yaml\n@@ -1 +1 @@\n-x\n+y\n"}}}}}, nil
	}
	fakes.Runs.RunFn = func(_ context.Context, _ promo.Principal, req api.RunRequest) (promo.Promotion, error) {
		ran = req
		return promo.Promotion{Project: "default", Pipeline: "checkout", Number: 3}, nil
	}
	srv, err := web.New(web.Options{Services: fakes.Services(&feed), Auth: webtest.People{}, Authz: webtest.People{}, Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	do := func(who, method, path string, form url.Values) (int, string, string) {
		req := httptest.NewRequestWithContext(t.Context(), method, path, strings.NewReader(form.Encode()))
		req.Header.Set("Authorization", "Bearer "+who)
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		rec := httptest.NewRecorder()
		srv.ServeHTTP(rec, req)
		body, err := io.ReadAll(rec.Body)
		if err != nil {
			t.Fatal(err)
		}
		return rec.Code, string(body), rec.Header().Get("Location")
	}
	pages := map[string]struct {
		reason    string
		who, path string
		status    int
		has       []string
		hasNot    []string
	}{
		"list":         {"a button leads to the form", "developer", "/projects/default/promotions", 200, []string{`href="/projects/default/run"`}, nil},
		"list, viewer": {"no button that would be refused", "viewer", "/projects/default/promotions", 200, nil, []string{`/run"`}},
		"viewer":       {"the door decides all the same", "viewer", "/projects/default/run", 403, []string{"promotion:run"}, nil},
		"choice":       {"more than one pipeline", "developer", "/projects/default/run", 200, []string{"?pipeline=checkout", "?pipeline=empty", "dev → prod"}, nil},
		"form": {"inputs as declared", "developer", "/projects/default/run?pipeline=checkout", 200, []string{
			`name="input.version" value="" required`, `name="input.share" value="10" inputmode="decimal"`, "<option>two</option>", "image tag", `formaction="/projects/default/pipelines/checkout/run"`,
		}, []string{"What it would do"}},
		"none":    {"a link to what is gone", "developer", "/projects/default/run?pipeline=gone", 404, []string{"there is no pipeline"}, nil},
		"plan":    {"what was typed stays", "developer", "/projects/default/run?pipeline=checkout&input.version=v9&plan=1", 200, []string{"What it would do", "update → merge", "a.yaml", `value="v9"`}, nil},
		"no plan": {"the form stays", "developer", "/projects/default/run?pipeline=checkout&input.version=bad&plan=1", 200, []string{"no such version", "take another", `value="bad"`}, nil},
	}
	for name, tc := range pages {
		status, body, _ := do(tc.who, http.MethodGet, tc.path, nil)
		if status != tc.status {
			t.Errorf("%s (%s): status %d: %s", name, tc.reason, status, body)
		}
		for _, want := range tc.has {
			if !strings.Contains(body, want) {
				t.Errorf("%s (%s): no %q in %s", name, tc.reason, want, body)
			}
		}
		for _, not := range tc.hasNot {
			if strings.Contains(body, not) {
				t.Errorf("%s (%s): %q", name, tc.reason, not)
			}
		}
	}
	form := url.Values{"input.version": {" v2 "}, "input.share": {"2.5"}, "input.fast": {"true"}, "input.ring": {""}, "input.other": {"x"}, "request": {"r1"}}
	status, body, to := do("developer", http.MethodPost, "/projects/default/pipelines/checkout/run", form)
	if status != http.StatusSeeOther || to != "/projects/default/promotions/checkout/3" {
		t.Fatalf("%d to %q: %s", status, to, body)
	}
	want := api.RunRequest{Project: "default", Pipeline: "checkout", RequestID: "r1", Inputs: map[string]any{"version": "v2", "share": 2.5, "fast": true}}
	if d := cmp.Diff(want, ran); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
	if planned.Project != "default" || planned.Pipeline != "checkout" {
		t.Errorf("planned %+v", planned)
	}
	form.Set("input.share", "half")
	if status, body, _ := do("developer", http.MethodPost, "/projects/default/pipelines/checkout/run", form); status != http.StatusUnprocessableEntity || !strings.Contains(body, "is no number") {
		t.Errorf("%d: %s", status, body)
	}
}
