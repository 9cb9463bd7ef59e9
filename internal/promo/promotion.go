package promo

import (
	"encoding/json"
	"time"
)

// Promotion is one run of a pipeline as people see it: the workflow keeps it, the store stores it, REST and
// pages show it.
type Promotion struct {
	// ID is "<project>/<pipeline>/<number>".
	ID       string `json:"id"`
	Project  string `json:"project"`
	Pipeline string `json:"pipeline"`
	Service  string `json:"service"`
	Number   int    `json:"number"`
	// Attempt counts from 1; a retry of a failed promotion is the next attempt.
	Attempt int `json:"attempt"`
	// Version is the release's version, where an input says it.
	Version     string         `json:"version,omitempty"`
	Inputs      map[string]any `json:"inputs,omitempty"`
	TriggeredBy string         `json:"triggeredBy"`
	PlanHash    string         `json:"planHash"`
	Phase       Phase          `json:"phase"`
	// Automatic runs were started by a machine and respect holds; Only restricts a run to these targets.
	Automatic bool     `json:"automatic,omitempty"`
	Only      []string `json:"only,omitempty"`
	// Message says in one sentence what is being waited for or why it ended.
	Message    string    `json:"message,omitempty"`
	Error      *Error    `json:"error,omitempty"`
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// Rollback is the id of the rollback that this promotion's failure caused.
	Rollback string  `json:"rollback,omitempty"`
	Stages   []Stage `json:"stages"`
	// WaitsFor names the events that would wake the promotion (EventPullRequest and its like), sorted.
	WaitsFor []string `json:"waitsFor,omitempty"`
	// Sequence grows with every recorded change; the store keeps the newest.
	Sequence int64 `json:"sequence"`
}

// Stage is a stage of a promotion.
type Stage struct {
	Name        string     `json:"name"`
	Type        string     `json:"type"`
	Environment string     `json:"environment,omitempty"`
	Phase       Phase      `json:"phase"`
	Message     string     `json:"message,omitempty"`
	Attempt     int        `json:"attempt"`
	Waves       [][]string `json:"waves,omitempty"`
	StartedAt   time.Time  `json:"startedAt,omitzero"`
	FinishedAt  time.Time  `json:"finishedAt,omitzero"`
	Lane        *LanePlace `json:"lane,omitempty"`
	// Changes are the stage's changes of the release repository, one per wave where each wave has its own.
	Changes []ChangeRef `json:"changes,omitempty"`
	Error   *Error      `json:"error,omitempty"`
	Steps   []Step      `json:"steps"`
}

// LanePlace says where a stage stands in the queue of its lane.
type LanePlace struct {
	// Place is 0 for the holder, 1 for the next, and so on.
	Place  int    `json:"place"`
	Holder string `json:"holder,omitempty"`
}

// Step is one execution of a step: once per stage, wave or target, as its scope says.
type Step struct {
	Name string `json:"name"`
	Type string `json:"type"`
	// Path is the place in the stage ("group/step"), equal to Name outside groups.
	Path   string `json:"path,omitempty"`
	Phase  Phase  `json:"phase"`
	Target string `json:"target,omitempty"`
	// Wave counts from 1; 0 where the step runs once for the stage.
	Wave       int             `json:"wave,omitempty"`
	Attempt    int             `json:"attempt,omitempty"`
	Operation  string          `json:"operation,omitempty"`
	Message    string          `json:"message,omitempty"`
	Outputs    json.RawMessage `json:"outputs,omitempty"`
	Error      *Error          `json:"error,omitempty"`
	Approval   *Approval       `json:"approval,omitempty"`
	StartedAt  time.Time       `json:"startedAt,omitzero"`
	FinishedAt time.Time       `json:"finishedAt,omitzero"`
}

// Approval is what an Approval step asks and what people answered.
type Approval struct {
	Groups           []string        `json:"groups,omitempty"`
	Users            []string        `json:"users,omitempty"`
	Minimum          int             `json:"minimum"`
	DisallowExecutor bool            `json:"disallowExecutor,omitempty"`
	DisallowAuthor   bool            `json:"disallowAuthor,omitempty"`
	Message          string          `json:"message,omitempty"`
	Inputs           []ApprovalInput `json:"inputs,omitempty"`
	Expires          time.Time       `json:"expires,omitzero"`
	// Digest and PlanHash are what the decision binds to: a push that alters the digest voids it.
	Digest    string             `json:"digest,omitempty"`
	PlanHash  string             `json:"planHash"`
	Author    string             `json:"author,omitempty"`
	Changes   []ChangeRef        `json:"changes,omitempty"`
	Decisions []ApprovalDecision `json:"decisions,omitempty"`
}

// ApprovalInput is a value that approvers must or may give.
type ApprovalInput struct {
	Name        string   `json:"name"`
	Description string   `json:"description,omitempty"`
	Required    bool     `json:"required,omitempty"`
	Default     string   `json:"default,omitempty"`
	Allowed     []string `json:"allowed,omitempty"`
	Pattern     string   `json:"pattern,omitempty"`
}

// ApprovalDecision is one person's answer.
type ApprovalDecision struct {
	User      string            `json:"user"`
	Approve   bool              `json:"approve"`
	Comment   string            `json:"comment,omitempty"`
	Inputs    map[string]string `json:"inputs,omitempty"`
	At        time.Time         `json:"at"`
	RequestID string            `json:"requestID"`
	// Void says why the decision no longer counts (a new push).
	Void string `json:"void,omitempty"`
}

// ChangeRef names a change for people and gates: its pull request or branch, and where its diff is kept.
type ChangeRef struct {
	Wave   int    `json:"wave,omitempty"`
	PR     int    `json:"pr,omitempty"`
	URL    string `json:"url,omitempty"`
	Branch string `json:"branch,omitempty"`
	Head   string `json:"head"`
	Digest string `json:"digest"`
	// Diff is the digest under which the store keeps the unified diff.
	Diff string `json:"diff,omitempty"`
}

// Principal is who asks: a person, a token or Davit itself, with groups that the server has verified.
type Principal struct {
	Name   string   `json:"name"`
	Email  string   `json:"email,omitempty"`
	Groups []string `json:"groups,omitempty"`
}

// KnownGood is a commit at which a service in an environment was synced, healthy and verified everywhere.
type KnownGood struct {
	Project     string `json:"project"`
	Service     string `json:"service"`
	Environment string `json:"environment"`
	Commit      string `json:"commit"`
	Version     string `json:"version,omitempty"`
	// Promotion is the promotion or rollback that proved it; empty for a baseline.
	Promotion string    `json:"promotion,omitempty"`
	At        time.Time `json:"at"`
	KnownGood bool      `json:"knownGood"`
	Pinned    bool      `json:"pinned,omitempty"`
}
