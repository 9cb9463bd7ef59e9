package workflows

import (
	"strconv"

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
		s.state.Lane = &promo.LanePlace{Place: a.Place, Holder: a.Holder}
		if c.last.Kind == contract.LaneGranted {
			return
		}
		s.r.rec.changed()
	case contract.LaneSuperseded:
		if s.lane.held {
			return
		}
		s.r.stop(promo.PhaseSuperseded, "superseded by "+a.By)
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
	c, err := s.tell(ctx, contract.LaneArrive)
	if err != nil {
		return err
	}
	// The lane refuses at once or not at all; its answer to an arrival comes before it can matter.
	return s.refusal(c)
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
	_, err := contract.TellLane.CallLocal(ctx, contract.TellLaneRequest{Lane: s.laneID(), Message: contract.LaneMessage{
		Kind: kind, From: contract.PromotionID(s.r.info.ID), Token: s.lane.token, Mode: s.r.in.Plan.Lane, Label: s.r.info.ID, Lane: s.laneID(),
	}})
	return c, fault(err)
}

func (s *stageRun) refusal(c *laneClaim) *promo.Error {
	if c.last.Kind != contract.LaneRejected {
		return nil
	}
	return &promo.Error{
		Code: promo.CodeConflict, Msg: "service " + s.r.in.Plan.Service.Name + " is being changed in " + s.plan.Environment.Name + " by " + c.last.Holder,
		Hint: "this pipeline says lane: reject; run it again later",
	}
}

// holdLane returns once the stage holds its lane, no hold keeps it out, and the change is still the one that was
// approved. Waiting for any of it holds nothing.
func (s *stageRun) holdLane(ctx workflow.Context, e *promo.Step) *promo.Error {
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
		s.giveLane(ctx)
		if err := s.askAgain(ctx); err != nil {
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
	werr := workflow.Await(ctx, func() bool {
		return c.last.Kind == contract.LaneGranted || c.last.Kind == contract.LaneRejected
	})
	if werr != nil {
		return fault(werr)
	}
	if err := s.refusal(c); err != nil {
		return err
	}
	s.lane.held, s.state.Lane = true, nil
	e.Message = ""
	return nil
}

// awaitNoHold keeps automatic promotions out of an environment that was rolled back until a person releases it.
func (s *stageRun) awaitNoHold(ctx workflow.Context, e *promo.Step) *promo.Error {
	if !s.r.in.Automatic {
		return nil
	}
	events := []string{promo.EventHold(s.r.info.Project, s.r.in.Plan.Service.Name, s.plan.Environment.Name)}
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
		werr := s.r.wait(ctx, slowPoll, events, before)
		done()
		if werr != nil {
			return werr
		}
	}
}

// recheck compares the changes with what gates looked at. It says true where the gates must ask again.
func (s *stageRun) recheck(ctx workflow.Context) (bool, *promo.Error) {
	for _, w := range workflow.DeterministicKeys(s.approved) {
		if s.approved[w] == "" || s.changes[w].Merged != "" {
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

// askAgain voids what was decided and runs the gates of the prologue again, policies included.
func (s *stageRun) askAgain(ctx workflow.Context) *promo.Error {
	s.approved = map[int]string{}
	for _, st := range plan.Steps(s.plan.Nodes) {
		if st.Mutates {
			return nil
		}
		if st.Type != "Approval" && st.Type != "Policy" {
			continue
		}
		for _, u := range s.units(st, s.whole()) {
			if err := s.runUnit(ctx, st, unit{wave: 0, targets: u.targets}); err != nil {
				return err
			}
		}
	}
	return nil
}

// baseline records the present commit as known-good before the first change, where there is no history yet.
func (s *stageRun) baseline(ctx workflow.Context) *promo.Error {
	_, err := contract.Baseline.CallLocal(ctx, plan.BaselineRequest{
		Project: s.r.info.Project, Service: s.r.in.Plan.Service, Repository: s.r.in.Plan.Repository,
		Environment: s.plan.Environment.Name, Targets: s.plan.Targets,
	})
	return fault(err)
}

// giveLane gives the lane back and waits until the lane has been told.
func (s *stageRun) giveLane(ctx workflow.Context) {
	s.lane.held = false
	_, err := contract.TellLane.CallLocal(detached(ctx), contract.TellLaneRequest{Lane: s.laneID(), Message: contract.LaneMessage{
		Kind: contract.LaneLeave, From: contract.PromotionID(s.r.info.ID), Label: s.r.info.ID, Lane: s.laneID(),
	}})
	if err != nil {
		// The lane frees itself of a holder that is gone, so this only delays the next in the queue.
		workflow.GetLogger(ctx).Error("lane not given back", "promotion", s.r.info.ID, "stage", s.plan.Name, "error", err)
	}
}

// leaveLane gives back whatever the stage has at its lane, beside the stages that come next.
func (s *stageRun) leaveLane(ctx workflow.Context) {
	if s.plan.Environment == nil || s.lane.takes == 0 || (s.r.state.Rollback != "" && !s.lane.held) {
		return
	}
	s.r.cleanups.Add(1)
	workflow.Go(detached(ctx), func(ctx workflow.Context) {
		defer s.r.cleanups.Done()
		s.giveLane(ctx)
	})
}
