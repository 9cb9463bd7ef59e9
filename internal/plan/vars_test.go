package plan_test

import (
	"encoding/json"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

func TestVarsOutputs(t *testing.T) {
	t.Parallel()
	out := func(s string) json.RawMessage { return json.RawMessage(`"` + s + `"`) }
	state := []promo.Stage{
		{Name: "dev", Phase: promo.PhaseSucceeded, Steps: []promo.Step{{Name: "sync", Target: "us", Outputs: out("dev us")}, {Name: "merge", Outputs: out("dev merge")}}},
		{Name: "prod", Phase: promo.PhaseRunning, Steps: []promo.Step{
			{Name: "update", Wave: 1, Outputs: out("update 1")},
			{Name: "update", Wave: 2, Outputs: out("update 2")},
			{Name: "sync", Wave: 1, Target: "us", Outputs: out("sync us")},
			{Name: "sync", Wave: 2, Target: "eu", Outputs: out("sync eu")},
			{Name: "gate", Outputs: out("gate")},
			{Name: "later"},
		}},
	}
	prod := &plan.Stage{Name: "prod", Environment: &plan.Environment{Name: "prod"}}
	for name, tc := range map[string]struct {
		reason string
		at     plan.Place
		want   map[string]string // of the stage's own steps
	}{
		"a target in its wave": {
			reason: "the same target first, else the same wave, else the whole stage",
			at:     plan.Place{Stage: prod, Target: &plan.Target{Name: "eu"}, Wave: 2}, want: map[string]string{"update": "update 2", "sync": "sync eu", "gate": "gate"},
		},
		"the other one": {
			at: plan.Place{Stage: prod, Target: &plan.Target{Name: "us"}, Wave: 1}, want: map[string]string{"update": "update 1", "sync": "sync us", "gate": "gate"},
		},
		"a wave":    {at: plan.Place{Stage: prod, Wave: 2}, want: map[string]string{"update": "update 2", "sync": "sync eu", "gate": "gate"}},
		"the stage": {reason: "the first of several where none is nearer", at: plan.Place{Stage: prod}, want: map[string]string{"update": "update 1", "sync": "sync us", "gate": "gate"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := plan.Plan{Inputs: map[string]any{"version": "v1"}, Release: plan.Release{Version: "v1"}, Service: plan.Service{Name: "checkout"}}
			raw, err := p.Vars(plan.RunInfo{ID: "x", Number: 7, TriggeredBy: promo.Principal{Name: "dana"}}, state, tc.at)
			if err != nil {
				t.Fatal(err)
			}
			var got struct {
				Inputs, Release, Service, Environment, Target, Run map[string]any
				Steps                                              map[string]struct {
					Outputs string
					Targets map[string]string
				}
				Stages map[string]struct {
					Phase string
					Steps map[string]struct{ Outputs string }
				}
			}
			if err := json.Unmarshal(raw, &got); err != nil {
				t.Fatal(err)
			}
			outs := map[string]string{}
			for name, s := range got.Steps {
				if s.Outputs != "" {
					outs[name] = s.Outputs
				}
			}
			if diff := cmp.Diff(tc.want, outs); diff != "" {
				t.Errorf("%s (-want +got):\n%s", tc.reason, diff)
			}
			if diff := cmp.Diff(map[string]string{"us": "sync us", "eu": "sync eu"}, got.Steps["sync"].Targets); diff != "" {
				t.Errorf("every target's outputs are under targets (-want +got):\n%s", diff)
			}
			if _, ok := got.Steps["later"]; !ok {
				t.Error("a step without outputs is known all the same")
			}
			if got.Stages["dev"].Phase != "Succeeded" || got.Stages["dev"].Steps["merge"].Outputs != "dev merge" {
				t.Errorf("other stages: %+v", got.Stages)
			}
			if got.Inputs["version"] != "v1" || got.Environment["name"] != "prod" || got.Run["triggeredBy"] != "dana" || (tc.at.Target != nil) != (got.Target != nil) {
				t.Errorf("got %s", raw)
			}
			again, err := p.Vars(plan.RunInfo{ID: "x", Number: 7, TriggeredBy: promo.Principal{Name: "dana"}}, state, tc.at)
			if err != nil || string(again) != string(raw) {
				t.Errorf("the same place gives other bytes: %v", err)
			}
		})
	}
}
