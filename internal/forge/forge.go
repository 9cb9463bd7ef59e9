// Package forge holds the words in which Davit speaks with forges: pull requests, reviews, checks, branch
// protection and events. The forges themselves are subpackages: local now, GitHub, GitLab and Gitea later; none
// knows another.
//
// PullRequest, Spec and MergeSpec have exactly the fields of their namesakes in package steps, so that the
// application converts one into the other; adapters may not import steps.
//
// What every forge promises, by code of its *promo.Error: NotFound for a repository, branch or pull request that
// is not there; Conflict for a merge at another head than the expected one (both heads and the foreign commit's
// author are named), for content that conflicts, and for a merge that the base branch's protection refuses;
// Authorization for a person without the right; Configuration for a request that can never be right. Opening
// finds what is open or merged for the same head; merging what is merged at the expected head succeeds; closing
// what is closed does nothing.
//
// Start reading at PullRequest.
package forge

import (
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// The states of a pull request.
const (
	StateOpen   = "open"
	StateMerged = "merged"
	StateClosed = "closed"
)

// The summary of a head's checks. With required checks, only those count.
const (
	ChecksGreen   = "green"
	ChecksPending = "pending"
	ChecksFailed  = "failed"
	ChecksNone    = "none"
)

// The ways to merge.
const (
	MethodMerge  = "merge"
	MethodSquash = "squash"
	MethodRebase = "rebase"
)

// Spec asks for a pull request.
type Spec struct {
	Repository, Head, Base string
	Title, Body            string
	Labels, Reviewers      []string
	Draft                  bool
	Author                 promo.Principal
}

// MergeSpec asks for a merge.
type MergeSpec struct {
	Repository   string
	Number       int
	ExpectHead   string
	Method       string // merge, squash, rebase
	Message      string
	DeleteBranch bool
	Bypass       bool
	By           promo.Principal
}

// PullRequest is a pull request as the forge has it now.
type PullRequest struct {
	Number   int
	URL      string
	State    string // open, merged, closed
	Head     string // branch
	HeadSHA  string
	Base     string // branch
	BaseSHA  string // what the pull request's diff is against
	MergeSHA string
	MergedAt time.Time
	ClosedBy string
	Author   string
	Draft    bool
	// Mergeable is false with Conflicts, or with Blocked saying what is missing (checks, reviews).
	Mergeable bool
	Conflicts bool
	Blocked   []string
	// Checks is "green", "pending", "failed" or "none".
	Checks string
}

// Details is all that a page shows of a pull request.
type Details struct {
	PullRequest
	Repository string
	Title      string
	Body       string
	Labels     []string
	Reviewers  []string
	CreatedAt  time.Time
	UpdatedAt  time.Time
	Reviews    []Review
	Statuses   []Status
	Comments   []Comment
	Timeline   []Event
}

// The states of a review.
const (
	ReviewApproved         = "approved"
	ReviewChangesRequested = "changes_requested"
	ReviewCommented        = "commented"
)

// Review is one person's opinion on a head commit.
type Review struct {
	By      string    `json:"by"`
	State   string    `json:"state"`
	HeadSHA string    `json:"headSHA"`
	Body    string    `json:"body,omitempty"`
	At      time.Time `json:"at"`
	// Dismissed says why the review no longer counts, such as a new push.
	Dismissed string `json:"dismissed,omitempty"`
}

// Comment is a remark on a pull request.
type Comment struct {
	By   string    `json:"by"`
	Body string    `json:"body"`
	At   time.Time `json:"at"`
}

// The states of a status.
const (
	StatusPending = "pending"
	StatusSuccess = "success"
	StatusFailure = "failure"
	StatusError   = "error"
)

// Status is a check on a commit. The newest of a context counts.
type Status struct {
	Context     string    `json:"context"`
	State       string    `json:"state"`
	Description string    `json:"description,omitempty"`
	URL         string    `json:"url,omitempty"`
	By          string    `json:"by"`
	At          time.Time `json:"at"`
}

// Repository is a repository of a forge.
type Repository struct {
	Name          string                `json:"name"`
	URL           string                `json:"-"` // to clone from
	DefaultBranch string                `json:"defaultBranch"`
	CreatedAt     time.Time             `json:"createdAt"`
	Protection    map[string]Protection `json:"protection,omitempty"` // by branch
}

// Protection is what a branch demands before it moves.
type Protection struct {
	// RequiredReviews is how many people must approve. On a protected branch an unanswered request for changes
	// blocks too.
	RequiredReviews int `json:"requiredReviews,omitempty"`
	// DismissStale voids reviews when the head moves.
	DismissStale bool `json:"dismissStale,omitempty"`
	// RequiredChecks are the contexts that must be green on the head.
	RequiredChecks []string `json:"requiredChecks,omitempty"`
	// UpToDate demands that the head holds everything the base has.
	UpToDate bool `json:"upToDate,omitempty"`
	// AllowPush are the people who may push to the branch; nobody else may. Nobody may rewrite or delete it.
	AllowPush []string `json:"allowPush,omitempty"`
	// AllowBypass are the people who may merge past these demands.
	AllowBypass []string `json:"allowBypass,omitempty"`
}

// The types of Event.
const (
	EventOpened      = "pull_request.opened"
	EventSynchronize = "pull_request.synchronize"
	EventReopened    = "pull_request.reopened"
	EventEdited      = "pull_request.edited"
	EventClosed      = "pull_request.closed"
	EventMerged      = "pull_request.merged"
	EventReview      = "review.submitted"
	EventComment     = "comment.created"
	EventStatus      = "status"
	EventPush        = "push"
)

// Event says what happened on a forge. It only wakes; the truth is read from the forge.
type Event struct {
	Type       string    `json:"type"`
	Repository string    `json:"repository"`
	Number     int       `json:"number,omitempty"`
	Head       string    `json:"head,omitempty"` // branch
	Base       string    `json:"base,omitempty"` // branch
	Ref        string    `json:"ref,omitempty"`
	Before     string    `json:"before,omitempty"`
	After      string    `json:"after,omitempty"` // the commit that it is about
	State      string    `json:"state,omitempty"` // of a review or a status
	By         string    `json:"by,omitempty"`
	At         time.Time `json:"at"`
}

// Filter chooses pull requests; empty fields match all.
type Filter struct {
	Repository string
	State      string
	Head       string
	Limit      int // 0 for the store's default of 50
	Before     int // a number
}

// ZeroSHA stands for a ref that is not there: Before of a new one, After of a deleted one.
const ZeroSHA = "0000000000000000000000000000000000000000"
