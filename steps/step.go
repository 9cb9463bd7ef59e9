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

// In is all that a step gets: the call itself, the ports, and a logger that knows where it stands.
type In struct {
	plan.Call
	Ports Ports
	Log   *slog.Logger
}

// The words of the step's answer are the plan's, because they travel through workflows.
type (
	// Out is what a step answers.
	Out = plan.Result
	// Change is one change of the release repository on its way.
	Change = plan.Change
	// Again asks for another call.
	Again = plan.Again
	// Ask asks a person.
	Ask = plan.Ask
)
