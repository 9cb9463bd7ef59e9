// Package activities holds the thin Temporal adapters: one file per class of effect. Each binds a descriptor of
// package contract to the port that does the work, keeps the heartbeat, and maps errors once, at this boundary.
//
// It decides nothing about promotions (workflows do) and knows no Git, forge or database (ports do). Start reading
// at Server.
package activities

import (
	"context"
	"log/slog"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
)

// Recorder stores the state of runs.
type Recorder interface {
	RecordPromotion(ctx context.Context, p promo.Promotion) error
	RecordRollback(ctx context.Context, r promo.Rollback) error
}

// Holds keeps automatic promotions out of environments.
type Holds interface {
	Hold(ctx context.Context, project, service, environment string) (promo.Hold, bool, error)
	SetHold(ctx context.Context, h promo.Hold) error
}

// Changes reads and tidies changes of release repositories.
type Changes interface {
	Read(ctx context.Context, project string, req contract.ReadChangeRequest) (contract.ReadChangeResult, error)
	CleanUp(ctx context.Context, project string, req contract.CleanUpRequest) error
}

// Fleet knows agents and what they reported.
type Fleet interface {
	Presence(ctx context.Context, agent string) (contract.PresenceResult, error)
	Linked(ctx context.Context, project string, service plan.Service, environment string, target plan.Target) ([]promo.Application, error)
}

// KnownGood keeps the history and finds the way back.
type KnownGood interface {
	Baseline(ctx context.Context, req plan.BaselineRequest) error
	Mark(ctx context.Context, req plan.MarkRequest) (plan.MarkResult, error)
	Preview(ctx context.Context, t plan.RollbackTarget) (promo.Preview, error)
	Write(ctx context.Context, req plan.RollbackWrite) (plan.RollbackWritten, error)
}

// Runs reaches other workflows.
type Runs interface {
	TellLane(ctx context.Context, lane contract.LaneID, m contract.LaneMessage) error
	Alive(ctx context.Context, workflowID string) (bool, error)
}

// Policy evaluates policy sets about a place in a run.
type Policy interface {
	Decide(ctx context.Context, req steps.PolicyRequest) (steps.PolicyDecision, error)
}

// Server is everything that the server's worker offers.
type Server struct {
	Recorder  Recorder
	Holds     Holds
	Changes   Changes
	Fleet     Fleet
	KnownGood KnownGood
	Runs      Runs
	Policy    Policy
	// Ports gives a step its doors, for the project it runs in.
	Ports func(project string) steps.Ports
	Types []steps.Type
	Log   *slog.Logger
}

// Register offers all of it on a worker's registry. Step types that run on agents are left to agents.
func (s *Server) Register(r contract.Registry) {
	contract.Resolve.Register(r, wired(Resolve))
	contract.Record.Register(r, wired(s.record))
	contract.TellLane.Register(r, wired(s.tellLane))
	contract.RunAlive.Register(r, wired(s.runAlive))
	contract.ReadHold.Register(r, wired(s.readHold))
	contract.SetHold.Register(r, wired(s.setHold))
	contract.ReadChange.Register(r, wired(s.readChange))
	contract.CleanUp.Register(r, wired(s.cleanUp))
	contract.Decide.Register(r, wired(s.decide))
	contract.Presence.Register(r, wired(s.presence))
	contract.LinkedApps.Register(r, wired(s.linkedApps))
	contract.Baseline.Register(r, wired(s.baseline))
	contract.MarkCommit.Register(r, wired(s.KnownGood.Mark))
	contract.PreviewRollback.Register(r, wired(s.KnownGood.Preview))
	contract.WriteRollback.Register(r, wired(s.KnownGood.Write))
	for _, t := range s.Types {
		if !t.Gate && !t.Agent {
			RegisterStep(r, t, s.Ports, s.Log)
		}
	}
}

// wired maps the error of an activity to Temporal's form, in one place.
func wired[Req, Resp any](fn func(context.Context, Req) (Resp, error)) func(context.Context, Req) (Resp, error) {
	return func(ctx context.Context, req Req) (Resp, error) {
		resp, err := fn(ctx, req)
		return resp, contract.WireFrom(ctx, err)
	}
}
