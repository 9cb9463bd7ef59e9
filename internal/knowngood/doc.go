// Package knowngood keeps the history of what was good in an environment and finds the way back to it: the
// baseline before a first change, the mark behind a stage, the preview and the commit of a rollback.
//
// A commit is known-good for a service in an environment when its stage ended synced, healthy and verified over all
// targets and waves, and each target's paths there equal what was synced. See architecture, "Rollback".
//
// It works on Git trees and the recorded history; it knows nothing of workflows, agents or HTTP. Start reading at
// Keeper.
package knowngood

import (
	"context"
	"log/slog"

	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// The requests travel through workflows and live beside the plan.
type (
	// Target says what is put back to which commit.
	Target = plan.RollbackTarget
	// BaselineRequest names the environment and its targets.
	BaselineRequest = plan.BaselineRequest
	// MarkRequest is the outcome of a stage.
	MarkRequest = plan.MarkRequest
	// MarkResult says what was recorded.
	MarkResult = plan.MarkResult
	// WriteRequest asks for the commit of a rollback.
	WriteRequest = plan.RollbackWrite
	// WriteResult is the commit, or the pull request that waits.
	WriteResult = plan.RollbackWritten
)

// Repositories opens release repositories by name.
type Repositories interface {
	Repo(ctx context.Context, project, name string) (*git.Repo, error)
}

// History is the record of what was in environments.
type History interface {
	History(ctx context.Context, project, service, environment string, limit int) ([]promo.KnownGood, error)
	AddKnownGood(ctx context.Context, k promo.KnownGood) error
}

// Fleet knows the applications that agents reported.
type Fleet interface {
	Linked(ctx context.Context, project string, service plan.Service, environment string, target plan.Target) ([]promo.Application, error)
}

// Forge opens and merges the pull request of a rollback where the branch refuses a push.
type Forge interface {
	// Deliver finds or opens the pull request of the branch and merges it at head if it may be merged. Waiting
	// says what is missing where it may not yet.
	Deliver(ctx context.Context, req Delivery) (change plan.Change, waiting string, err error)
}

// Delivery asks for a pull request and its merge.
type Delivery struct {
	Project, Repository    string
	Branch, Head, Base     string
	Title, Body, Operation string
	By                     promo.Principal
}

// Keeper marks, finds and restores known-good commits.
type Keeper struct {
	Repos   Repositories
	History History
	Fleet   Fleet
	Forge   Forge
	Log     *slog.Logger
}

// historyDepth is how far back a way back is looked for. Older states can be named by their commit.
const historyDepth = 200
