package workflows

import (
	"testing"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// TestEntriesStay: executions are pointed at while they wait, so their slice must never move.
func TestEntriesStay(t *testing.T) {
	t.Parallel()
	node := func(kind, name string, scope plan.Scope) plan.Node {
		return plan.Node{Kind: plan.NodeStep, Step: &plan.Step{Name: name, Path: name, Type: kind, Scope: scope}}
	}
	for _, changes := range []plan.Changes{plan.ChangesOnce, plan.ChangesPerWave} {
		for prologue := range 5 {
			st := plan.Stage{
				Name: "prod", Targets: []plan.Target{{Name: "a"}, {Name: "b"}, {Name: "c"}}, Waves: [][]string{{"a"}, {"b", "c"}}, Changes: changes, Prologue: prologue,
				Nodes: []plan.Node{
					node("UpdateReleaseRepo", "update", plan.ScopeChange), node("Approval", "ask", plan.ScopeStage), node("MergePR", "merge", plan.ScopeChange),
					node("Sync", "sync", plan.ScopeTarget), node("Policy", "late", plan.ScopeStage),
				},
				RollbackNodes: []plan.Node{node("RevertPR", "revert", plan.ScopeChange), node("Sync", "resync", plan.ScopeTarget), node("Http", "tell", plan.ScopeStage)},
			}
			r := &promotion{in: contract.PromotionInput{Plan: plan.Plan{Stages: []plan.Stage{st}}}}
			s := newStageRun(r, &st, &promo.Stage{})
			was := &s.state.Steps[0]
			for _, p := range plan.Steps(st.RollbackNodes) {
				for _, u := range s.units(p, s.whole()) {
					s.entry(p, u)
				}
			}
			for _, p := range plan.Steps(st.Nodes) { // gates that are asked again, for the whole stage
				if p.Scope == plan.ScopeStage {
					s.entry(p, unit{})
				}
			}
			if was != &s.state.Steps[0] {
				t.Errorf("changes %s, prologue %d: the entries moved", changes, prologue)
			}
		}
	}
}
