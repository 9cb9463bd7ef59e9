package web

import (
	"context"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

// Services are what routes and pages are thin over. A nil one answers 404 "not in this server".
type Services struct {
	Promotions   Promotions
	Runs         Runs
	Definitions  Definitions
	Environments Environments
	Rollbacks    Rollbacks
	Fleet        Fleet
	PullRequests PullRequests
	Agents       Agents
	Tokens       Tokens
	Records      Records
	Sandbox      Sandbox
	SandboxApps  SandboxApps
	Changes      Changes
	Repositories Repositories
	SandboxLinks SandboxLinks
}

// Promotions reads and steers promotions. Ids are "<project>/<pipeline>/<number>".
type Promotions interface {
	List(ctx context.Context, who promo.Principal, filter api.PromotionFilter) ([]promo.Promotion, error)
	Get(ctx context.Context, who promo.Principal, id string) (promo.Promotion, error)
	Decide(ctx context.Context, who promo.Principal, req api.DecideRequest) (api.DecideResult, error)
	Abort(ctx context.Context, who promo.Principal, req api.AbortRequest) error
	Retry(ctx context.Context, who promo.Principal, req api.RetryRequest) (promo.Promotion, error)
}

// Runs starts promotions and says what one would do.
type Runs interface {
	Run(ctx context.Context, who promo.Principal, req api.RunRequest) (promo.Promotion, error)
	Plan(ctx context.Context, who promo.Principal, req api.RunRequest) (api.PlanResult, error)
	// Pipelines lists what can be run in a project, with the inputs each takes.
	Pipelines(ctx context.Context, who promo.Principal, project string) ([]api.Pipeline, error)
}

// Definitions keeps what is declared in YAML.
type Definitions interface {
	Apply(ctx context.Context, who promo.Principal, req api.ApplyRequest) (api.ApplyResult, error)
	List(ctx context.Context, who promo.Principal, filter api.DefinitionRef) ([]api.Definition, error)
	Get(ctx context.Context, who promo.Principal, ref api.DefinitionRef) (api.Definition, error)
	Delete(ctx context.Context, who promo.Principal, ref api.DefinitionRef) error
}

// Environments knows what a service is and was in an environment, and what is held back from it.
type Environments interface {
	History(ctx context.Context, who promo.Principal, ref api.EnvironmentRef) ([]promo.KnownGood, error)
	Pin(ctx context.Context, who promo.Principal, req api.PinRequest) error
	Holds(ctx context.Context, who promo.Principal, filter api.EnvironmentRef) ([]promo.Hold, error)
	Hold(ctx context.Context, who promo.Principal, req api.HoldRequest) (promo.Hold, error)
	Release(ctx context.Context, who promo.Principal, req api.HoldRequest) error
}

// Rollbacks goes back to known-good commits. Ids are "<project>/<service>/<environment>/<run>".
type Rollbacks interface {
	Preview(ctx context.Context, who promo.Principal, req api.RollbackRequest) (promo.Preview, error)
	Start(ctx context.Context, who promo.Principal, req api.RollbackRequest) (promo.Rollback, error)
	Get(ctx context.Context, who promo.Principal, id string) (promo.Rollback, error)
	List(ctx context.Context, who promo.Principal, filter api.EnvironmentRef) ([]promo.Rollback, error)
	Abort(ctx context.Context, who promo.Principal, req api.AbortRequest) error
}

// Fleet knows the applications that agents report, and the lanes into environments.
type Fleet interface {
	Applications(ctx context.Context, who promo.Principal, filter api.EnvironmentRef) ([]api.FleetEntry, error)
	Lanes(ctx context.Context, who promo.Principal, filter api.EnvironmentRef) ([]api.Lane, error)
}

// PullRequests are those of the local forge.
type PullRequests interface {
	List(ctx context.Context, who promo.Principal, filter api.PullRequestRef) ([]api.PullRequest, error)
	Get(ctx context.Context, who promo.Principal, ref api.PullRequestRef) (api.PullRequest, error)
	Review(ctx context.Context, who promo.Principal, req api.ReviewRequest) (api.PullRequest, error)
	Merge(ctx context.Context, who promo.Principal, ref api.PullRequestRef) (api.PullRequest, error)
	Close(ctx context.Context, who promo.Principal, ref api.PullRequestRef) (api.PullRequest, error)
}

// Agents are those that may knock at the gateway.
type Agents interface {
	List(ctx context.Context, who promo.Principal) ([]api.Agent, error)
	Create(ctx context.Context, who promo.Principal, req api.AgentRequest) (api.NewAgent, error)
	Revoke(ctx context.Context, who promo.Principal, name string) error
}

// Tokens are the API tokens of people and machines.
type Tokens interface {
	List(ctx context.Context, who promo.Principal) ([]api.Token, error)
	Create(ctx context.Context, who promo.Principal, req api.TokenRequest) (api.NewToken, error)
	Revoke(ctx context.Context, who promo.Principal, name string) error
}

// Records are what was decided, done and kept: policy decisions, the audit, diffs and charts by digest.
type Records interface {
	Evaluate(ctx context.Context, who promo.Principal, req api.EvaluateRequest) (api.EvaluateResult, error)
	Decisions(ctx context.Context, who promo.Principal, filter api.DecisionFilter) ([]api.Decision, error)
	Audit(ctx context.Context, who promo.Principal, filter api.AuditFilter) ([]api.AuditEntry, error)
	Blob(ctx context.Context, who promo.Principal, req api.BlobRequest) (api.Blob, error)
}

// Sandbox is what a person does with sandbox clusters, as with kubectl.
type Sandbox interface {
	Clusters(ctx context.Context, who promo.Principal) ([]api.SandboxCluster, error)
	// Apply declares applications and returns their names.
	Apply(ctx context.Context, who promo.Principal, req api.SandboxApplyRequest) ([]string, error)
	Edit(ctx context.Context, who promo.Principal, req api.SandboxEditRequest) error
}

// SandboxApps is what a person does with applications on sandbox clusters, as with argocd.
type SandboxApps interface {
	Refresh(ctx context.Context, who promo.Principal, ref api.SandboxRef) error
	// Sync asks for a sync and does not wait for it.
	Sync(ctx context.Context, who promo.Principal, req api.SandboxSyncRequest) error
	Diff(ctx context.Context, who promo.Principal, ref api.SandboxRef) ([]promo.ResourceDiff, error)
}

// Changes tells that something was altered; *store.Feed is one. The channel ends with ctx.
type Changes interface {
	Subscribe(ctx context.Context) <-chan store.Event
}
