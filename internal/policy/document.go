package policy

import (
	"path"
	"time"
)

// Document is what a policy sees as "input": exactly the document of the pipeline language, "Input that policies
// see". Build makes it. Parts that an event doesn't have are absent, so that a policy about them is undefined.
type Document struct {
	Pipeline     *PipelineDoc `json:"pipeline,omitempty"`
	Steps        []FlatStep   `json:"steps"`
	TriggeredBy  string       `json:"triggered_by,omitempty"`
	Metadata     Metadata     `json:"metadata"`
	Run          *Run         `json:"run,omitempty"`
	Release      *Release     `json:"release,omitempty"`
	Stage        *StageRef    `json:"stage,omitempty"`
	Step         *StepDoc     `json:"step,omitempty"`
	Target       *Target      `json:"target,omitempty"`
	PullRequest  *PullRequest `json:"pullRequest,omitempty"`
	Diff         *Diff        `json:"diff,omitempty"`
	Verification any          `json:"verification,omitempty"`
	// Definition is the thing itself on save of anything but a pipeline, under its spec's own names.
	Definition any `json:"definition,omitempty"`
}

// Metadata says who does what to which kind of thing, and when.
type Metadata struct {
	// Action is the event: save, run, stage, step, sync, merge, approve, rollback, or delete.
	Action    string    `json:"action"`
	Type      string    `json:"type"`
	Timestamp time.Time `json:"timestamp"`
	User      User      `json:"user"`
	Project   string    `json:"project"`
}

// User is the person or machine that caused the event, with groups that the server has verified.
type User struct {
	Name   string   `json:"name"`
	Email  string   `json:"email"`
	Groups []string `json:"groups"`
}

// Run is the promotion.
type Run struct {
	ID          string         `json:"id"`
	Number      int            `json:"number"`
	Attempt     int            `json:"attempt"`
	PlanHash    string         `json:"planHash,omitempty"`
	TriggeredBy string         `json:"triggeredBy"`
	StartedAt   time.Time      `json:"startedAt,omitzero"`
	Inputs      map[string]any `json:"inputs,omitempty"`
}

// Release is what is promoted.
type Release struct {
	Service string `json:"service"`
	Version string `json:"version,omitempty"`
	Commit  string `json:"commit,omitempty"`
}

// StageRef is the stage of the event.
type StageRef struct {
	Name        string `json:"name"`
	Type        string `json:"type"`
	Environment string `json:"environment,omitempty"`
	// EnvironmentType is PreProduction or Production.
	EnvironmentType string `json:"environmentType,omitempty"`
}

// Target is the cluster of the event.
type Target struct {
	Name    string            `json:"name"`
	Agent   string            `json:"agent,omitempty"`
	Cluster string            `json:"cluster,omitempty"`
	Region  string            `json:"region,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
}

// PullRequest is the stage's pull request.
type PullRequest struct {
	Number    int      `json:"number"`
	URL       string   `json:"url,omitempty"`
	Author    string   `json:"author,omitempty"`
	Branch    string   `json:"branch,omitempty"`
	Base      string   `json:"base,omitempty"`
	Head      string   `json:"head,omitempty"`
	Approvers []string `json:"approvers,omitempty"`
	Labels    []string `json:"labels,omitempty"`
}

// Diff is the stage's change.
type Diff struct {
	Digest string     `json:"digest"`
	Files  []FileDiff `json:"files"`
}

// FileDiff is one changed file. Old and New are blob hashes, empty where the file is added or removed.
type FileDiff struct {
	Path    string `json:"path"`
	Old     string `json:"old,omitempty"`
	New     string `json:"new,omitempty"`
	Unified string `json:"unified,omitempty"`
}

// PipelineDoc is a pipeline as policies see it.
type PipelineDoc struct {
	Name              string            `json:"name"`
	Identifier        string            `json:"identifier"`
	Description       string            `json:"description,omitempty"`
	Tags              map[string]string `json:"tags"`
	ProjectIdentifier string            `json:"projectIdentifier"`
	OrgIdentifier     string            `json:"orgIdentifier"`
	Stages            []StageEntry      `json:"stages"`
}

// StageEntry wraps a stage: stages[i].stage.
type StageEntry struct {
	Stage StageDoc `json:"stage"`
}

// StageDoc is a stage as policies see it.
type StageDoc struct {
	Name        string    `json:"name"`
	Identifier  string    `json:"identifier"`
	Description string    `json:"description,omitempty"`
	Type        string    `json:"type"`
	Spec        StageSpec `json:"spec"`
}

// StageSpec holds the stage's environment and steps.
type StageSpec struct {
	Environment string    `json:"environment,omitempty"`
	Execution   Execution `json:"execution"`
}

// Execution holds the steps as they are nested in the pipeline.
type Execution struct {
	Steps         []StepEntry `json:"steps"`
	RollbackSteps []StepEntry `json:"rollbackSteps,omitempty"`
}

// StepEntry is one of: a step, steps at once, or a named group of steps.
type StepEntry struct {
	Step     *StepDoc    `json:"step,omitempty"`
	Parallel []StepEntry `json:"parallel,omitempty"`
	Group    *GroupDoc   `json:"group,omitempty"`
}

// GroupDoc is a named group of steps.
type GroupDoc struct {
	Name       string      `json:"name"`
	Identifier string      `json:"identifier"`
	Steps      []StepEntry `json:"steps"`
}

// StepDoc is a step as policies see it.
type StepDoc struct {
	Name       string         `json:"name"`
	Identifier string         `json:"identifier"`
	Type       string         `json:"type"`
	Spec       map[string]any `json:"spec"`
}

// FlatStep is a step out of any nesting. Path is its place in the stage: "name", "group/name",
// "rollbackSteps/name"; parallel adds nothing.
type FlatStep struct {
	Stage       string         `json:"stage"`
	Environment string         `json:"environment,omitempty"`
	Path        string         `json:"path"`
	Type        string         `json:"type"`
	Name        string         `json:"name"`
	Spec        map[string]any `json:"spec"`
}

// Pipeline is a pipeline to be shown to policies. Project is "project" or "org/project".
type Pipeline struct {
	Name        string
	Description string
	Labels      map[string]string
	Project     string
	Org         string
	Stages      []Stage
}

// Stage is a stage of Pipeline.
type Stage struct {
	Name          string
	Description   string
	Type          string
	Environment   string
	Steps         []Node
	RollbackSteps []Node
}

// Node is a step (Type set), a parallel (Parallel set) or a group (Group set) of Stage.
type Node struct {
	Name     string
	Type     string
	Spec     map[string]any
	Parallel []Node
	Group    []Node
}

// Event is everything that the document is built from, apart from the pipeline.
type Event struct {
	Metadata     Metadata
	Run          *Run
	Release      *Release
	Stage        *StageRef
	Step         *Node
	Target       *Target
	PullRequest  *PullRequest
	Diff         *Diff
	Verification any
	Definition   any
}

// Build makes the document. p may be nil where no pipeline is concerned. The user who triggered is that of the
// run, or, before there is one, of the event.
func Build(p *Pipeline, e Event) Document {
	d := Document{
		Steps: []FlatStep{}, TriggeredBy: e.Metadata.User.Name, Metadata: e.Metadata, Run: e.Run, Release: e.Release, Stage: e.Stage,
		Target: e.Target, PullRequest: e.PullRequest, Diff: e.Diff, Verification: e.Verification, Definition: e.Definition,
	}
	if d.Metadata.User.Groups == nil {
		d.Metadata.User.Groups = []string{}
	}
	if e.Run != nil && e.Run.TriggeredBy != "" {
		d.TriggeredBy = e.Run.TriggeredBy
	}
	if e.Step != nil {
		d.Step = stepDoc(*e.Step)
	}
	if p != nil {
		d.Pipeline = pipelineDoc(p)
		for _, s := range p.Stages {
			d.Steps = flatten(d.Steps, s, "", s.Steps)
			d.Steps = flatten(d.Steps, s, "rollbackSteps", s.RollbackSteps)
		}
	}
	return d
}

func pipelineDoc(p *Pipeline) *PipelineDoc {
	doc := &PipelineDoc{
		Name: p.Name, Identifier: p.Name, Description: p.Description, Tags: p.Labels,
		ProjectIdentifier: p.Project, OrgIdentifier: p.Org, Stages: make([]StageEntry, 0, len(p.Stages)),
	}
	if doc.Tags == nil {
		doc.Tags = map[string]string{}
	}
	for _, s := range p.Stages {
		doc.Stages = append(doc.Stages, StageEntry{Stage: StageDoc{
			Name: s.Name, Identifier: s.Name, Description: s.Description, Type: s.Type,
			Spec: StageSpec{
				Environment: s.Environment,
				Execution:   Execution{Steps: entriesOf(s.Steps), RollbackSteps: entriesOf(s.RollbackSteps)},
			},
		}})
	}
	return doc
}

func entriesOf(nodes []Node) []StepEntry {
	out := make([]StepEntry, 0, len(nodes))
	for _, n := range nodes {
		switch {
		case n.Parallel != nil:
			out = append(out, StepEntry{Parallel: entriesOf(n.Parallel)})
		case n.Group != nil:
			out = append(out, StepEntry{Group: &GroupDoc{Name: n.Name, Identifier: n.Name, Steps: entriesOf(n.Group)}})
		default:
			out = append(out, StepEntry{Step: stepDoc(n)})
		}
	}
	return out
}

func stepDoc(n Node) *StepDoc {
	return &StepDoc{Name: n.Name, Identifier: n.Name, Type: n.Type, Spec: orEmpty(n.Spec)}
}

// flatten appends every step below nodes, in the order of the pipeline.
func flatten(out []FlatStep, s Stage, prefix string, nodes []Node) []FlatStep {
	for _, n := range nodes {
		switch {
		case n.Parallel != nil:
			out = flatten(out, s, prefix, n.Parallel)
		case n.Group != nil:
			out = flatten(out, s, path.Join(prefix, n.Name), n.Group)
		default:
			out = append(out, FlatStep{
				Stage: s.Name, Environment: s.Environment, Path: path.Join(prefix, n.Name), Type: n.Type, Name: n.Name,
				Spec: orEmpty(n.Spec),
			})
		}
	}
	return out
}

func orEmpty(spec map[string]any) map[string]any {
	if spec == nil {
		return map[string]any{}
	}
	return spec
}
