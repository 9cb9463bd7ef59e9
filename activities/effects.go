package activities

import (
	"context"
	"encoding/json"

	"go.temporal.io/sdk/activity"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
)

func (s *Server) record(ctx context.Context, req contract.RecordRequest) (contract.Nothing, error) {
	if len(req.Promotion) > 0 {
		var p promo.Promotion
		if err := json.Unmarshal(req.Promotion, &p); err != nil {
			return contract.Nothing{}, promo.Errorf(promo.CodeInternal, "state of a promotion: %w", err)
		}
		return contract.Nothing{}, s.Recorder.RecordPromotion(ctx, p)
	}
	var r promo.Rollback
	if err := json.Unmarshal(req.Rollback, &r); err != nil {
		return contract.Nothing{}, promo.Errorf(promo.CodeInternal, "state of a rollback: %w", err)
	}
	return contract.Nothing{}, s.Recorder.RecordRollback(ctx, r)
}

func (s *Server) tellLane(ctx context.Context, req contract.TellLaneRequest) (contract.Nothing, error) {
	return contract.Nothing{}, s.Runs.TellLane(ctx, req.Lane, req.Message)
}

func (s *Server) runAlive(ctx context.Context, req contract.RunAliveRequest) (contract.RunAliveResult, error) {
	alive, err := s.Runs.Alive(ctx, req.ID)
	return contract.RunAliveResult{Alive: alive}, err
}

func (s *Server) readHold(ctx context.Context, lane contract.LaneID) (contract.HoldResult, error) {
	h, held, err := s.Holds.Hold(ctx, lane.Project, lane.Service, lane.Environment)
	if err != nil || !held {
		return contract.HoldResult{}, err
	}
	return contract.HoldResult{Hold: &h}, nil
}

func (s *Server) setHold(ctx context.Context, h promo.Hold) (contract.Nothing, error) {
	return contract.Nothing{}, s.Holds.SetHold(ctx, h)
}

func (s *Server) readChange(ctx context.Context, req contract.ReadChangeRequest) (contract.ReadChangeResult, error) {
	return s.Changes.Read(ctx, req.Project, req)
}

func (s *Server) cleanUp(ctx context.Context, req contract.CleanUpRequest) (contract.Nothing, error) {
	return contract.Nothing{}, s.Changes.CleanUp(ctx, req.Project, req)
}

func (s *Server) decide(ctx context.Context, req contract.DecideRequest) (contract.DecideResult, error) {
	info := activity.GetInfo(ctx)
	d, err := s.Policy.Decide(ctx, steps.PolicyRequest{
		Operation: info.WorkflowExecution.RunID + "/" + info.ActivityID,
		Project:   req.Project, Sets: req.Sets, Event: req.Event, Run: req.Run, Stage: req.Stage, Step: req.Step, Target: req.Target, By: req.By,
	})
	return contract.DecideResult{ID: d.ID, Deny: d.Deny, Warn: d.Warn}, err
}

func (s *Server) presence(ctx context.Context, req contract.PresenceRequest) (contract.PresenceResult, error) {
	return s.Fleet.Presence(ctx, req.Agent)
}

func (s *Server) linkedApps(ctx context.Context, req contract.LinkedAppsRequest) (contract.LinkedAppsResult, error) {
	apps, err := s.Fleet.Linked(ctx, req.Project, req.Service, req.Environment, req.Target)
	return contract.LinkedAppsResult{Applications: apps}, err
}

func (s *Server) baseline(ctx context.Context, req plan.BaselineRequest) (contract.Nothing, error) {
	if activity.GetInfo(ctx).Attempt > baselineTries {
		// The baseline is a convenience of the first promotion: it must not keep it from running.
		s.Log.WarnContext(ctx, "no baseline recorded", "service", req.Service.Name, "environment", req.Environment)
		return contract.Nothing{}, nil
	}
	return contract.Nothing{}, s.KnownGood.Baseline(ctx, req)
}

// baselineTries is how often a baseline is tried: twice over a hiccup of the repository.
const baselineTries = 3
