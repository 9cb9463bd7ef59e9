package contract

import (
	"encoding/json"
	"time"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// Step returns the descriptor of a step type's activity. The name is the type's kind.
func Step(kind string, class plan.Class) Activity[plan.Call, plan.Result] {
	return Activity[plan.Call, plan.Result]{Name: kind, Class: class}
}

// Resolve evaluates a step's condition and the expressions of its spec.
var Resolve = Activity[ResolveRequest, ResolveResult]{Name: "resolve", Class: plan.ClassQuick}

// ResolveRequest holds the expressions and the variables they may use, as JSON.
type ResolveRequest struct {
	When string `json:"when,omitempty"`
	// Specs are resolved each; where there are several (folded edits) their `files` lists are joined.
	Specs []json.RawMessage `json:"specs,omitempty"`
	Vars  json.RawMessage   `json:"vars"`
	// Targets, where set, expand every entry of `files` that speaks of `target` to one per target.
	Targets []plan.Target `json:"targets,omitempty"`
	// Where names the place for messages: "stage prod, step sync".
	Where string `json:"where"`
}

// ResolveResult is the resolved spec; Run is false where the condition is.
type ResolveResult struct {
	Run  bool            `json:"run"`
	Spec json.RawMessage `json:"spec,omitempty"`
}

// Record stores what happened; a record is an upsert by sequence.
var Record = Activity[RecordRequest, Nothing]{Name: "record", Class: plan.ClassQuick}

// RecordRequest holds a promo.Promotion or a promo.Rollback, already encoded: a local activity gets its arguments
// by reference, and the workflow goes on changing its state.
type RecordRequest struct {
	Promotion json.RawMessage `json:"promotion,omitempty"`
	Rollback  json.RawMessage `json:"rollback,omitempty"`
}

// Nothing is the answer of activities that only act.
type Nothing struct{}

// TellLane sends a message to a lane, starting the lane where it isn't running.
var TellLane = Activity[TellLaneRequest, Nothing]{Name: "lane.tell", Class: plan.ClassQuick}

// TellLaneRequest is a message and the lane it goes to.
type TellLaneRequest struct {
	Lane    LaneID      `json:"lane"`
	Message LaneMessage `json:"message"`
}

// ReadHold asks whether the service's environment is held.
var ReadHold = Activity[LaneID, HoldResult]{Name: "hold.read", Class: plan.ClassQuick}

// HoldResult is the hold, nil where there is none.
type HoldResult struct {
	Hold *promo.Hold `json:"hold,omitempty"`
}

// SetHold holds automatic promotions out of an environment.
var SetHold = Activity[promo.Hold, Nothing]{Name: "hold.set", Class: plan.ClassQuick}

// ReadChange reads what a change looks like now: head, digest, foreign commits, merge.
var ReadChange = Activity[ReadChangeRequest, ReadChangeResult]{Name: "change.read", Class: plan.ClassNetwork}

// ReadChangeRequest names a change as the promotion knows it.
type ReadChangeRequest struct {
	Project    string      `json:"project"`
	Repository string      `json:"repository"`
	Change     plan.Change `json:"change"`
	// Operation is the operation id of the promotion's own commit on the branch.
	Operation string `json:"operation"`
}

// ReadChangeResult is the change as it is now.
type ReadChangeResult struct {
	Change plan.Change `json:"change"`
	// State is "open", "merged", "closed" or, for a change without pull request, "pushed".
	State    string `json:"state"`
	ClosedBy string `json:"closedBy,omitempty"`
	// Checks is "green", "pending", "failed" or "none".
	Checks string `json:"checks,omitempty"`
	// Conflicts is set where the branch can't be merged as it is.
	Conflicts bool `json:"conflicts,omitempty"`
}

// CleanUp closes pull requests that were not merged and deletes their branches.
var CleanUp = Activity[CleanUpRequest, Nothing]{Name: "change.cleanup", Class: plan.ClassNetwork}

// CleanUpRequest names the changes of an ended promotion.
type CleanUpRequest struct {
	Project    string        `json:"project"`
	Repository string        `json:"repository"`
	Changes    []plan.Change `json:"changes"`
	Reason     string        `json:"reason"`
}

// Decide evaluates policy sets named by a stage or a step before it runs.
var Decide = Activity[DecideRequest, DecideResult]{Name: "policy.decide", Class: plan.ClassQuick}

// DecideRequest says which sets, on which event, about which place.
type DecideRequest struct {
	Project string          `json:"project"`
	Sets    []string        `json:"sets"`
	Event   string          `json:"event"`
	Run     string          `json:"run"`
	Stage   string          `json:"stage,omitempty"`
	Step    string          `json:"step,omitempty"`
	Target  string          `json:"target,omitempty"`
	By      promo.Principal `json:"by"`
}

// DecideResult is the decision.
type DecideResult struct {
	ID   string   `json:"id"`
	Deny []string `json:"deny,omitempty"`
	Warn []string `json:"warn,omitempty"`
}

// Presence asks whether an agent is connected.
var Presence = Activity[PresenceRequest, PresenceResult]{Name: "agent.presence", Class: plan.ClassQuick}

// PresenceRequest names the agent.
type PresenceRequest struct {
	Agent string `json:"agent"`
}

// PresenceResult says whether the agent is connected, and since when it is not.
type PresenceResult struct {
	Known     bool      `json:"known"`
	Connected bool      `json:"connected"`
	Since     time.Time `json:"since,omitzero"`
}

// LinkedApps resolves the applications of a service on a target.
var LinkedApps = Activity[LinkedAppsRequest, LinkedAppsResult]{Name: "apps.linked", Class: plan.ClassQuick}

// LinkedAppsRequest names service, environment and target.
type LinkedAppsRequest struct {
	Project     string       `json:"project"`
	Service     plan.Service `json:"service"`
	Environment string       `json:"environment"`
	Target      plan.Target  `json:"target"`
}

// LinkedAppsResult lists what was found.
type LinkedAppsResult struct {
	Applications []promo.Application `json:"applications"`
}

// Baseline records the present commit as known-good before a first change, if everything is Synced and Healthy.
var Baseline = Activity[plan.BaselineRequest, Nothing]{Name: "knowngood.baseline", Class: plan.ClassNetwork}

// MarkCommit records what a stage brought into an environment, and whether that is known-good.
var MarkCommit = Activity[plan.MarkRequest, plan.MarkResult]{Name: "knowngood.mark", Class: plan.ClassNetwork}

// PreviewRollback works out what a rollback would do.
var PreviewRollback = Activity[plan.RollbackTarget, promo.Preview]{Name: "rollback.preview", Class: plan.ClassNetwork}

// WriteRollback writes the commit, or opens and merges the pull request.
var WriteRollback = Activity[plan.RollbackWrite, plan.RollbackWritten]{Name: "rollback.write", Class: plan.ClassChange}
