package stepstest_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/gitops/sandbox"
	"github.com/davit-cd/davit/internal/gitops/sandbox/gitsource"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/testkit/gitserver"
	"github.com/davit-cd/davit/steps"
	"github.com/davit-cd/davit/steps/stepstest"
)

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: web}
spec:
  replicas: 2
  selector: {matchLabels: {app: web}}
  template:
    metadata: {labels: {app: web}, annotations: {%s}}
    spec:
      containers:
        - {name: app, image: "registry.example.com/acme/web:%s"}
`

// cluster runs a sandbox cluster with one Application of services/checkout/dev at main.
func cluster(t *testing.T, w *stepstest.World, policy string) *sandbox.Cluster {
	t.Helper()
	c, err := sandbox.New(sandbox.Options{Name: "dev", Dir: t.TempDir(), Source: gitsource.New()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- c.Run(ctx) }()
	t.Cleanup(func() { stop(); <-done })
	err = c.Apply(fmt.Appendf(nil, `apiVersion: argoproj.io/v1alpha1
kind: Application
metadata: {name: web}
spec:
  source: {repoURL: %q, path: services/checkout/dev, targetRevision: main}
  destination: {name: dev, namespace: shop}
%s`, w.Repo.File, policy))
	if err != nil {
		t.Fatal(err)
	}
	w.Ports.GitOps = c
	return c
}

// release commits a manifest and returns the commit.
func release(w *stepstest.World, version, annotations string) string {
	return w.Repo.Commit("main", "release "+version, map[string]gitserver.File{
		"services/checkout/dev/values.yaml":        {Mode: "delete"},
		"services/checkout/dev/kustomization.yaml": {Mode: "delete"},
		"services/checkout/dev/web.yaml":           {Data: fmt.Sprintf(deployment, annotations, version)},
	})
}

func syncTo(t *testing.T, w *stepstest.World, operation, commit, spec string) (steps.Out, error) {
	t.Helper()
	in := w.In("sync", `{"applications":[{"namespace":"argocd","name":"web"}],"createNamespace":true`+spec+`}`)
	in.Operation, in.Change.Merged = operation, commit
	return steps.Sync().Run(t.Context(), in)
}

// TestSyncOnSandbox syncs on a cluster that behaves as Argo CD, in real time: good and bad releases, a commit that
// is not the branch's head, and auto-sync.
func TestSyncOnSandbox(t *testing.T) {
	t.Parallel()
	w := stepstest.NewWorld(t)
	c := cluster(t, w, "")
	ref := promo.ApplicationRef{Namespace: "argocd", Name: "web"}
	one := release(w, "v1", "")
	if out, err := syncTo(t, w, "op-1", one, ""); err != nil || out.Verdict != nil || !strings.Contains(string(out.Outputs), "web:v1") {
		t.Fatalf("first sync: %v %+v", err, out)
	}
	two := release(w, "v2", "")
	out, err := syncTo(t, w, "op-2", two, "")
	if err != nil || !strings.Contains(string(out.Outputs), `"health":"Healthy"`) || !strings.Contains(string(out.Outputs), "web:v2") {
		t.Fatalf("second sync: %v %+v", err, out)
	}
	again, err := syncTo(t, w, "op-2", two, "")
	if err != nil || string(again.Outputs) != string(out.Outputs) {
		t.Errorf("the same again: %v\n%s\n%s", err, again.Outputs, out.Outputs)
	}
	if app, err := c.Get(t.Context(), ref); err != nil || len(app.History) != 2 {
		t.Errorf("%d operations in the history, want 2 (%v)", len(app.History), err)
	}
	bad := release(w, "v3", "davit.dev/sandbox-fail: crashloop")
	out, err = syncTo(t, w, "op-3", bad, `,"degradedAfter":"1s"`)
	if err != nil || out.Verdict == nil || out.Verdict.Code != promo.CodeHealth {
		t.Errorf("a release that crashes: %v %+v", err, out)
	}
	_, err = syncTo(t, w, "op-4", two, "")
	if promo.CodeOf(err) != promo.CodeConflict || !strings.Contains(err.Error(), bad) {
		t.Errorf("an older commit than what is synced: %v", err)
	}
}

func TestSyncOnAutomaticSandbox(t *testing.T) {
	t.Parallel()
	w := stepstest.NewWorld(t)
	cluster(t, w, "  syncPolicy: {automated: {prune: true}, syncOptions: [CreateNamespace=true]}\n")
	one := release(w, "v1", "")
	if out, err := syncTo(t, w, "op-1", one, ""); err != nil || !strings.Contains(string(out.Outputs), "web:v1") {
		t.Fatalf("%v %+v", err, out)
	}
	// Another service's commit on the branch doesn't matter.
	two := release(w, "v2", "")
	w.Repo.Commit("main", "elsewhere", gitserver.Text(map[string]string{"services/other/x.yaml": "a: 1\n"}))
	if out, err := syncTo(t, w, "op-2", two, ""); err != nil || !strings.Contains(string(out.Outputs), "web:v2") {
		t.Errorf("%v %+v", err, out)
	}
	three := release(w, "v3", "")
	if _, err := syncTo(t, w, "op-3", three, ""); err != nil {
		t.Fatal(err)
	}
	if _, err := syncTo(t, w, "op-4", two, ""); promo.CodeOf(err) != promo.CodeConflict {
		t.Errorf("overtaken: %v", err)
	}
}
