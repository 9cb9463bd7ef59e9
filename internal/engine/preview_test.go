package engine_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/engine"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
)

func TestPlan(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	repo := w.Create("deploy", quickstart(t, "deploy"), nil)
	w.mustApply(quickstart(t, "davit"))
	before := repo.Head("main")
	w.fleet.apps = []promo.Application{{ApplicationRef: promo.ApplicationRef{Agent: "us", Namespace: "argocd", Name: "checkout"}}}
	w.fleet.down = "eu"
	runs := engine.Runs{Engine: w.engine}
	req := api.RunRequest{Project: spec.DefaultProject, Pipeline: "checkout", Inputs: map[string]any{"version": "v1.1.0"}}
	res, err := runs.Plan(t.Context(), ana(), req)
	if err != nil {
		t.Fatal(err)
	}
	if len(res.Stages) != 3 || res.Hash == "" {
		t.Fatalf("got %+v", res)
	}
	const at = "services/checkout/"
	want := []struct {
		stage string
		waves [][]string // targets, then files
	}{
		{"dev", [][]string{{"dev", at + "dev/kustomization.yaml", at + "dev/values.yaml"}}},
		{"staging", [][]string{{"staging", at + "staging/kustomization.yaml", at + "staging/values.yaml"}}},
		{"prod", [][]string{
			{"us-east", at + "prod/us-east/kustomization.yaml", at + "prod/us-east/values.yaml"},
			{"eu-west", at + "prod/eu-west/kustomization.yaml", at + "prod/eu-west/values.yaml"},
		}},
	}
	for i, st := range res.Stages {
		var waves [][]string
		for _, wave := range st.Waves {
			if wave.Problem != "" || !strings.Contains(wave.Diff, "+    newTag: v1.1.0") || strings.Count(wave.Diff, "\n+") != 2+strings.Count(wave.Diff, "\n+++") {
				t.Errorf("stage %s: problem %q, diff:\n%s", st.Name, wave.Problem, wave.Diff)
			}
			var parts []string
			for _, target := range wave.Targets {
				parts = append(parts, target.Name)
			}
			waves = append(waves, append(parts, wave.Files...))
		}
		if diff := cmp.Diff(want[i].waves, waves); st.Name != want[i].stage || diff != "" {
			t.Errorf("stage %s: -want +got:\n%s", st.Name, diff)
		}
	}
	prod := res.Stages[2]
	if diff := cmp.Diff([]string{"argocd/checkout"}, prod.Waves[0].Targets[0].Applications); diff != "" {
		t.Errorf("applications of us-east: -want +got:\n%s", diff)
	}
	if len(prod.Waves[1].Targets[0].Applications) != 0 {
		t.Errorf("an agent that is away has applications %v", prod.Waves[1].Targets[0].Applications)
	}
	if diff := cmp.Diff([]string{"update (UpdateReleaseRepo)", "gate (Policy)", "sign-off (Approval)", "merge (MergePR)", "sync (Sync)", "verify (Verify)"}, prod.Steps); diff != "" {
		t.Errorf("steps: -want +got:\n%s", diff)
	}
	refs := strings.Fields(repo.Git("for-each-ref", "--format=%(refname)=%(objectname)"))
	if diff := cmp.Diff([]string{"refs/heads/main=" + before}, refs); diff != "" {
		t.Errorf("a plan pushed something: -want +got:\n%s", diff)
	}
	if list, err := w.engine.Repos.Local.Forge.Get(t.Context(), "deploy", 1); promo.CodeOf(err) != promo.CodeNotFound {
		t.Errorf("a plan opened a pull request: %+v, %v", list, err)
	}
	again, err := runs.Plan(t.Context(), ana(), req)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(res, again); diff != "" {
		t.Errorf("the same plan twice: -first +second:\n%s", diff)
	}
}

func TestPlanProblems(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	files := quickstart(t, "deploy")
	delete(files, "services/checkout/prod/eu-west/kustomization.yaml")
	w.Create("deploy", files, nil)
	w.mustApply(quickstart(t, "davit"))
	runs := engine.Runs{Engine: w.engine}
	req := api.RunRequest{Project: spec.DefaultProject, Pipeline: "checkout", Inputs: map[string]any{"version": "v1.1.0"}}
	res, err := runs.Plan(t.Context(), ana(), req)
	if err != nil {
		t.Fatal(err)
	}
	waves := res.Stages[2].Waves
	if waves[0].Problem != "" || !strings.Contains(waves[1].Problem, "eu-west/kustomization.yaml") || !strings.HasPrefix(waves[1].Problem, "step update:") {
		t.Errorf("got problems %q and %q", waves[0].Problem, waves[1].Problem)
	}
	for name, inputs := range map[string]map[string]any{"no input": nil, "an input that does not fit": {"version": "latest"}, "an unknown one": {"version": "v1.0.0", "x": 1}} {
		req.Inputs = inputs
		if _, err := runs.Plan(t.Context(), ana(), req); err == nil || promo.CodeOf(err) != promo.CodeConfiguration {
			t.Errorf("%s: got %v", name, err)
		}
	}
	req.Pipeline = "none"
	if _, err := runs.Plan(t.Context(), ana(), req); err == nil || promo.CodeOf(err).Retryable() {
		t.Errorf("no pipeline: got %v", err)
	}
}
