// Package engine is the client side of promotions: it compiles and starts them, passes people's decisions to
// workflows, starts rollbacks, and answers pages and REST from the store. Each exported type with methods is one
// service of package web.
//
// Whether somebody may do a thing was decided before (package auth, at the one door), except where that depends on
// what is applied (see access.go); what the engine still checks is whether the thing can be done. Start reading at Engine.
package engine

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/catalog"
	"github.com/davit-cd/davit/internal/knowngood"
	"github.com/davit-cd/davit/internal/policy"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/repos"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/internal/store"
	"github.com/davit-cd/davit/steps"
)

// DefinitionStore keeps applied definitions.
type DefinitionStore interface {
	ApplyDefinitions(ctx context.Context, defs []store.Definition, by string, expect int64) (int64, error)
	DeleteDefinition(ctx context.Context, kind, project, name string, expect int64) (int64, error)
}

// RunStore keeps promotions and rollbacks.
type RunStore interface {
	NextNumber(ctx context.Context, project, pipeline string) (int, error)
	CreatePromotion(ctx context.Context, p promo.Promotion, plan []byte) error
	Promotion(ctx context.Context, id string) (promo.Promotion, error)
	Promotions(ctx context.Context, f store.PromotionFilter) ([]promo.Promotion, error)
}

// PlanStore keeps plans and earlier attempts.
type PlanStore interface {
	RecordPromotion(ctx context.Context, p promo.Promotion) error
	PromotionAttempt(ctx context.Context, id string, attempt int) (promo.Promotion, error)
	Plan(ctx context.Context, hashOrID string) ([]byte, error)
}

// RollbackStore keeps rollbacks.
type RollbackStore interface {
	NextRollbackNumber(ctx context.Context, project, service, environment string) (int, error)
	RecordRollback(ctx context.Context, r promo.Rollback) error
	Rollback(ctx context.Context, id string) (promo.Rollback, error)
	Rollbacks(ctx context.Context, f store.RollbackFilter) ([]promo.Rollback, error)
}

// EnvironmentStore keeps histories and holds.
type EnvironmentStore interface {
	History(ctx context.Context, project, service, environment string, limit int) ([]promo.KnownGood, error)
	Pin(ctx context.Context, project, service, environment, commit string) error
	Unpin(ctx context.Context, project, service, environment, commit string) error
}

// HoldStore keeps holds.
type HoldStore interface {
	Holds(ctx context.Context, project string) ([]promo.Hold, error)
	SetHold(ctx context.Context, h promo.Hold) error
	ReleaseHold(ctx context.Context, project, service, environment string) (bool, error)
}

// RecordStore keeps decisions, audit and blobs.
type RecordStore interface {
	AppendAudit(ctx context.Context, e store.Entry) (store.Entry, error)
	Audit(ctx context.Context, f store.AuditFilter) ([]store.Entry, error)
	Decisions(ctx context.Context, f store.DecisionFilter) ([]store.Decision, error)
	Blob(ctx context.Context, digest string) (store.Blob, error)
}

// MetaStore keeps small values: which request started which run.
type MetaStore interface {
	Meta(ctx context.Context, key string) (string, error)
	SetMeta(ctx context.Context, key, value string) error
}

// Store is what the engine needs of the store.
type Store interface { //nolint:interfacebloat // the sum of small ones, each named for its part
	DefinitionStore
	RunStore
	PlanStore
	RollbackStore
	EnvironmentStore
	HoldStore
	RecordStore
	MetaStore
}

// Authorizer is the one authorisation call. *auth.Authorizer is one.
type Authorizer interface {
	Authorize(ctx context.Context, who promo.Principal, action auth.Action, on auth.Resource) error
}

// Engine holds what its services share.
type Engine struct {
	Temporal  client.Client
	Store     Store
	Catalog   *catalog.Catalog
	Lang      *spec.Language
	Repos     *repos.Repos
	Fleet     Fleet
	KnownGood *knowngood.Keeper
	Hosts     Hosts
	Policy    *policy.Engine
	// Authz is asked where what is done depends on a request's body: which kinds of definitions it applies.
	Authz Authorizer
	Types []steps.Type
	// URL is where people find pages.
	URL string
	Log *slog.Logger
	Now func() time.Time
}

// deed is what somebody did, to what, of which project.
type deed struct{ action, kind, subject, project string }

// audit appends to the audit log. What was done is done: a log that can't be written is an error for the caller,
// who is told that the deed stands.
func (e *Engine) audit(ctx context.Context, who promo.Principal, what deed, detail any) error {
	raw, err := json.Marshal(detail)
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "audit of %s: %w", what.action, err)
	}
	_, err = e.Store.AppendAudit(ctx, store.Entry{
		At: e.Now(), Who: who.Name, Action: what.action, Kind: what.kind, Subject: what.subject, Project: what.project, Detail: raw,
	})
	return err
}
