// Package steps holds the step types: what a pipeline can do. The set is open: a new one is a file, a test and
// a line in builtin.go. A step knows nothing of Temporal, of workflows or of other steps; it reaches the world
// only through the ports it is given (ports.go).
//
// Every step finds its own earlier work before it works: Run may be called twice with the same In (a worker
// died, an answer was lost) and must leave the same world and give the same Out. The conformance test in
// stepstest demands it of every type in Builtin.
//
// Start reading at Type and Run.
package steps

import (
	"context"
	"encoding/json"
	"log/slog"
	"time"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// Type describes a step type. Kind is the frozen name: it is the activity type in histories.
type Type struct {
	Kind string
	// Summary is one line for `davit explain` and the reference page.
	Summary string
	Scope   plan.Scope
	Class   plan.Class
	// Agent is true where the step runs on the target's agent.
	Agent bool
	// Gate is true for the closed set that workflow code runs itself (Approval, WaitForPR, Wait); Run is nil then.
	Gate bool
	// Mutates says whether a step with this resolved or unresolved spec changes the environment.
	Mutates func(spec json.RawMessage) bool
	// Timeout is the default for the whole step, waits included.
	Timeout time.Duration
	// Config returns a pointer to a new config with its defaults set. Its field comments are the documentation.
	Config func() any
	// Check looks at a config whose expressions are not resolved yet and reports what can never be right.
	// Values that still hold "${{" are to be let pass. Problem.Path is a dotted path into the spec.
	Check func(cfg any) []Problem
	// Outputs lists the names (dotted) that later expressions may use, with one line each.
	Outputs map[string]string
	Run     func(ctx context.Context, in In) (Out, error)
}

// Problem is something wrong in a step's spec.
type Problem struct {
	Path string
	Msg  string
	Hint string
}

// In is all that a step gets.
type In struct {
	// Operation is the step's operation id: the same at every attempt of Temporal, another after a decision to
	// run the step again.
	Operation string    `json:"operation"`
	Run       RunInfo   `json:"run"`
	Stage     StageInfo `json:"stage"`
	// Target is set for target-scoped steps.
	Target *plan.Target `json:"target,omitempty"`
	// Wave counts from 1; 0 where the step runs once for the stage. WaveTargets are the targets it covers.
	Wave        int           `json:"wave,omitempty"`
	WaveTargets []plan.Target `json:"waveTargets,omitempty"`
	// Spec is the config as JSON, every expression resolved.
	Spec json.RawMessage `json:"spec,omitempty"`
	// Change is the stage's (or wave's) change so far: what UpdateReleaseRepo opened and MergePR merged.
	Change Change `json:"change"`
	// Approved is the digest that gates looked at, "" where no gate bound one.
	Approved string `json:"approved,omitempty"`
	// Document is the policy input document; only steps of type Policy get it.
	Document json.RawMessage `json:"document,omitempty"`
	// State is what the last Again left; nil at the first call.
	State json.RawMessage `json:"state,omitempty"`
	// StartedAt is when the step first ran; Now is the workflow's time at this call; Deadline ends the step.
	StartedAt time.Time `json:"startedAt"`
	Now       time.Time `json:"now"`
	Deadline  time.Time `json:"deadline"`

	Ports Ports        `json:"-"`
	Log   *slog.Logger `json:"-"`
}

// RunInfo says which promotion the step belongs to.
type RunInfo struct {
	ID          string          `json:"id"`
	Project     string          `json:"project"`
	Pipeline    string          `json:"pipeline"`
	Number      int             `json:"number"`
	TriggeredBy promo.Principal `json:"triggeredBy"`
	PlanHash    string          `json:"planHash"`
	Version     string          `json:"version,omitempty"`
	URL         string          `json:"url,omitempty"`
}

// StageInfo says where the step stands.
type StageInfo struct {
	Name        string            `json:"name"`
	Environment *plan.Environment `json:"environment,omitempty"`
	Service     plan.Service      `json:"service"`
	Repository  plan.Repository   `json:"repository"`
	Step        string            `json:"step"`
}

// Change is one change of the release repository on its way: branch, pull request, merge.
type Change struct {
	Branch string `json:"branch,omitempty"`
	Base   string `json:"base,omitempty"`
	Head   string `json:"head,omitempty"`
	Digest string `json:"digest,omitempty"`
	PR     int    `json:"pr,omitempty"`
	URL    string `json:"url,omitempty"`
	// Diff is the digest under which the store keeps the unified diff.
	Diff    string `json:"diff,omitempty"`
	Changed bool   `json:"changed,omitempty"`
	// Merged is the commit on the target branch that holds the change: the merge commit, or the pushed one.
	Merged string `json:"merged,omitempty"`
	Author string `json:"author,omitempty"`
}

// Out is what a step answers. Verdict, Again and success exclude each other.
type Out struct {
	// Outputs is at most 16 KiB of JSON; larger things go to the store and are named by digest.
	Outputs json.RawMessage `json:"outputs,omitempty"`
	// Message is one sentence for people.
	Message string `json:"message,omitempty"`
	// Change, where set, replaces the stage's (or wave's) change.
	Change *Change `json:"change,omitempty"`
	// Verdict, where set, ends the step with a refusal (Policy, Health, Verification).
	Verdict *promo.Error `json:"verdict,omitempty"`
	// Ask, where set, asks a person before the verdict counts (Verify, onInconclusive: ask).
	Ask *Ask `json:"ask,omitempty"`
	// Again, where set, asks to be run again.
	Again *Again `json:"again,omitempty"`
}

// Again asks for another call of Run: after a time, or earlier when an event named in Wake arrives.
type Again struct {
	After time.Duration `json:"after"`
	// Wake names events, such as "pr/<repository>/<number>" or "agent/<name>", that end the wait early.
	Wake []string `json:"wake,omitempty"`
	// State comes back in In.State; at most 4 KiB.
	State json.RawMessage `json:"state,omitempty"`
}

// Ask is a question to a person: continue (the step succeeds) or not (the verdict counts).
type Ask struct {
	Question  string      `json:"question"`
	Otherwise promo.Error `json:"otherwise"`
}
