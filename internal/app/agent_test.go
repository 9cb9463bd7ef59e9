package app_test

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/agentrun"
	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/app"
	"github.com/davit-cd/davit/internal/promo"
)

// TestOwnAgent: an agent beside the server enrols, reports its sandbox cluster, goes away and comes back with its
// credential alone; the server makes no cluster of that name itself.
func TestOwnAgent(t *testing.T) {
	t.Parallel()
	h := open(t, app.Options{Demo: true})
	dir := t.TempDir()
	until(t, "the demo's repository", func() bool {
		status, _ := h.call(t, "alex", http.MethodGet, "/api/projects/default/definitions/Repository/deploy", nil)
		return status == http.StatusOK
	})
	status, answer := h.call(t, "alex", http.MethodPost, "/api/agents", api.AgentRequest{Name: "mars", Projects: []string{"default"}})
	var created api.NewAgent
	if err := json.Unmarshal([]byte(answer), &created); err != nil || status != http.StatusOK || created.Gateway == "" {
		t.Fatalf("%d %v: %s", status, err, answer)
	}
	manifest := "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: checkout-mars, namespace: argocd, labels: {davit.dev/service: checkout, davit.dev/environment: mars, davit.dev/target: mars}}\nspec:\n  project: default\n" +
		"  source: {repoURL: \"" + h.url + "/git/deploy.git\", path: services/checkout/dev, targetRevision: main}\n  destination: {name: in-cluster, namespace: checkout}\n"
	if err := os.WriteFile(filepath.Join(dir, "app.yaml"), []byte(manifest), 0o600); err != nil {
		t.Fatal(err)
	}
	o := agentrun.Options{
		Name: "mars", Gateway: created.Gateway, Token: promo.Secret(created.EnrolmentToken), Dir: filepath.Join(dir, "mars"),
		Applications: []string{filepath.Join(dir, "app.yaml")}, Projects: []string{"default"}, Version: "v0", Log: slog.New(slog.DiscardHandler),
	}
	start := func() (stop func()) {
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error, 1)
		go func() { done <- agentrun.Run(ctx, o) }()
		return func() {
			cancel()
			if err := <-done; err != nil {
				t.Error(err)
			}
		}
	}
	is := func(state string) func() bool {
		return func() bool {
			_, answer := h.call(t, "alex", http.MethodGet, "/api/agents", nil)
			return strings.Contains(answer, `"name":"mars","connected":`+state)
		}
	}
	stop := start()
	until(t, "the agent", is("true"))
	h.want(t, http.StatusOK, "created")(h.apply(t, "alex", head+"Environment\nmetadata: {name: mars}\nspec: {type: PreProduction, targets: [{name: mars, agent: mars}]}\n"))
	until(t, "the agent's report", func() bool {
		_, answer := h.call(t, "riley", http.MethodGet, "/api/projects/default/fleet", nil)
		return strings.Contains(answer, "checkout-mars")
	})
	_, answer = h.call(t, "alex", http.MethodGet, "/api/sandbox/clusters", nil)
	if strings.Contains(answer, `"mars"`) {
		t.Errorf("the server made a cluster of its own: %s", answer)
	}
	stop()
	until(t, "the agent's absence", is("false"))
	o.Token = "" // it was good for once
	stop = start()
	defer stop()
	until(t, "the agent's return", is("true"))
}

func TestAgentOptions(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	cases := map[string]struct {
		reason string
		o      agentrun.Options
		want   string
	}{
		"no name":        {"nothing to enrol as", agentrun.Options{Gateway: "127.0.0.1:1", Dir: dir}, "needs a name"},
		"no certificate": {"a file that isn't one", agentrun.Options{Name: "a", Gateway: "127.0.0.1:1", Dir: dir, CAFile: "agent_test.go"}, "holds no certificate"},
		"no manifests":   {"a file that isn't there", agentrun.Options{Name: "a", Gateway: "127.0.0.1:1", Dir: filepath.Join(dir, "b"), Applications: []string{filepath.Join(dir, "none")}}, "none"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tc.o.Log = slog.New(slog.DiscardHandler)
			if err := agentrun.Run(t.Context(), tc.o); promo.CodeOf(err) != promo.CodeConfiguration || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: want %q, got %v", tc.reason, tc.want, err)
			}
		})
	}
}
