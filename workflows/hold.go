package workflows

import (
	"strconv"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// laneHold is a stage's side of its lane.
type laneHold struct {
	announced bool
	held      bool
	takes     int // how often the lane was asked for; part of the token
	token     string
	taking    bool // one execution asks while others of the stage wait for its answer
}

// laneClaim is what a lane has answered to one token.
type laneClaim struct {
	s    *stageRun
	last contract.LaneAnswer
}

// listenToLanes receives lanes' answers until the workflow ends.
func (r *promotion) listenToLanes(ctx workflow.Context) {
	ch := workflow.GetSignalChannel(ctx, contract.SignalLane)
	workflow.Go(detached(ctx), func(ctx workflow.Context) {
		for {
			var a contract.LaneAnswer
			if !ch.Receive(ctx, &a) {
				return
			}
			if c := r.lanes[a.Token]; c != nil && c.s.laneID() == a.Lane {
				c.s.answer(c, a)
			}
		}
	})
}

// answer takes in what the lane says. A run is superseded only while it has changed nothing.
func (s *stageRun) answer(c *laneClaim, a contract.LaneAnswer) {
	switch a.Kind {
	case contract.LanePlaced:
		if c.last.Kind == contract.LaneGranted {
			return
		}
		s.state.Lane = &promo.LanePlace{Place: a.Place, Holder: a.Holder}
		s.r.rec.changed()
	case contract.LaneRejected:
		s.refused = s.refusal(a.Holder)
		s.cancel()
	case contract.LaneSuperseded:
		if s.lane.held {
			return
		}
		s.r.supersede(s, a.By)
	case contract.LanePreempted:
		s.r.stop(promo.PhaseAborted, "aborted by "+a.By)
	}
	c.last = a
}

func (s *stageRun) laneID() contract.LaneID {
	return contract.LaneID{Project: s.r.info.Project, Service: s.r.in.Plan.Service.Name, Environment: s.plan.Environment.Name}
}

// announce tells the lane that this run will want it, where it waits at a gate before: a later run may supersede it.
func (s *stageRun) announce(ctx workflow.Context) *promo.Error {
	if s.plan.Environment == nil || !s.gateBeforeChange() {
		return nil
	}
	s.lane.announced = true
	_, err := s.tell(ctx, contract.LaneArrive) // a refusal cancels the stage
	return err
}

// gateBeforeChange tells whether the stage waits for people before its first change of the environment.
func (s *stageRun) gateBeforeChange() bool {
	for _, st := range plan.Steps(s.plan.Nodes) {
		if st.Mutates {
			return false
		}
		if gates()[st.Type] {
			return true
		}
	}
	return false
}

// tell sends a message to the lane under a new token.
func (s *stageRun) tell(ctx workflow.Context, kind contract.LaneKind) (*laneClaim, *promo.Error) {
	s.lane.takes++
	s.lane.token = s.plan.Name + "." + strconv.Itoa(s.r.info.Attempt) + "." + strconv.Itoa(s.lane.takes)
	c := &laneClaim{s: s}
	s.r.lanes[s.lane.token] = c
	return c, s.say(ctx, kind)
}

// say sends the lane a message under the present token.
func (s *stageRun) say(ctx workflow.Context, kind contract.LaneKind) *promo.Error {
	_, err := contract.TellLane.CallLocal(ctx, contract.TellLaneRequest{Lane: s.laneID(), Message: contract.LaneMessage{
		Kind: kind, From: contract.PromotionID(s.r.info.ID), Part: s.plan.Name, Token: s.lane.token,
		Mode: s.r.in.Plan.Lane, Label: s.r.info.ID, Lane: s.laneID(),
	}})
	return fault(err)
}

func (s *stageRun) refusal(holder string) *promo.Error {
	return &promo.Error{
		Code: promo.CodeConflict, Msg: "service " + s.r.in.Plan.Service.Name + " is being changed in " + s.plan.Environment.Name + " by " + holder,
		Hint: "this pipeline says lane: reject; run it again later",
	}
}

// laneReminder is how long a run waits for its lane before it asks again, under the same token: the lane may have
// been ended from outside, and a take that is told twice changes nothing.
const laneReminder = 10 * time.Minute

// holdLane returns once the stage holds its lane, no hold keeps it out, and the change is still the one that was
// approved. Waiting for any of it holds nothing.
func (s *stageRun) holdLane(ctx workflow.Context, u unit, e *promo.Step) *promo.Error {
	if s.plan.Environment == nil {
		return nil
	}
	if err := workflow.Await(ctx, func() bool { return !s.lane.taking }); err != nil {
		return fault(err)
	}
	if s.lane.held {
		return nil
	}
	s.lane.taking = true
	defer func() { s.lane.taking = false }()
	for {
		if err := s.awaitNoHold(ctx, e); err != nil {
			return err
		}
		if err := s.takeLane(ctx, e); err != nil {
			return err
		}
		again, err := s.recheck(ctx)
		if err != nil {
			return err
		}
		if !again {
			return s.baseline(ctx)
		}
		s.giveLane(ctx, contract.LaneYield)
		if err := s.askAgain(ctx, u); err != nil {
			return err
		}
	}
}

func (s *stageRun) takeLane(ctx workflow.Context, e *promo.Step) *promo.Error {
	c, err := s.tell(ctx, contract.LaneTake)
	if err != nil {
		return err
	}
	e.Message = "waiting for the lane of " + s.plan.Environment.Name
	s.r.rec.changed()
	granted := func() bool { return c.last.Kind == contract.LaneGranted }
	since := workflow.Now(ctx)
	for {
		ok, err := workflow.AwaitWithTimeout(ctx, poll(ctx, since, laneReminder), granted)
		if err != nil {
			return fault(err)
		}
		if ok {
			break
		}
		if err := s.say(ctx, contract.LaneTake); err != nil { // a lane that was lost is started anew by it
			return err
		}
	}
	s.lane.held, s.state.Lane = true, nil
	e.Message = ""
	s.r.rec.changed()
	return nil
}

// awaitNoHold keeps automatic promotions out of an environment that was rolled back until a person releases it.
func (s *stageRun) awaitNoHold(ctx workflow.Context, e *promo.Step) *promo.Error {
	if !s.r.in.Automatic {
		return nil
	}
	events := []string{promo.EventHold(s.r.info.Project, s.r.in.Plan.Service.Name, s.plan.Environment.Name)}
	since := workflow.Now(ctx)
	for {
		before := s.r.seen(events)
		res, err := contract.ReadHold.CallLocal(ctx, s.laneID())
		if err != nil {
			return fault(err)
		}
		if res.Hold == nil {
			if e.Phase == promo.PhasePaused {
				e.Phase, e.Message = promo.PhaseRunning, ""
				s.r.refresh()
			}
			return nil
		}
		e.Phase = promo.PhasePaused
		e.Message = "automatic promotions are held by " + res.Hold.By + ": " + res.Hold.Reason
		s.r.refresh()
		done := s.r.watch(events...)
		werr := s.r.wait(ctx, poll(ctx, since, slowPoll), events, before)
		done()
		if werr != nil {
			return werr
		}
	}
}

// recheck compares the changes with what gates looked at. It says true where the gates must ask again.
func (s *stageRun) recheck(ctx workflow.Context) (bool, *promo.Error) {
	for _, w := range workflow.DeterministicKeys(s.approved) {
		if s.changes[w].Merged != "" {
			continue
		}
		got, err := s.readChange(ctx, w)
		if err != nil {
			return false, err
		}
		if got.Change.Digest != s.approved[w] {
			return true, nil
		}
	}
	return false, nil
}

// askAgain voids what was decided about changes that are not merged yet and runs their gates again, policies
// included. The execution u is the one whose change was altered.
func (s *stageRun) askAgain(ctx workflow.Context, u unit) *promo.Error {
	for _, w := range workflow.DeterministicKeys(s.approved) {
		if s.changes[w].Merged == "" {
			delete(s.approved, w)
		}
	}
	for i, n := range s.plan.Nodes {
		at := u
		if i < s.plan.Prologue {
			at = unit{targets: s.targets(nil)}
		}
		for _, st := range plan.Steps([]plan.Node{n}) {
			if st.Mutates {
				return nil
			}
			if st.Type != "Approval" && st.Type != "Policy" {
				continue
			}
			if err := s.runUnit(ctx, st, unit{wave: at.wave, targets: at.targets}); err != nil {
				return err
			}
		}
	}
	return nil
}

// baseline records the present commit as known-good before the first change, where there is no history yet. It is a
// convenience of the first promotion and must not keep it from running.
func (s *stageRun) baseline(ctx workflow.Context) *promo.Error {
	_, err := contract.Baseline.CallLocal(ctx, plan.BaselineRequest{
		Project: s.r.info.Project, Service: s.r.in.Plan.Service, Repository: s.r.in.Plan.Repository,
		Environment: s.plan.Environment.Name, Targets: s.plan.Targets,
	})
	if f := fault(err); isStopped(f) {
		return f
	}
	if err != nil {
		workflow.GetLogger(ctx).Warn("no baseline recorded", "promotion", s.r.info.ID, "stage", s.plan.Name, "error", err)
	}
	return nil
}

// giveLane gives the lane back, for good (leave) or to ask people again (yield), and returns when the lane was told.
func (s *stageRun) giveLane(ctx workflow.Context, kind contract.LaneKind) {
	s.lane.held = false
	if err := s.say(detached(ctx), kind); err != nil {
		// The lane frees itself of a holder that is gone, so this only delays the next in the queue.
		workflow.GetLogger(ctx).Error("lane not given back", "promotion", s.r.info.ID, "stage", s.plan.Name, "error", err)
	}
}

// leave tidies up behind the stage and gives its lane back, beside the stages that come next. Whoever waits for
// the lane gets it when the pull requests of this stage are closed.
func (s *stageRun) leave(ctx workflow.Context) {
	s.lane.held = false
	s.r.cleanups.Add(1)
	workflow.Go(detached(ctx), func(ctx workflow.Context) {
		defer s.r.cleanups.Done()
		if s.state.Phase != promo.PhaseSucceeded {
			s.cleanUp(ctx)
		}
		if s.lane.takes > 0 {
			s.giveLane(ctx, contract.LaneLeave)
		}
	})
}

// cleanUp closes the stage's pull requests that were not merged. It is best effort: what it can't undo, it logs,
// and the pull request itself says that its promotion has ended.
func (s *stageRun) cleanUp(ctx workflow.Context) {
	var open []plan.Change
	for _, w := range workflow.DeterministicKeys(s.changes) {
		if c := s.changes[w]; c.Changed && c.Merged == "" && c.Branch != "" {
			open = append(open, *c)
		}
	}
	if len(open) == 0 {
		return
	}
	_, err := contract.CleanUp.Call(ctx, contract.CleanUpRequest{
		Project: s.r.info.Project, Repository: s.r.in.Plan.Repository.Name, Changes: open,
		Reason: "promotion " + s.r.info.ID + ": " + s.state.Message,
	})
	if err != nil {
		workflow.GetLogger(ctx).Warn("pull requests left open", "promotion", s.r.info.ID, "stage", s.plan.Name, "error", err)
	}
}
