package plan

import (
	"encoding/json"
	"time"
)

// Version is the schema version that this build writes. A reader refuses a newer one.
const Version = 1

// Plan is a compiled pipeline with its inputs.
type Plan struct {
	Version    int               `json:"v"`
	Project    string            `json:"project"`
	Pipeline   string            `json:"pipeline"`
	Labels     map[string]string `json:"labels,omitempty"`
	Service    Service           `json:"service"`
	Repository Repository        `json:"repository"`
	Inputs     map[string]any    `json:"inputs,omitempty"`
	Release    Release           `json:"release"`
	Trigger    map[string]any    `json:"trigger,omitempty"`
	Lane       LaneMode          `json:"lane"`
	Stages     []Stage           `json:"stages"`
	OnFailure  []Strategy        `json:"onFailure,omitempty"`
	Policies   []string          `json:"policies,omitempty"`
}

// Release is what is promoted.
type Release struct {
	// Version is the value of the input "version", where there is one.
	Version string `json:"version,omitempty"`
}

// Service is the frozen part of a Service: where its files are and which application belongs to which target.
type Service struct {
	Name   string `json:"name"`
	Branch string `json:"branch"`
	// Path is the service's folder in the repository, "" for its root.
	Path string `json:"path,omitempty"`
	// Shared are the paths, from the repository's root, that every environment reads.
	Shared []string `json:"shared,omitempty"`
	// Owned are the paths, from the repository's root, that the service owns per environment.
	Owned map[string][]string `json:"owned"`
	// Delivery says how a rollback's commit reaches the branch: "push" or "pull-request".
	RollbackDelivery string `json:"rollbackDelivery,omitempty"`
	// Selector, where set, replaces the default labels by which applications are found.
	Selector map[string]string `json:"selector,omitempty"`
}

// Repository is a release repository without its credentials, which activities read by name.
type Repository struct {
	Name     string `json:"name"`
	Provider string `json:"provider"`
	URL      string `json:"url"`
}

// Environment is the frozen part of an Environment.
type Environment struct {
	Name   string            `json:"name"`
	Type   string            `json:"type"`
	Labels map[string]string `json:"labels,omitempty"`
}

// Target is one cluster of an environment.
type Target struct {
	Name   string            `json:"name"`
	Agent  string            `json:"agent"`
	Region string            `json:"region,omitempty"`
	Labels map[string]string `json:"labels,omitempty"`
}

// LaneMode says what an arriving promotion does where another one waits or works.
type LaneMode string

// The lane modes.
const (
	LaneQueue     LaneMode = "queue"
	LaneSupersede LaneMode = "supersede"
	LaneReject    LaneMode = "reject"
)

// Changes says how a stage's changes are cut.
type Changes string

// The ways to cut a stage's changes.
const (
	ChangesPerWave Changes = "per-wave"
	ChangesOnce    Changes = "once"
)

// Stage is one stage of the plan.
type Stage struct {
	Name        string       `json:"name"`
	Type        string       `json:"type"`
	Environment *Environment `json:"environment,omitempty"`
	// Targets are those of the environment that the promotion changes, in declared order.
	Targets []Target `json:"targets,omitempty"`
	Needs   []string `json:"needs,omitempty"`
	When    When     `json:"when"`
	// Waves are target names; one wave with all targets by default, none in a stage without environment.
	Waves             [][]string    `json:"waves,omitempty"`
	PauseBetweenWaves time.Duration `json:"pauseBetweenWaves,omitempty"`
	// MaxParallel bounds the targets of a wave worked on at once; 0 means all.
	MaxParallel int     `json:"maxParallel,omitempty"`
	FailFast    bool    `json:"failFast"`
	Changes     Changes `json:"changes,omitempty"`
	// Prologue counts the leading nodes that run once for the stage. See "How a stage with several waves is cut".
	Prologue      int           `json:"prologue,omitempty"`
	Nodes         []Node        `json:"nodes"`
	RollbackNodes []Node        `json:"rollbackNodes,omitempty"`
	OnFailure     []Strategy    `json:"onFailure,omitempty"`
	Timeout       time.Duration `json:"timeout,omitempty"`
	Policies      []string      `json:"policies,omitempty"`
}

// When says under which condition a stage or step runs: after success (the default), after a failure, always,
// or after success and where an expression is true.
type When struct {
	On   WhenOn `json:"on"`
	Expr string `json:"expr,omitempty"`
}

// WhenOn is the part of When that is decided without an expression.
type WhenOn string

// The values of WhenOn.
const (
	OnSuccess WhenOn = "success"
	OnFailure WhenOn = "failure"
	OnAlways  WhenOn = "always"
)

// NodeKind is the kind of a node: a closed set, because the interpreter switches over it.
type NodeKind string

// The node kinds. The fan-out over waves and targets follows from Stage and Scope and is no node of its own.
const (
	NodeStep     NodeKind = "step"
	NodeGate     NodeKind = "gate"
	NodeSequence NodeKind = "sequence"
	NodeParallel NodeKind = "parallel"
)

// Node is a step, a gate, or a group of nodes.
type Node struct {
	Kind  NodeKind `json:"kind"`
	Name  string   `json:"name,omitempty"`
	Step  *Step    `json:"step,omitempty"`
	Nodes []Node   `json:"nodes,omitempty"`
}

// Scope says how often a step runs in its stage.
type Scope string

// The scopes (pipeline-language, "How a stage runs").
const (
	ScopeStage  Scope = "stage"
	ScopeTarget Scope = "target"
	ScopeChange Scope = "change"
)

// Step is a declared step or gate. Spec still holds its expressions; an activity resolves them just before use.
type Step struct {
	Name string `json:"name"`
	// Path is the place in the stage, "group/step" inside groups.
	Path  string `json:"path"`
	Type  string `json:"type"`
	Scope Scope  `json:"scope"`
	// Agent is true where the step runs on the target's agent.
	Agent bool `json:"agent,omitempty"`
	// Mutates is true where the step changes the environment, so that the stage must hold its lane.
	Mutates   bool            `json:"mutates,omitempty"`
	Class     Class           `json:"class,omitempty"`
	Spec      json.RawMessage `json:"spec,omitempty"`
	When      When            `json:"when"`
	Timeout   time.Duration   `json:"timeout"`
	Retry     *Retry          `json:"retry,omitempty"`
	OnFailure []Strategy      `json:"onFailure,omitempty"`
	Policies  []string        `json:"policies,omitempty"`
	// Fold names the neighbouring edits that are made in this step's commit.
	Fold []string `json:"fold,omitempty"`
	// FoldedInto names the step whose commit holds this step's edit.
	FoldedInto string `json:"foldedInto,omitempty"`
	// Position is "file:line:column" of the step in the pipeline's source.
	Position string `json:"position,omitempty"`
}

// Class chooses an action's time limits.
type Class string

// The classes of actions.
const (
	ClassQuick   Class = "quick"   // policy, lookups
	ClassNetwork Class = "network" // forge, HTTP
	ClassChange  Class = "change"  // Git changes
	ClassSync    Class = "sync"    // long work on an agent, with heartbeats
)

// Retry repeats a step on errors, before failure strategies are asked.
type Retry struct {
	Attempts   int           `json:"attempts"`
	Backoff    time.Duration `json:"backoff"`
	MaxBackoff time.Duration `json:"maxBackoff,omitempty"`
	On         []string      `json:"on,omitempty"`
}

// Action is what a failure strategy does.
type Action string

// The actions of failure strategies.
const (
	ActionRetry              Action = "Retry"
	ActionIgnore             Action = "Ignore"
	ActionMarkSuccess        Action = "MarkSuccess"
	ActionAbort              Action = "Abort"
	ActionRollbackStage      Action = "RollbackStage"
	ActionRollback           Action = "Rollback"
	ActionManualIntervention Action = "ManualIntervention"
)

// Strategy says what to do where one of the errors ends a step.
type Strategy struct {
	Errors    []string        `json:"errors"`
	Action    Action          `json:"action"`
	Attempts  int             `json:"attempts,omitempty"`
	Intervals []time.Duration `json:"intervals,omitempty"`
	Then      Action          `json:"then,omitempty"`
	Timeout   time.Duration   `json:"timeout,omitempty"`
}
