package app_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/app"
	"github.com/davit-cd/davit/internal/promo"
)

// application finds an application of a sandbox cluster; the zero value where there is none.
func (h *house) application(t *testing.T, cluster, name string) promo.Application {
	t.Helper()
	status, answer := h.call(t, "alex", http.MethodGet, "/api/sandbox/clusters", nil)
	var clusters []api.SandboxCluster
	if err := json.Unmarshal([]byte(answer), &clusters); err != nil || status != http.StatusOK {
		t.Fatalf("%d %v: %s", status, err, answer)
	}
	for _, c := range clusters {
		for _, a := range c.Applications {
			if c.Name == cluster && a.Name == name {
				return a
			}
		}
	}
	return promo.Application{}
}

// TestSandboxForPeople: drift by hand shows, its difference can be seen, and a sync undoes it; a new agent's
// cluster comes up while the server runs.
func TestSandboxForPeople(t *testing.T) {
	t.Parallel()
	h := open(t, app.Options{Demo: true})
	want := h.want
	settled := func() bool {
		a := h.application(t, "us", "checkout-us-east")
		return a.Sync == promo.SyncSynced && a.Health == promo.HealthHealthy
	}
	until(t, "the first release on us", settled)

	const us = "/api/sandbox/clusters/us/applications/checkout-us-east"
	seven := 7
	want(t, http.StatusForbidden, "sandbox:admin")(h.call(t, "dana", http.MethodPost, us+"/edit", api.SandboxEditRequest{Replicas: &seven}))
	want(t, http.StatusNotFound, "KIND/NAME")(h.call(t, "alex", http.MethodPost, us+"/edit", api.SandboxEditRequest{Replicas: &seven, Resource: promo.ResourceRef{Kind: "Job"}}))
	want(t, http.StatusOK, "true")(h.call(t, "alex", http.MethodPost, us+"/edit", api.SandboxEditRequest{Replicas: &seven}))
	until(t, "the drift", func() bool { return h.application(t, "us", "checkout-us-east").Sync == promo.SyncOutOfSync })
	want(t, http.StatusOK, "-  replicas: 7")(h.call(t, "alex", http.MethodGet, us+"/diff", nil))
	until(t, "the drift on the page", func() bool {
		_, page := h.call(t, "riley", http.MethodGet, "/projects/default/fleet", nil)
		return strings.Contains(page, "/projects/default/fleet/us/checkout-us-east")
	})
	want(t, http.StatusOK, "replicas: 7")(h.call(t, "riley", http.MethodGet, "/projects/default/fleet/us/checkout-us-east", nil))
	want(t, http.StatusForbidden, "fleet:sync")(h.call(t, "dana", http.MethodPost, us+"/sync", api.SandboxSyncRequest{}))
	want(t, http.StatusOK, "true")(h.call(t, "alex", http.MethodPost, us+"/sync", api.SandboxSyncRequest{}))
	until(t, "the sync", settled)
	want(t, http.StatusOK, "[]")(h.call(t, "alex", http.MethodGet, us+"/diff", nil))
	want(t, http.StatusOK, "true")(h.call(t, "alex", http.MethodPost, us+"/refresh", api.SandboxRef{}))

	for _, line := range []string{"davit_agents_connected 4", `davit_promotions_active{phase="Running"}`, "davit_git_push_duration_seconds_count", "go_goroutines", "process_open_fds"} {
		until(t, line+" in the metrics", func() bool {
			_, text := h.call(t, "nobody", http.MethodGet, "/metrics", nil)
			return strings.Contains(text, line)
		})
	}

	const moon = "/api/sandbox/clusters/moon"
	manifest := "apiVersion: argoproj.io/v1alpha1\nkind: Application\nmetadata: {name: checkout-moon, namespace: argocd}\nspec:\n  project: default\n" +
		"  source: {repoURL: \"" + h.url + "/git/deploy.git\", path: services/checkout/dev, targetRevision: main}\n  destination: {name: in-cluster, namespace: checkout}\n  syncPolicy: {syncOptions: [CreateNamespace=true]}\n"
	apply := api.SandboxApplyRequest{Files: []api.File{{Path: "moon.yaml", Content: manifest}}}
	want(t, http.StatusNotFound, "moon")(h.call(t, "alex", http.MethodPost, moon+"/apply", apply))
	want(t, http.StatusOK, "created")(h.apply(t, "alex", head+"Environment\nmetadata: {name: moon}\nspec: {type: PreProduction, targets: [{name: moon, agent: moon}]}\n"))
	until(t, "a cluster for the new agent", func() bool {
		status, _ := h.call(t, "alex", http.MethodPost, moon+"/apply", apply)
		return status == http.StatusOK
	})
	want(t, http.StatusUnprocessableEntity, "bad.yaml")(h.call(t, "alex", http.MethodPost, moon+"/apply", api.SandboxApplyRequest{Files: []api.File{{Path: "bad.yaml", Content: "kind: Pod\n"}}}))
	want(t, http.StatusOK, "true")(h.call(t, "alex", http.MethodPost, moon+"/applications/checkout-moon/sync", api.SandboxSyncRequest{}))
	until(t, "the new cluster's application", func() bool { return h.application(t, "moon", "checkout-moon").Health == promo.HealthHealthy })
	until(t, "the report of the new cluster's agent", func() bool {
		_, answer := h.call(t, "alex", http.MethodGet, "/api/agents", nil)
		return strings.Contains(answer, `"name":"moon","connected":true`)
	})
}
