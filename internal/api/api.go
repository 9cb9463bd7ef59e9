// Package api holds the requests and answers of REST, shared by the server (package web), the services behind it
// (package engine) and the client (package cli). Field names are stable. It knows nothing of HTTP or Temporal.
//
// Reads answer with the types of package promo; what stands here is what they lack.
package api

import (
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// File is a file of definitions or policies, by its path below the applied directory.
type File struct {
	Path    string `json:"path"`
	Content string `json:"content"`
}

// ApplyRequest applies definitions as one change, all or nothing.
type ApplyRequest struct {
	Project string `json:"project"`
	// Files are YAML documents and the Rego modules they name.
	Files  []File `json:"files"`
	DryRun bool   `json:"dryRun,omitempty"`
}

// ApplyResult says what changed.
type ApplyResult struct {
	Changes  []DefinitionChange `json:"changes"`
	Warnings []string           `json:"warnings,omitempty"`
}

// DefinitionChange is one definition of an apply.
type DefinitionChange struct {
	Kind   string `json:"kind"`
	Name   string `json:"name"`
	Change string `json:"change"` // created, updated, unchanged, deleted
}

// Definition is an applied definition.
type Definition struct {
	Kind      string    `json:"kind"`
	Project   string    `json:"project"`
	Name      string    `json:"name"`
	Source    string    `json:"source"`
	UpdatedBy string    `json:"updatedBy"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// RunRequest starts a pipeline, or plans it.
type RunRequest struct {
	Project  string         `json:"project"`
	Pipeline string         `json:"pipeline"`
	Inputs   map[string]any `json:"inputs,omitempty"`
	// Only restricts target-scoped work to these targets.
	Only []string `json:"only,omitempty"`
	// Automatic runs, started by machines, respect holds.
	Automatic bool `json:"automatic,omitempty"`
	// RequestID makes a repeated request start nothing new.
	RequestID string `json:"requestID,omitempty"`
}

// Pipeline is what a person needs to know to run one.
type Pipeline struct {
	Name    string          `json:"name"`
	Service string          `json:"service"`
	Stages  []string        `json:"stages"`
	Inputs  []PipelineInput `json:"inputs,omitempty"`
}

// PipelineInput is a value that a run takes: a string, number, boolean or choice.
type PipelineInput struct {
	Name        string   `json:"name"`
	Type        string   `json:"type"`
	Required    bool     `json:"required,omitempty"`
	Pattern     string   `json:"pattern,omitempty"`
	Default     any      `json:"default,omitempty"`
	Description string   `json:"description,omitempty"`
	Allowed     []string `json:"allowed,omitempty"`
}

// PlanResult is what a run would do.
type PlanResult struct {
	Hash   string      `json:"hash"`
	Stages []PlanStage `json:"stages"`
}

// PlanStage is what a run would do in one stage.
type PlanStage struct {
	Name        string     `json:"name"`
	Environment string     `json:"environment,omitempty"`
	Waves       []PlanWave `json:"waves,omitempty"`
	Steps       []string   `json:"steps"`
	Notes       []string   `json:"notes,omitempty"`
}

// PlanWave is the change of one wave and the applications it reaches.
type PlanWave struct {
	Targets []PlanTarget `json:"targets"`
	Files   []string     `json:"files,omitempty"`
	Diff    string       `json:"diff,omitempty"`
	Problem string       `json:"problem,omitempty"`
}

// PlanTarget is a target and its applications.
type PlanTarget struct {
	Name         string   `json:"name"`
	Agent        string   `json:"agent"`
	Applications []string `json:"applications,omitempty"`
}

// DecideRequest approves or rejects the step that waits. Stage and Step may be left out where only one waits.
type DecideRequest struct {
	// ID is the promotion's (or the rollback's) id; REST takes it from the path.
	ID        string            `json:"id,omitempty"`
	Approve   bool              `json:"approve"`
	Stage     string            `json:"stage,omitempty"`
	Step      string            `json:"step,omitempty"`
	Wave      int               `json:"wave,omitempty"`
	Target    string            `json:"target,omitempty"`
	Comment   string            `json:"comment,omitempty"`
	Inputs    map[string]string `json:"inputs,omitempty"`
	Digest    string            `json:"digest,omitempty"`
	RequestID string            `json:"requestID,omitempty"`
}

// DecideResult says how the step stands after the decision.
type DecideResult struct {
	Stage    string `json:"stage"`
	Step     string `json:"step"`
	Target   string `json:"target,omitempty"`
	Approved int    `json:"approved"`
	Minimum  int    `json:"minimum"`
	Done     bool   `json:"done"`
}

// AbortRequest ends a promotion.
type AbortRequest struct {
	// ID is the promotion's or the rollback's id; REST takes it from the path.
	ID        string `json:"id,omitempty"`
	Reason    string `json:"reason,omitempty"`
	RequestID string `json:"requestID,omitempty"`
}

// RollbackRequest puts a service's environment back to a known-good commit.
type RollbackRequest struct {
	Project     string `json:"project"`
	Service     string `json:"service"`
	Environment string `json:"environment"`
	// To is a commit; "" means the newest known-good one before the present state.
	To      string `json:"to,omitempty"`
	Reason  string `json:"reason,omitempty"`
	Shared  string `json:"shared,omitempty"` // ask (default), include, paths-only
	NoPrune bool   `json:"noPrune,omitempty"`
	// BreakGlass goes on although a policy denies; audited, admins only.
	BreakGlass bool   `json:"breakGlass,omitempty"`
	RequestID  string `json:"requestID,omitempty"`
}

// HoldRequest holds or releases automatic promotions of a service into an environment.
type HoldRequest struct {
	Project     string `json:"project"`
	Service     string `json:"service"`
	Environment string `json:"environment"`
	Reason      string `json:"reason,omitempty"`
}

// PinRequest marks a commit as known-good by hand, or takes the mark away.
type PinRequest struct {
	Project     string `json:"project"`
	Service     string `json:"service"`
	Environment string `json:"environment"`
	Commit      string `json:"commit"`
	Pinned      bool   `json:"pinned"`
}

// FleetEntry is one application on one target as `davit fleet` lists it.
type FleetEntry struct {
	Agent       string           `json:"agent"`
	Service     string           `json:"service,omitempty"`
	Target      string           `json:"target"`
	Environment string           `json:"environment"`
	Application string           `json:"application"`
	Revision    string           `json:"revision"`
	Sync        promo.SyncStatus `json:"sync"`
	Health      promo.Health     `json:"health"`
	Message     string           `json:"message,omitempty"`
	Images      []string         `json:"images"`
	ReportedAt  time.Time        `json:"reportedAt,omitzero"`
}

// Agent is an agent as people see it.
type Agent struct {
	Name      string    `json:"name"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
	Version   string    `json:"version,omitempty"`
	Revoked   bool      `json:"revoked,omitempty"`
}

// NewAgent is the answer to creating an agent: the token is shown once.
type NewAgent struct {
	Name           string    `json:"name"`
	EnrolmentToken string    `json:"enrolmentToken"`
	Expires        time.Time `json:"expires"`
	// Gateway is where the server listens for agents.
	Gateway string `json:"gateway,omitempty"`
}

// TokenRequest makes an API token.
type TokenRequest struct {
	Name    string        `json:"name"`
	Project string        `json:"project"`
	Role    string        `json:"role"`
	TTL     time.Duration `json:"ttl"`
}

// NewToken is the answer to making a token: the secret is shown once.
type NewToken struct {
	Name    string    `json:"name"`
	Token   string    `json:"token"`
	Expires time.Time `json:"expires"`
}

// Lane is a lane's holder and queue.
type Lane struct {
	Project     string   `json:"project"`
	Service     string   `json:"service"`
	Environment string   `json:"environment"`
	Holder      string   `json:"holder,omitempty"`
	Queue       []string `json:"queue,omitempty"`
}

// Decision is a recorded policy decision.
type Decision struct {
	ID        string    `json:"id"`
	At        time.Time `json:"at"`
	Project   string    `json:"project"`
	Event     string    `json:"event"`
	Subject   string    `json:"subject"`
	Sets      []string  `json:"sets"`
	By        string    `json:"by"`
	InputHash string    `json:"inputHash"`
	Deny      []string  `json:"deny,omitempty"`
	Warn      []string  `json:"warn,omitempty"`
}

// AuditEntry is one line of the audit log.
type AuditEntry struct {
	Sequence int64     `json:"sequence"`
	At       time.Time `json:"at"`
	Who      string    `json:"who"`
	Action   string    `json:"action"`
	Subject  string    `json:"subject"`
	Project  string    `json:"project,omitempty"`
	Detail   string    `json:"detail,omitempty"`
	Hash     string    `json:"hash"`
}

// Denial is the body of a 403 by policy: {"deny": [reasons]}.
type Denial struct {
	Deny []string `json:"deny"`
}

// Problem is the body of every other error.
type Problem struct {
	Code    promo.Code `json:"code"`
	Message string     `json:"message"`
	Hint    string     `json:"hint,omitempty"`
	// Diagnostics holds all problems of applied files, formatted for people.
	Diagnostics []string `json:"diagnostics,omitempty"`
}

// Me is who the caller is.
type Me struct {
	Name   string   `json:"name"`
	Groups []string `json:"groups"`
	Demo   bool     `json:"demo,omitempty"`
}
