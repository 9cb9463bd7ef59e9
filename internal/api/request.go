package api

import (
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// DefinitionRef names a definition; in a list, empty fields match all.
type DefinitionRef struct {
	Project string `json:"project"`
	Kind    string `json:"kind,omitempty"`
	Name    string `json:"name,omitempty"`
}

// PromotionFilter chooses promotions of a project; empty fields match all.
type PromotionFilter struct {
	Project     string      `json:"project"`
	Pipeline    string      `json:"pipeline,omitempty"`
	Service     string      `json:"service,omitempty"`
	Environment string      `json:"environment,omitempty"`
	Phase       promo.Phase `json:"phase,omitempty"`
	// Active leaves out those in a final phase.
	Active bool `json:"active,omitempty"`
	Limit  int  `json:"limit,omitempty"`
	// Before is the id of the last promotion of the page before.
	Before string `json:"before,omitempty"`
}

// RetryRequest runs a failed promotion again from its failed stages.
type RetryRequest struct {
	ID        string `json:"id,omitempty"`
	RequestID string `json:"requestID,omitempty"`
}

// EnvironmentRef names a service in an environment; in a list, empty fields match all.
type EnvironmentRef struct {
	Project     string `json:"project"`
	Service     string `json:"service,omitempty"`
	Environment string `json:"environment,omitempty"`
	Limit       int    `json:"limit,omitempty"`
}

// BlobRequest asks for a diff, chart or log by its digest.
type BlobRequest struct {
	Project string `json:"project"`
	Digest  string `json:"digest"`
}

// Blob is larger data named by its digest.
type Blob struct {
	MediaType string `json:"mediaType"`
	Data      []byte `json:"data"`
}

// EvaluateRequest asks applied policy sets about an input document; nothing is recorded.
type EvaluateRequest struct {
	Project string         `json:"project"`
	Sets    []string       `json:"sets"`
	Input   map[string]any `json:"input"`
}

// EvaluateResult is what policies say about an input.
type EvaluateResult struct {
	Deny []string `json:"deny"`
	Warn []string `json:"warn"`
}

// DecisionFilter chooses recorded decisions; empty fields match all.
type DecisionFilter struct {
	Project string `json:"project"`
	Subject string `json:"subject,omitempty"`
	Denied  bool   `json:"denied,omitempty"`
	Limit   int    `json:"limit,omitempty"`
	Before  string `json:"before,omitempty"`
}

// AuditFilter chooses entries of the audit; empty fields match all.
type AuditFilter struct {
	Project string `json:"project,omitempty"`
	Who     string `json:"who,omitempty"`
	Action  string `json:"action,omitempty"`
	Subject string `json:"subject,omitempty"`
	Limit   int    `json:"limit,omitempty"`
	Before  int64  `json:"before,omitempty"`
}

// AgentRequest creates an agent.
type AgentRequest struct {
	Name string `json:"name"`
	// Projects that may use it; empty for all.
	Projects []string `json:"projects,omitempty"`
}

// Token is an API token as people see it; its secret is not kept.
type Token struct {
	Name      string    `json:"name"`
	Principal string    `json:"principal"`
	Role      string    `json:"role"`
	Project   string    `json:"project,omitempty"`
	CreatedAt time.Time `json:"createdAt"`
	ExpiresAt time.Time `json:"expiresAt,omitzero"`
}

// PullRequestRef names a pull request of the local forge; in a list, Number is 0.
type PullRequestRef struct {
	Repository string `json:"repository,omitempty"`
	Number     int    `json:"number,omitempty"`
	// State is "open", "merged", "closed" or "" for all.
	State string `json:"state,omitempty"`
	// IfHead, where given to a merge, must be the head: what the person looked at.
	IfHead string `json:"ifHead,omitempty"`
	Method string `json:"method,omitempty"` // merge (default), squash, rebase
}

// PullRequest is a pull request of the local forge as people see it.
type PullRequest struct {
	Repository string    `json:"repository"`
	Number     int       `json:"number"`
	Title      string    `json:"title"`
	Body       string    `json:"body,omitempty"`
	State      string    `json:"state"` // open, merged, closed
	Draft      bool      `json:"draft,omitempty"`
	Author     string    `json:"author"`
	Head       string    `json:"head"`
	HeadSHA    string    `json:"headSHA"`
	Base       string    `json:"base"`
	MergeSHA   string    `json:"mergeSHA,omitempty"`
	Labels     []string  `json:"labels,omitempty"`
	CreatedAt  time.Time `json:"createdAt"`
	UpdatedAt  time.Time `json:"updatedAt,omitzero"`
	// Mergeable is false with Conflicts, or with Blocked saying what is missing.
	Mergeable bool     `json:"mergeable"`
	Conflicts bool     `json:"conflicts,omitempty"`
	Blocked   []string `json:"blocked,omitempty"`
	Checks    []Check  `json:"checks,omitempty"`
	Reviews   []Review `json:"reviews,omitempty"`
	// Files and Diff are given for one pull request, not in lists.
	Files []string `json:"files,omitempty"`
	Diff  string   `json:"diff,omitempty"`
}

// Check is a required or reported check of a pull request's head.
type Check struct {
	Name     string `json:"name"`
	State    string `json:"state"` // pending, success, failure
	Required bool   `json:"required,omitempty"`
	URL      string `json:"url,omitempty"`
}

// Review is a person's review of a pull request.
type Review struct {
	Author string    `json:"author"`
	State  string    `json:"state"` // approved, changes-requested, commented
	Body   string    `json:"body,omitempty"`
	Head   string    `json:"head"`
	At     time.Time `json:"at"`
}

// ReviewRequest reviews a pull request at the head that the person looked at.
type ReviewRequest struct {
	Repository string `json:"repository,omitempty"`
	Number     int    `json:"number,omitempty"`
	State      string `json:"state"`
	Body       string `json:"body,omitempty"`
	Head       string `json:"head,omitempty"`
}

// Version is the server's version.
type Version struct {
	Version string `json:"version"`
	Commit  string `json:"commit,omitempty"`
	Go      string `json:"go,omitempty"`
}
