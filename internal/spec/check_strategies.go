package spec

import (
	"fmt"
	"slices"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// strategyContext says what a strategy's place offers.
type strategyContext struct {
	environment   bool
	rollbackSteps bool
}

func (s *stageCheck) stageStrategies() {
	ctx := strategyContext{environment: s.stage.Environment != "", rollbackSteps: len(s.stage.RollbackSteps) > 0}
	s.strategies(s.path+".onFailure", s.stage.OnFailure, ctx)
	for _, p := range s.steps {
		s.strategies(p.path+".onFailure", p.step.OnFailure, ctx)
	}
}

// strategies checks a list of failure strategies: the first match wins, so a later one must have something left.
func (c *check) strategies(path string, list []Strategy, ctx strategyContext) {
	var taken []string
	for i, st := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		c.codes(at+".errors", st.Errors)
		if len(st.Errors) > 0 && !slices.ContainsFunc(st.Errors, func(e string) bool { return left(taken, e) }) {
			c.report(at, "strategy", "strategy can never act: those before it answer to all its errors", "put it first, or take it out")
		}
		taken = append(taken, st.Errors...)
		c.action(at+".action", st.Action, ctx)
		c.action(at+".then", st.Then, ctx)
		c.retrying(at, st)
	}
}

// left reports whether an error is still unanswered.
func left(taken []string, code string) bool {
	all := string(promo.CodeAll)
	if slices.Contains(taken, all) || slices.Contains(taken, code) {
		return false
	}
	if code != all {
		return true
	}
	return slices.ContainsFunc(promo.Codes(), func(c promo.Code) bool { return c != promo.CodeAll && !slices.Contains(taken, string(c)) })
}

func (c *check) action(path, action string, ctx strategyContext) {
	switch {
	case action == string(plan.ActionRollback) && !ctx.environment:
		c.report(path, "strategy", "there is no environment to roll back", "use Abort, or give the stage an environment")
	case action == string(plan.ActionRollbackStage) && !ctx.rollbackSteps:
		c.report(path, "strategy", "the stage has no rollbackSteps", "add rollbackSteps:, or use Rollback")
	}
}

func (c *check) retrying(path string, st Strategy) {
	if st.Action != string(plan.ActionRetry) {
		for key, set := range map[string]bool{"attempts": st.Attempts != 0, "intervals": len(st.Intervals) > 0, "then": st.Then != ""} {
			if set {
				c.report(path+"."+key, "strategy", fmt.Sprintf("%s belongs to Retry, not to %s", key, st.Action), "leave it out")
			}
		}
		return
	}
	if st.Attempts == 0 {
		c.report(path, "strategy", "Retry has no attempts", "add attempts:, at most 20")
	}
	if st.Attempts > 0 && len(st.Intervals) > st.Attempts {
		c.report(path+".intervals", "strategy", fmt.Sprintf("%d intervals for %d attempts", len(st.Intervals), st.Attempts), "one for each attempt; the last one repeats")
	}
}
