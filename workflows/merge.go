package workflows

import (
	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// mostRedos is how often a change that cannot be merged is made anew before people must look.
const mostRedos = 3

// merge runs a step that merges. Where the branch has fallen into conflict with its base, the change is made anew on
// the new head and merged then; where somebody altered what was approved, the gates ask again first.
func (s *stageRun) merge(ctx workflow.Context, st *plan.Step, u unit, call plan.Call, e *promo.Step) (plan.Result, *promo.Error) {
	for redone := 0; ; redone++ {
		res, err := s.r.act(ctx, st, call, e)
		if err == nil || err.Code != promo.CodeConflict || redone == mostRedos {
			return res, err
		}
		mended, merr := s.mend(ctx, u, e)
		if merr != nil {
			return res, merr
		}
		if !mended {
			return res, err
		}
		next := s.newCall(ctx, st, u, e, call.Spec)
		next.StartedAt, next.State = call.StartedAt, nil
		call = next
	}
}

// mend looks why a merge was refused and does what makes another worthwhile; false where nothing does.
func (s *stageRun) mend(ctx workflow.Context, u unit, e *promo.Step) (bool, *promo.Error) {
	w := s.changeWave(u)
	if s.changes[w] == nil || s.changes[w].PR == 0 {
		return false, nil
	}
	got, err := s.readChange(ctx, w)
	if err != nil || got.State != "open" {
		return false, err
	}
	approved := s.approved[w]
	altered := approved != "" && got.Change.Digest != approved
	if got.Conflicts && got.Change.Foreign == "" {
		if redone, err := s.remake(ctx, w, e); err != nil || !redone {
			return false, err
		}
		altered = approved != "" && s.changes[w].Digest != approved
	} else if !altered {
		return false, nil
	}
	if !altered {
		return true, nil
	}
	return true, s.askMidway(ctx, u, e)
}

// remake runs the step that made the wave's change again. Its operation id is the same, so it finds its branch and
// makes it anew on the present head of the base.
func (s *stageRun) remake(ctx workflow.Context, wave int, e *promo.Step) (bool, *promo.Error) {
	m := s.makers[wave]
	if m.step == nil {
		return false, nil
	}
	e.Message = "making the change anew: the branch conflicts with its base"
	s.r.rec.changed()
	_, spec, err := s.resolve(ctx, m.step, m.unit)
	if err != nil {
		return false, err
	}
	made := s.entry(m.step, m.unit)
	res, err := s.r.act(ctx, m.step, s.newCall(ctx, m.step, m.unit, made, spec), made)
	if err != nil {
		return false, err
	}
	return true, s.absorb(ctx, m.step, m.unit, res, made)
}

// askMidway asks the gates again. While nothing is merged the lane is free meanwhile; a stage that has changed its
// environment keeps it to its end.
func (s *stageRun) askMidway(ctx workflow.Context, u unit, e *promo.Step) *promo.Error {
	e.Message = "the change was altered after it was approved: asking again"
	s.r.rec.changed()
	if s.lastCommit() != "" || !s.lane.held {
		return s.askAgain(ctx, u)
	}
	s.giveLane(ctx, contract.LaneYield)
	if err := s.askAgain(ctx, u); err != nil {
		return err
	}
	return s.holdLane(ctx, u, e)
}
