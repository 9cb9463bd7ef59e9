package spec

import (
	"encoding/json"

	"gopkg.in/yaml.v3"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/spec/expression"
)

// PipelineSpec says how a release of a service moves through environments.
type PipelineSpec struct {
	// Service that is promoted.
	Service string `json:"service" jsonschema:"required"`
	// Inputs that a run takes.
	Inputs map[string]Input `json:"inputs,omitempty"`
	// Lane says what a run does where another one waits or works in its environment.
	Lane string `json:"lane,omitempty" jsonschema:"enum=queue,enum=supersede,enum=reject,default=queue"`
	// Triggers start runs.
	Triggers []Trigger `json:"triggers,omitempty"`
	// Stages in order; they form a graph by `needs`.
	Stages []Stage `json:"stages" jsonschema:"required,minItems=1"`
	// OnFailure are strategies for failures that no stage answered.
	OnFailure []Strategy `json:"onFailure,omitempty"`
	// Policies are policy sets evaluated when a run starts.
	Policies []string `json:"policies,omitempty"`
}

// Input is a value that a run takes.
type Input struct {
	// Type of the value; choice is a text of `allowed`.
	Type string `json:"type" jsonschema:"required,enum=string,enum=number,enum=boolean,enum=choice"`
	// Required refuses a run without it.
	Required bool `json:"required,omitempty"`
	// Pattern is a regular expression that the whole text must match.
	Pattern string `json:"pattern,omitempty"`
	// Default is used where a run gives no value. Without one an optional input is empty, 0 or false.
	Default any `json:"default,omitempty"`
	// Description is shown to people.
	Description string `json:"description,omitempty"`
	// Allowed lists the only values that are taken.
	Allowed []any `json:"allowed,omitempty"`
}

// Trigger starts runs.
type Trigger struct {
	// Name of the trigger, unique in its pipeline.
	Name string `json:"name" jsonschema:"required,pattern=^[a-z][a-z0-9-]{0\\,62}$"`
	// Manual is a person or a program that asks; every pipeline may be run by hand without it.
	Manual *ManualTrigger `json:"manual,omitempty"`
	// Inputs are the values that this trigger gives.
	Inputs map[string]any `json:"inputs,omitempty"`

	// Schedule runs at times.
	Schedule any `json:"schedule,omitempty" davit:"later"`
	// PullRequest runs at events of pull requests.
	PullRequest any `json:"pullRequest,omitempty" davit:"later"`
	// Push runs at pushes.
	Push any `json:"push,omitempty" davit:"later"`
	// Tag runs at new tags.
	Tag any `json:"tag,omitempty" davit:"later"`
	// Release runs at published releases.
	Release any `json:"release,omitempty" davit:"later"`
	// Comment runs at comments.
	Comment any `json:"comment,omitempty" davit:"later"`
	// Pipeline runs after another pipeline.
	Pipeline any `json:"pipeline,omitempty" davit:"later"`
	// Webhook runs at calls from outside.
	Webhook any `json:"webhook,omitempty" davit:"later"`
	// Image runs at new images.
	Image any `json:"image,omitempty" davit:"later"`
	// Chart runs at new charts.
	Chart any `json:"chart,omitempty" davit:"later"`
}

// ManualTrigger has no settings.
type ManualTrigger struct{}

// Stage is one stage of a pipeline.
type Stage struct {
	// Name of the stage, unique in its pipeline.
	Name string `json:"name" jsonschema:"required,pattern=^[a-z][a-z0-9-]{0\\,62}$"`
	// Type says what the stage is for; a Deployment needs an environment.
	Type string `json:"type" jsonschema:"required,enum=Deployment,enum=Approval,enum=Custom"`
	// Environment that the stage changes.
	Environment string `json:"environment,omitempty"`
	// Needs are the stages that must have ended before; by default the stage before this one.
	Needs *[]string `json:"needs,omitempty"`
	// When is success, failure, always, or an expression.
	When string `json:"when,omitempty"`
	// Matrix runs the stage several times.
	Matrix any `json:"matrix,omitempty" davit:"later"`
	// Waves cut the targets into groups that are changed one after the other.
	Waves [][]string `json:"waves,omitempty" jsonschema:"minItems=1"`
	// MaxParallel bounds the targets worked on at once.
	MaxParallel int `json:"maxParallel,omitempty" jsonschema:"minimum=1,maximum=500"`
	// PauseBetweenWaves is waited before each wave but the first.
	PauseBetweenWaves plan.Duration `json:"pauseBetweenWaves,omitempty"`
	// FailFast ends the other targets of a wave, too, where one fails. The waves after it never start.
	FailFast *bool `json:"failFast,omitempty" jsonschema:"default=true"`
	// Changes says whether a stage of several waves makes one change for each or one for all.
	Changes string `json:"changes,omitempty" jsonschema:"enum=per-wave,enum=once"`
	// Steps of the stage, in order.
	Steps []Step `json:"steps" jsonschema:"required,minItems=1"`
	// RollbackSteps run where a failure strategy says RollbackStage.
	RollbackSteps []Step `json:"rollbackSteps,omitempty"`
	// OnFailure are strategies for failures that no step answered.
	OnFailure []Strategy `json:"onFailure,omitempty"`
	// Timeout ends the stage, waits included.
	Timeout plan.Duration `json:"timeout,omitempty"`
	// Policies are policy sets evaluated before the stage's first step.
	Policies []string `json:"policies,omitempty"`
}

// Step is a step, or a group of steps: exactly one of type, parallel and group is set.
type Step struct {
	// Name of the step, unique in its stage.
	Name string `json:"name,omitempty" jsonschema:"pattern=^[a-z][a-z0-9-]{0\\,62}$"`
	// Type of the step: what it does.
	Type string `json:"type,omitempty"`
	// Spec is the step type's own configuration.
	Spec json.RawMessage `json:"spec,omitempty"`
	// When is success, failure, always, or an expression.
	When string `json:"when,omitempty"`
	// Timeout ends the step, waits included; each type has its default.
	Timeout plan.Duration `json:"timeout,omitempty"`
	// Retry repeats the step on errors.
	Retry *Retry `json:"retry,omitempty"`
	// OnFailure are strategies for failures of this step.
	OnFailure []Strategy `json:"onFailure,omitempty"`
	// Policies are policy sets evaluated just before the step.
	Policies []string `json:"policies,omitempty"`
	// Parallel runs steps at once.
	Parallel []Step `json:"parallel,omitempty" jsonschema:"minItems=1"`
	// Group runs steps in order under one name.
	Group *Group `json:"group,omitempty"`

	parsed *stepSpec
}

// Group is a named sequence of steps.
type Group struct {
	// Name of the group, unique among the steps of its stage.
	Name string `json:"name" jsonschema:"required,pattern=^[a-z][a-z0-9-]{0\\,62}$"`
	// Steps of the group, in order.
	Steps []Step `json:"steps" jsonschema:"required,minItems=1"`
}

// Retry repeats a step on errors, before failure strategies are asked.
type Retry struct {
	// Attempts in all, the first one included.
	Attempts int `json:"attempts" jsonschema:"required,minimum=1,maximum=20"`
	// Backoff is waited before the second attempt and doubles.
	Backoff plan.Duration `json:"backoff,omitempty" jsonschema:"default=10s"`
	// MaxBackoff bounds the wait.
	MaxBackoff plan.Duration `json:"maxBackoff,omitempty" jsonschema:"default=5m"`
	// On lists the errors to retry; by default those that may go away.
	On []string `json:"on,omitempty"`
}

// Strategy says what to do where one of the errors ends a step; the first match wins.
type Strategy struct {
	// Errors that it answers to; All stands for every one.
	Errors []string `json:"errors" jsonschema:"required,minItems=1"`
	// Action to take.
	Action string `json:"action" jsonschema:"required,enum=Retry,enum=Ignore,enum=MarkSuccess,enum=Abort,enum=RollbackStage,enum=Rollback,enum=ManualIntervention" davit:"later=ManualIntervention"`
	// Attempts of Retry.
	Attempts int `json:"attempts,omitempty" jsonschema:"minimum=1,maximum=20"`
	// Intervals of Retry: what is waited before each attempt; the last one repeats.
	Intervals []plan.Duration `json:"intervals,omitempty"`
	// Then is the action when Retry is at its end.
	Then string `json:"then,omitempty" jsonschema:"enum=Ignore,enum=MarkSuccess,enum=Abort,enum=RollbackStage,enum=Rollback,enum=ManualIntervention" davit:"later=ManualIntervention"`
	// Timeout of ManualIntervention.
	Timeout plan.Duration `json:"timeout,omitempty" davit:"later"`
}

// stepSpec is what Parse found in a step's spec.
type stepSpec struct {
	// config is the typed configuration; expressions in fields other than texts are left at the default.
	config any
	// full is the configuration as JSON with every default, expressions as written.
	full json.RawMessage
	// declared is what the file says, without defaults.
	declared map[string]any
	uses     []exprUse
}

// exprUse is one text with expressions.
type exprUse struct {
	path string
	node *yaml.Node
	text string
	// want is the kind that fits, where the whole text is one expression.
	want expression.Kind
	// bare, where set, is an expression without braces over these names.
	bare []string
	// list is true below a list, where `target` may stand for several.
	list bool
}
