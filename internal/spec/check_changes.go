package spec

import (
	"fmt"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/spec/expression"
)

// changes checks how a stage's changes are cut, and that a merge has something to merge.
func (s *stageCheck) changes() {
	once := changesOf(s.stage) == string(plan.ChangesOnce)
	several := len(s.stage.Waves) > 1
	target := ""
	for _, p := range s.steps {
		if p.rollback {
			continue // rollbackSteps undo what the steps have done; RevertPR knows the merge
		}
		if p.typ.Scope == plan.ScopeTarget && target == "" {
			target = p.step.Name
		}
		if p.typ.Scope != plan.ScopeChange {
			continue
		}
		if p.parallel != "" {
			s.report(p.path, "changes", fmt.Sprintf("step %q changes the repository beside other steps", p.step.Name),
				"changes stand outside of parallel:")
		}
		if once && several && target != "" {
			s.report(p.path, "changes", fmt.Sprintf("with changes: once, step %q would follow step %q, which runs wave by wave", p.step.Name, target),
				"put the changes first, or say changes: per-wave")
		}
		if several && !once && p.step.Type == typeUpdate {
			s.pathsNameTarget(p)
		}
	}
	s.pullRequests()
}

// pullRequests follows which pull request is open: a stage (or wave) has one at a time.
func (s *stageCheck) pullRequests() {
	opened, open := false, "" // ever, and the step whose pull request waits for its merge
	var before *Step
	for _, p := range s.steps {
		if p.rollback {
			continue
		}
		switch p.step.Type {
		case typeMerge, typeWaitPR:
			if !opened {
				s.report(p.path, "changes", fmt.Sprintf("no pull request is open when step %q runs", p.step.Name),
					"put an UpdateReleaseRepo with delivery: pull-request before it")
			}
			if declaredText(p.step, "until") != "checks" {
				open = ""
			}
		case typeUpdate:
			if declaredText(p.step, "delivery") != "push" {
				s.second(p, before, open)
				opened, open = true, p.step.Name
			}
		case typeRevert:
			opened = true // it merges by itself, unless it says otherwise
		}
		if before == nil || !folds(before, p.step) {
			before = p.step
		}
	}
}

// second refuses to open a pull request while another one is open, unless the two become one.
func (s *stageCheck) second(p placed, before *Step, open string) {
	if open != "" && !folds(before, p.step) {
		s.report(p.path, "changes", fmt.Sprintf("step %q opens a second pull request while that of step %q is open", p.step.Name, open),
			"merge the first one before, or make them alike and neighbours, so that they become one")
	}
}

// pathsNameTarget demands that each wave's change touches only that wave's files.
func (s *stageCheck) pathsNameTarget(p placed) {
	for i, f := range filesOf(p.step) {
		text, ok := f["path"].(string)
		if ok && !expression.Mentions(declaredText(p.step, "path")+"/"+text, expression.VarTarget) {
			s.report(fmt.Sprintf("%s.spec.files[%d].path", p.path, i), "changes",
				"every wave would change this same file", "name the target in the path, as ${{ target.name }}, or say changes: once")
		}
	}
}

// filesOf lists the file entries of an edit.
func filesOf(st *Step) []map[string]any {
	if st.parsed == nil {
		return nil
	}
	list, _ := st.parsed.declared["files"].([]any)
	out := make([]map[string]any, len(list))
	for i, e := range list {
		out[i], _ = e.(map[string]any)
	}
	return out
}

func declaredText(st *Step, key string) string {
	if st.parsed == nil {
		return ""
	}
	text, _ := st.parsed.declared[key].(string)
	return text
}
