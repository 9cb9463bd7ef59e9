package plan

import (
	"encoding/json"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// Call is what travels to a step: everything it may know, every expression resolved.
type Call struct {
	// Operation is the step's operation id: the same at every attempt of Temporal, another after a decision to
	// run the step again.
	Operation string    `json:"operation"`
	Run       RunInfo   `json:"run"`
	Stage     StageInfo `json:"stage"`
	// Target is set for target-scoped steps.
	Target *Target `json:"target,omitempty"`
	// Wave counts from 1; 0 where the step runs once for the stage. WaveTargets are the targets it covers.
	Wave        int      `json:"wave,omitempty"`
	WaveTargets []Target `json:"waveTargets,omitempty"`
	// Spec is the config as JSON, every expression resolved.
	Spec json.RawMessage `json:"spec,omitempty"`
	// Change is the stage's (or wave's) change so far: what UpdateReleaseRepo opened and MergePR merged.
	Change Change `json:"change"`
	// Approved is the digest that gates looked at, "" where no gate bound one.
	Approved string `json:"approved,omitempty"`
	// State is what the last Again left; nil at the first call.
	State json.RawMessage `json:"state,omitempty"`
	// StartedAt is when the step first ran; Now is the workflow's time at this call; Deadline ends the step.
	StartedAt time.Time `json:"startedAt"`
	Now       time.Time `json:"now"`
	Deadline  time.Time `json:"deadline"`
}

// RunInfo says which promotion (or rollback) the step belongs to.
type RunInfo struct {
	ID          string          `json:"id"`
	Project     string          `json:"project"`
	Pipeline    string          `json:"pipeline"`
	Number      int             `json:"number"`
	Attempt     int             `json:"attempt"`
	TriggeredBy promo.Principal `json:"triggeredBy"`
	PlanHash    string          `json:"planHash"`
	Version     string          `json:"version,omitempty"`
	URL         string          `json:"url,omitempty"`
	StartedAt   time.Time       `json:"startedAt"`
}

// StageInfo says where the step stands.
type StageInfo struct {
	Name        string       `json:"name"`
	Step        string       `json:"step"`
	Environment *Environment `json:"environment,omitempty"`
	Service     Service      `json:"service"`
	Repository  Repository   `json:"repository"`
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
	// Author is who the change is made for.
	Author string `json:"author,omitempty"`
	// Foreign names the author of a commit on the branch that Davit did not make.
	Foreign string `json:"foreign,omitempty"`
}

// Result is what a step answers. Verdict, Again, Ask and plain success exclude each other.
type Result struct {
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
	// Wake names events (see package promo, EventPullRequest and EventAgent) that end the wait early.
	Wake []string `json:"wake,omitempty"`
	// State comes back in Call.State; at most 4 KiB.
	State json.RawMessage `json:"state,omitempty"`
}

// Ask is a question to a person: continue (the step succeeds) or not (the verdict counts).
type Ask struct {
	Question  string      `json:"question"`
	Otherwise promo.Error `json:"otherwise"`
}
