// Package webtest has fakes of the services behind package web, for tests of web and cli: a field XxxFn is called
// where it is set; what is not set answers NotFound. Start reading at Fakes.
package webtest

import (
	"context"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/web"
)

func unset(name string) error {
	return promo.Errorf(promo.CodeNotFound, "%s is not faked", name)
}

// Promotions fakes web.Promotions.
type Promotions struct {
	ListFn   func(ctx context.Context, who promo.Principal, filter api.PromotionFilter) ([]promo.Promotion, error)
	GetFn    func(ctx context.Context, who promo.Principal, id string) (promo.Promotion, error)
	DecideFn func(ctx context.Context, who promo.Principal, req api.DecideRequest) (api.DecideResult, error)
	AbortFn  func(ctx context.Context, who promo.Principal, req api.AbortRequest) error
	RetryFn  func(ctx context.Context, who promo.Principal, req api.RetryRequest) (promo.Promotion, error)
}

// List calls ListFn.
func (f *Promotions) List(ctx context.Context, who promo.Principal, filter api.PromotionFilter) ([]promo.Promotion, error) {
	if f.ListFn == nil {
		return nil, unset("Promotions.List")
	}
	return f.ListFn(ctx, who, filter)
}

// Get calls GetFn.
func (f *Promotions) Get(ctx context.Context, who promo.Principal, id string) (promo.Promotion, error) {
	if f.GetFn == nil {
		return promo.Promotion{}, unset("Promotions.Get")
	}
	return f.GetFn(ctx, who, id)
}

// Decide calls DecideFn.
func (f *Promotions) Decide(ctx context.Context, who promo.Principal, req api.DecideRequest) (api.DecideResult, error) {
	if f.DecideFn == nil {
		return api.DecideResult{}, unset("Promotions.Decide")
	}
	return f.DecideFn(ctx, who, req)
}

// Abort calls AbortFn.
func (f *Promotions) Abort(ctx context.Context, who promo.Principal, req api.AbortRequest) error {
	if f.AbortFn == nil {
		return unset("Promotions.Abort")
	}
	return f.AbortFn(ctx, who, req)
}

// Retry calls RetryFn.
func (f *Promotions) Retry(ctx context.Context, who promo.Principal, req api.RetryRequest) (promo.Promotion, error) {
	if f.RetryFn == nil {
		return promo.Promotion{}, unset("Promotions.Retry")
	}
	return f.RetryFn(ctx, who, req)
}

// Runs fakes web.Runs.
type Runs struct {
	RunFn  func(ctx context.Context, who promo.Principal, req api.RunRequest) (promo.Promotion, error)
	PlanFn func(ctx context.Context, who promo.Principal, req api.RunRequest) (api.PlanResult, error)

	PipelinesFn func(ctx context.Context, who promo.Principal, project string) ([]api.Pipeline, error)
}

// Pipelines calls PipelinesFn.
func (f *Runs) Pipelines(ctx context.Context, who promo.Principal, project string) ([]api.Pipeline, error) {
	if f.PipelinesFn == nil {
		return nil, unset("Runs.Pipelines")
	}
	return f.PipelinesFn(ctx, who, project)
}

// Run calls RunFn.
func (f *Runs) Run(ctx context.Context, who promo.Principal, req api.RunRequest) (promo.Promotion, error) {
	if f.RunFn == nil {
		return promo.Promotion{}, unset("Runs.Run")
	}
	return f.RunFn(ctx, who, req)
}

// Plan calls PlanFn.
func (f *Runs) Plan(ctx context.Context, who promo.Principal, req api.RunRequest) (api.PlanResult, error) {
	if f.PlanFn == nil {
		return api.PlanResult{}, unset("Runs.Plan")
	}
	return f.PlanFn(ctx, who, req)
}

// Definitions fakes web.Definitions.
type Definitions struct {
	ApplyFn  func(ctx context.Context, who promo.Principal, req api.ApplyRequest) (api.ApplyResult, error)
	ListFn   func(ctx context.Context, who promo.Principal, filter api.DefinitionRef) ([]api.Definition, error)
	GetFn    func(ctx context.Context, who promo.Principal, ref api.DefinitionRef) (api.Definition, error)
	DeleteFn func(ctx context.Context, who promo.Principal, ref api.DefinitionRef) error
}

// Apply calls ApplyFn.
func (f *Definitions) Apply(ctx context.Context, who promo.Principal, req api.ApplyRequest) (api.ApplyResult, error) {
	if f.ApplyFn == nil {
		return api.ApplyResult{}, unset("Definitions.Apply")
	}
	return f.ApplyFn(ctx, who, req)
}

// List calls ListFn.
func (f *Definitions) List(ctx context.Context, who promo.Principal, filter api.DefinitionRef) ([]api.Definition, error) {
	if f.ListFn == nil {
		return nil, unset("Definitions.List")
	}
	return f.ListFn(ctx, who, filter)
}

// Get calls GetFn.
func (f *Definitions) Get(ctx context.Context, who promo.Principal, ref api.DefinitionRef) (api.Definition, error) {
	if f.GetFn == nil {
		return api.Definition{}, unset("Definitions.Get")
	}
	return f.GetFn(ctx, who, ref)
}

// Delete calls DeleteFn.
func (f *Definitions) Delete(ctx context.Context, who promo.Principal, ref api.DefinitionRef) error {
	if f.DeleteFn == nil {
		return unset("Definitions.Delete")
	}
	return f.DeleteFn(ctx, who, ref)
}

// Environments fakes web.Environments.
type Environments struct {
	HistoryFn func(ctx context.Context, who promo.Principal, ref api.EnvironmentRef) ([]promo.KnownGood, error)
	PinFn     func(ctx context.Context, who promo.Principal, req api.PinRequest) error
	HoldsFn   func(ctx context.Context, who promo.Principal, filter api.EnvironmentRef) ([]promo.Hold, error)
	HoldFn    func(ctx context.Context, who promo.Principal, req api.HoldRequest) (promo.Hold, error)
	ReleaseFn func(ctx context.Context, who promo.Principal, req api.HoldRequest) error
}

// History calls HistoryFn.
func (f *Environments) History(ctx context.Context, who promo.Principal, ref api.EnvironmentRef) ([]promo.KnownGood, error) {
	if f.HistoryFn == nil {
		return nil, unset("Environments.History")
	}
	return f.HistoryFn(ctx, who, ref)
}

// Pin calls PinFn.
func (f *Environments) Pin(ctx context.Context, who promo.Principal, req api.PinRequest) error {
	if f.PinFn == nil {
		return unset("Environments.Pin")
	}
	return f.PinFn(ctx, who, req)
}

// Holds calls HoldsFn.
func (f *Environments) Holds(ctx context.Context, who promo.Principal, filter api.EnvironmentRef) ([]promo.Hold, error) {
	if f.HoldsFn == nil {
		return nil, unset("Environments.Holds")
	}
	return f.HoldsFn(ctx, who, filter)
}

// Hold calls HoldFn.
func (f *Environments) Hold(ctx context.Context, who promo.Principal, req api.HoldRequest) (promo.Hold, error) {
	if f.HoldFn == nil {
		return promo.Hold{}, unset("Environments.Hold")
	}
	return f.HoldFn(ctx, who, req)
}

// Release calls ReleaseFn.
func (f *Environments) Release(ctx context.Context, who promo.Principal, req api.HoldRequest) error {
	if f.ReleaseFn == nil {
		return unset("Environments.Release")
	}
	return f.ReleaseFn(ctx, who, req)
}

// Rollbacks fakes web.Rollbacks.
type Rollbacks struct {
	PreviewFn func(ctx context.Context, who promo.Principal, req api.RollbackRequest) (promo.Preview, error)
	StartFn   func(ctx context.Context, who promo.Principal, req api.RollbackRequest) (promo.Rollback, error)
	GetFn     func(ctx context.Context, who promo.Principal, id string) (promo.Rollback, error)
	ListFn    func(ctx context.Context, who promo.Principal, filter api.EnvironmentRef) ([]promo.Rollback, error)
	AbortFn   func(ctx context.Context, who promo.Principal, req api.AbortRequest) error
}

// Preview calls PreviewFn.
func (f *Rollbacks) Preview(ctx context.Context, who promo.Principal, req api.RollbackRequest) (promo.Preview, error) {
	if f.PreviewFn == nil {
		return promo.Preview{}, unset("Rollbacks.Preview")
	}
	return f.PreviewFn(ctx, who, req)
}

// Start calls StartFn.
func (f *Rollbacks) Start(ctx context.Context, who promo.Principal, req api.RollbackRequest) (promo.Rollback, error) {
	if f.StartFn == nil {
		return promo.Rollback{}, unset("Rollbacks.Start")
	}
	return f.StartFn(ctx, who, req)
}

// Get calls GetFn.
func (f *Rollbacks) Get(ctx context.Context, who promo.Principal, id string) (promo.Rollback, error) {
	if f.GetFn == nil {
		return promo.Rollback{}, unset("Rollbacks.Get")
	}
	return f.GetFn(ctx, who, id)
}

// List calls ListFn.
func (f *Rollbacks) List(ctx context.Context, who promo.Principal, filter api.EnvironmentRef) ([]promo.Rollback, error) {
	if f.ListFn == nil {
		return nil, unset("Rollbacks.List")
	}
	return f.ListFn(ctx, who, filter)
}

// Abort calls AbortFn.
func (f *Rollbacks) Abort(ctx context.Context, who promo.Principal, req api.AbortRequest) error {
	if f.AbortFn == nil {
		return unset("Rollbacks.Abort")
	}
	return f.AbortFn(ctx, who, req)
}

// Fleet fakes web.Fleet.
type Fleet struct {
	ApplicationsFn func(ctx context.Context, who promo.Principal, filter api.EnvironmentRef) ([]api.FleetEntry, error)
	LanesFn        func(ctx context.Context, who promo.Principal, filter api.EnvironmentRef) ([]api.Lane, error)
}

// Applications calls ApplicationsFn.
func (f *Fleet) Applications(ctx context.Context, who promo.Principal, filter api.EnvironmentRef) ([]api.FleetEntry, error) {
	if f.ApplicationsFn == nil {
		return nil, unset("Fleet.Applications")
	}
	return f.ApplicationsFn(ctx, who, filter)
}

// Lanes calls LanesFn.
func (f *Fleet) Lanes(ctx context.Context, who promo.Principal, filter api.EnvironmentRef) ([]api.Lane, error) {
	if f.LanesFn == nil {
		return nil, unset("Fleet.Lanes")
	}
	return f.LanesFn(ctx, who, filter)
}

// PullRequests fakes web.PullRequests.
type PullRequests struct {
	ListFn   func(ctx context.Context, who promo.Principal, filter api.PullRequestRef) ([]api.PullRequest, error)
	GetFn    func(ctx context.Context, who promo.Principal, ref api.PullRequestRef) (api.PullRequest, error)
	ReviewFn func(ctx context.Context, who promo.Principal, req api.ReviewRequest) (api.PullRequest, error)
	MergeFn  func(ctx context.Context, who promo.Principal, ref api.PullRequestRef) (api.PullRequest, error)
	CloseFn  func(ctx context.Context, who promo.Principal, ref api.PullRequestRef) (api.PullRequest, error)
}

// List calls ListFn.
func (f *PullRequests) List(ctx context.Context, who promo.Principal, filter api.PullRequestRef) ([]api.PullRequest, error) {
	if f.ListFn == nil {
		return nil, unset("PullRequests.List")
	}
	return f.ListFn(ctx, who, filter)
}

// Get calls GetFn.
func (f *PullRequests) Get(ctx context.Context, who promo.Principal, ref api.PullRequestRef) (api.PullRequest, error) {
	if f.GetFn == nil {
		return api.PullRequest{}, unset("PullRequests.Get")
	}
	return f.GetFn(ctx, who, ref)
}

// Review calls ReviewFn.
func (f *PullRequests) Review(ctx context.Context, who promo.Principal, req api.ReviewRequest) (api.PullRequest, error) {
	if f.ReviewFn == nil {
		return api.PullRequest{}, unset("PullRequests.Review")
	}
	return f.ReviewFn(ctx, who, req)
}

// Merge calls MergeFn.
func (f *PullRequests) Merge(ctx context.Context, who promo.Principal, ref api.PullRequestRef) (api.PullRequest, error) {
	if f.MergeFn == nil {
		return api.PullRequest{}, unset("PullRequests.Merge")
	}
	return f.MergeFn(ctx, who, ref)
}

// Close calls CloseFn.
func (f *PullRequests) Close(ctx context.Context, who promo.Principal, ref api.PullRequestRef) (api.PullRequest, error) {
	if f.CloseFn == nil {
		return api.PullRequest{}, unset("PullRequests.Close")
	}
	return f.CloseFn(ctx, who, ref)
}

// Agents fakes web.Agents.
type Agents struct {
	ListFn   func(ctx context.Context, who promo.Principal) ([]api.Agent, error)
	CreateFn func(ctx context.Context, who promo.Principal, req api.AgentRequest) (api.NewAgent, error)
	RevokeFn func(ctx context.Context, who promo.Principal, name string) error
}

// List calls ListFn.
func (f *Agents) List(ctx context.Context, who promo.Principal) ([]api.Agent, error) {
	if f.ListFn == nil {
		return nil, unset("Agents.List")
	}
	return f.ListFn(ctx, who)
}

// Create calls CreateFn.
func (f *Agents) Create(ctx context.Context, who promo.Principal, req api.AgentRequest) (api.NewAgent, error) {
	if f.CreateFn == nil {
		return api.NewAgent{}, unset("Agents.Create")
	}
	return f.CreateFn(ctx, who, req)
}

// Revoke calls RevokeFn.
func (f *Agents) Revoke(ctx context.Context, who promo.Principal, name string) error {
	if f.RevokeFn == nil {
		return unset("Agents.Revoke")
	}
	return f.RevokeFn(ctx, who, name)
}

// Tokens fakes web.Tokens.
type Tokens struct {
	ListFn   func(ctx context.Context, who promo.Principal) ([]api.Token, error)
	CreateFn func(ctx context.Context, who promo.Principal, req api.TokenRequest) (api.NewToken, error)
	RevokeFn func(ctx context.Context, who promo.Principal, name string) error
}

// List calls ListFn.
func (f *Tokens) List(ctx context.Context, who promo.Principal) ([]api.Token, error) {
	if f.ListFn == nil {
		return nil, unset("Tokens.List")
	}
	return f.ListFn(ctx, who)
}

// Create calls CreateFn.
func (f *Tokens) Create(ctx context.Context, who promo.Principal, req api.TokenRequest) (api.NewToken, error) {
	if f.CreateFn == nil {
		return api.NewToken{}, unset("Tokens.Create")
	}
	return f.CreateFn(ctx, who, req)
}

// Revoke calls RevokeFn.
func (f *Tokens) Revoke(ctx context.Context, who promo.Principal, name string) error {
	if f.RevokeFn == nil {
		return unset("Tokens.Revoke")
	}
	return f.RevokeFn(ctx, who, name)
}

// Records fakes web.Records.
type Records struct {
	EvaluateFn  func(ctx context.Context, who promo.Principal, req api.EvaluateRequest) (api.EvaluateResult, error)
	DecisionsFn func(ctx context.Context, who promo.Principal, filter api.DecisionFilter) ([]api.Decision, error)
	AuditFn     func(ctx context.Context, who promo.Principal, filter api.AuditFilter) ([]api.AuditEntry, error)
	BlobFn      func(ctx context.Context, who promo.Principal, req api.BlobRequest) (api.Blob, error)
}

// Evaluate calls EvaluateFn.
func (f *Records) Evaluate(ctx context.Context, who promo.Principal, req api.EvaluateRequest) (api.EvaluateResult, error) {
	if f.EvaluateFn == nil {
		return api.EvaluateResult{}, unset("Records.Evaluate")
	}
	return f.EvaluateFn(ctx, who, req)
}

// Decisions calls DecisionsFn.
func (f *Records) Decisions(ctx context.Context, who promo.Principal, filter api.DecisionFilter) ([]api.Decision, error) {
	if f.DecisionsFn == nil {
		return nil, unset("Records.Decisions")
	}
	return f.DecisionsFn(ctx, who, filter)
}

// Audit calls AuditFn.
func (f *Records) Audit(ctx context.Context, who promo.Principal, filter api.AuditFilter) ([]api.AuditEntry, error) {
	if f.AuditFn == nil {
		return nil, unset("Records.Audit")
	}
	return f.AuditFn(ctx, who, filter)
}

// Blob calls BlobFn.
func (f *Records) Blob(ctx context.Context, who promo.Principal, req api.BlobRequest) (api.Blob, error) {
	if f.BlobFn == nil {
		return api.Blob{}, unset("Records.Blob")
	}
	return f.BlobFn(ctx, who, req)
}

// Fakes are all services.
type Fakes struct {
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
}

// Services returns them for web.Options.
func (f *Fakes) Services(changes web.Changes) web.Services {
	return web.Services{
		Promotions:   &f.Promotions,
		Runs:         &f.Runs,
		Definitions:  &f.Definitions,
		Environments: &f.Environments,
		Rollbacks:    &f.Rollbacks,
		Fleet:        &f.Fleet,
		PullRequests: &f.PullRequests,
		Agents:       &f.Agents,
		Tokens:       &f.Tokens,
		Records:      &f.Records,
		Sandbox:      &f.Sandbox,
		SandboxApps:  &f.Sandbox,
		Changes:      changes,
	}
}
