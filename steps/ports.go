package steps

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// Ports are the doors to the world that steps may use. The application fills them on the server, the agent its
// own few; a step that finds the one it needs nil answers with a Configuration error.
type Ports struct {
	Git     Git
	Forge   Forge
	Apps    Applications
	GitOps  GitOps
	Compare Comparer
	Policy  Policy
	Metrics Metrics
	HTTP    *http.Client
	Blobs   Blobs
	// Eval evaluates a boolean expression over the variables: `expect` of Http, `failIf` of Verify.
	Eval func(expression string, vars map[string]any) (bool, error)
	// Secret returns a secret of the server's configuration, if the run's project may use it towards the host.
	Secret func(name, host string) (promo.Secret, error)
	// Heartbeat tells that a long call is alive; nil where nobody listens.
	Heartbeat func()
}

// Git changes release repositories in O(change).
type Git interface {
	// Change makes one commit. Run twice with the same Operation it gives the same commit.
	Change(ctx context.Context, req GitChange) (GitResult, error)
	// Head returns the head of a branch as the server has it now.
	Head(ctx context.Context, repository, branch string) (string, error)
	// Diff returns what head adds to base.
	Diff(ctx context.Context, repository, base, head string) (GitResult, error)
	ReadFile(ctx context.Context, repository, commit, path string) ([]byte, error)
	DeleteBranch(ctx context.Context, repository, branch, expect string) error
}

// GitChange asks for one commit on a branch.
type GitChange struct {
	Repository string
	Operation  string
	// Branch is written; Base is where it starts if it does not exist; "" means Branch itself (direct push).
	Branch, Base string
	// Expect is the head that Branch must have, "" for any.
	Expect  string
	Author  promo.Principal
	Message string
	Edit    func(ctx context.Context, t Tree) error
	// Undo, where set, undoes this commit (a merge too, against its first parent) instead of Edit.
	Undo string
	// Rebuild makes Branch anew on the present head of Base when it has fallen into conflict.
	Rebuild bool
}

// Tree is a commit's files with edits on top. Paths are from the repository's root.
type Tree interface {
	Read(path string) ([]byte, error)
	Write(path string, data []byte) error
	Remove(path string) error
	// CopyFrom makes path equal, byte for byte, to what from is at commit.
	CopyFrom(ctx context.Context, commit, from, path string) error
	List(dir string) ([]string, error)
}

// GitResult is a commit, or the range between two.
type GitResult struct {
	Base, Head string
	Changed    bool
	// Digest covers path, old blob and new blob of every changed file.
	Digest string
	Files  []string
	// Diff is unified, capped.
	Diff string
}

// Forge is where pull requests live.
type Forge interface {
	// Open finds the open or merged pull request of the head branch, or opens one.
	Open(ctx context.Context, req PullRequestSpec) (PullRequest, error)
	Get(ctx context.Context, repository string, number int) (PullRequest, error)
	// Merge merges at exactly the named head. "Already merged at that head" is success.
	Merge(ctx context.Context, req MergeSpec) (PullRequest, error)
	Close(ctx context.Context, repository string, number int, comment string) error
}

// PullRequestSpec asks for a pull request.
type PullRequestSpec struct {
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

// Applications finds applications in the fleet that agents reported.
type Applications interface {
	// Find returns the applications of an agent that carry all the labels.
	Find(ctx context.Context, agent string, labels map[string]string) ([]promo.Application, error)
	Get(ctx context.Context, ref promo.ApplicationRef) (promo.Application, error)
}

// GitOps is the engine beside an agent. Watch sends the present state first and then every change.
type GitOps interface {
	Get(ctx context.Context, ref promo.ApplicationRef) (promo.Application, error)
	Watch(ctx context.Context, ref promo.ApplicationRef) (<-chan promo.Application, error)
	StartSync(ctx context.Context, ref promo.ApplicationRef, req promo.SyncRequest) error
	Terminate(ctx context.Context, ref promo.ApplicationRef) error
	Refresh(ctx context.Context, ref promo.ApplicationRef, hard bool) error
}

// Relation says how a commit stands to the wanted one, as far as the given paths go.
type Relation struct {
	// Kind is "same", "descendant-equal", "overtaken", "ancestor" or "unrelated".
	Kind string `json:"kind"`
	// By is the commit that changed the paths since, where Kind is "overtaken".
	By string `json:"by,omitempty"`
}

// The kinds of Relation.
const (
	RelationSame            = "same"
	RelationDescendantEqual = "descendant-equal"
	RelationOvertaken       = "overtaken"
	RelationAncestor        = "ancestor"
	RelationUnrelated       = "unrelated"
)

// Comparer compares commits. The server has the mirror, so an agent asks through its gateway.
type Comparer interface {
	Compare(ctx context.Context, repository, wanted, got string, paths []string) (Relation, error)
}

// Policy evaluates policy sets and records the decision.
type Policy interface {
	Decide(ctx context.Context, req PolicyRequest) (PolicyDecision, error)
}

// PolicyRequest asks for a decision of named policy sets about a place in a run. The server builds the input
// document (pipeline-language, "Input that policies see") from the run's plan and state.
type PolicyRequest struct {
	Project string
	Sets    []string
	Event   string // stage, step, sync, merge, approve, rollback
	// Operation tells decisions apart: a repeated call with the same one records nothing new.
	Operation string
	Run       string // the promotion's id
	Stage     string
	Step      string
	Target    string
	// Input replaces the run's document where a Policy step gives its own.
	Input json.RawMessage
	By    promo.Principal
}

// PolicyDecision is the answer of policy sets.
type PolicyDecision struct {
	ID   string   `json:"id"`
	Deny []string `json:"deny,omitempty"`
	Warn []string `json:"warn,omitempty"`
}

// Metrics queries a connector.
type Metrics interface {
	// Range returns the series of a query between start and end; promo errors tell the provider's trouble.
	Range(ctx context.Context, connector, query string, start, end time.Time, step time.Duration) ([]Series, error)
}

// Series is one series of points.
type Series struct {
	Labels map[string]string `json:"labels,omitempty"`
	Points []Point           `json:"points"`
}

// Point is one value; NaN and infinities come as Valid false.
type Point struct {
	T     time.Time `json:"t"`
	V     float64   `json:"v"`
	Valid bool      `json:"valid"`
}

// Blobs keeps larger things (diffs, charts) by digest.
type Blobs interface {
	Put(ctx context.Context, mediaType string, data []byte) (digest string, err error)
}

// TargetNames lists the names of targets.
func TargetNames(ts []plan.Target) []string {
	out := make([]string, len(ts))
	for i, t := range ts {
		out[i] = t.Name
	}
	return out
}
