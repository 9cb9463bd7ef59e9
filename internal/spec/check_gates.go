package spec

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/davit-cd/davit/internal/plan"
)

// stageShape checks what a stage of its type needs.
func (s *stageCheck) stageShape() {
	st := s.stage
	if st.Type == "Deployment" && st.Environment == "" {
		s.report(s.path, "environment", fmt.Sprintf("Deployment stage %q has no environment", st.Name), "add environment:")
	}
	if st.Type == "Approval" && !slices.ContainsFunc(s.steps, func(p placed) bool { return p.step.Type == typeApproval }) {
		s.report(s.path, "environment", fmt.Sprintf("Approval stage %q asks nobody", st.Name), "add a step of type Approval")
	}
	if st.Environment != "" {
		return
	}
	for _, p := range s.steps {
		if p.typ.Scope == plan.ScopeTarget || p.typ.Scope == plan.ScopeChange || p.step.Type == typeRollback {
			s.report(p.path, "environment", fmt.Sprintf("step %q of type %s needs an environment", p.step.Name, p.step.Type),
				fmt.Sprintf("give stage %q an environment", st.Name))
		}
	}
}

// gates warns of a merge behind a gate that looked at no change, and refuses approvals that can't be asked once.
func (s *stageCheck) gates() {
	changed, mutated := false, false
	blind := ""
	for _, p := range s.steps {
		if p.rollback {
			continue
		}
		switch {
		case p.step.Type == typeUpdate || p.step.Type == typeRevert:
			changed = true
		case p.step.Type == typeApproval || p.step.Type == typePolicy:
			if blind = ""; !changed { // a later gate that saw the change makes up for it
				blind = p.step.Name
			}
		case p.step.Type == typeMerge && blind != "":
			s.warn(p.path, "blind-gate", fmt.Sprintf("gate %q saw no change, yet step %q merges one", blind, p.step.Name),
				"put the gate between the change and the merge, so that it binds to what was looked at")
		}
		s.lateApproval(p, mutated)
		mutated = mutated || p.mutates()
	}
}

func (p placed) mutates() bool {
	return p.typ.Mutates != nil && p.step.parsed != nil && p.typ.Mutates(p.step.parsed.full)
}

// lateApproval refuses an approval that stands in the waves and is to be asked once per stage.
func (s *stageCheck) lateApproval(p placed, mutated bool) { //nolint:revive // mutated is a fact, not a mode
	if p.step.Type != typeApproval || p.step.parsed == nil || !mutated || len(s.stage.Waves) < 2 {
		return
	}
	var spec plan.ApprovalSpec
	if json.Unmarshal(p.step.parsed.full, &spec) == nil && spec.Each != "wave" {
		s.report(p.path, "waves", fmt.Sprintf("approval %q stands behind a step that changes the environment, so every wave asks anew", p.step.Name),
			"say each: wave, or put it before the first merge")
	}
}
