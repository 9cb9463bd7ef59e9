package spec

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec/expression"
)

// Request is what a run of a pipeline is asked for with.
type Request struct {
	Inputs map[string]any
	// Only, where set, are the targets to change; stages without one of them are skipped.
	Only []string
	// Trigger holds the fields of the trigger that were checked; nil for a run by hand.
	Trigger map[string]any
}

// Compile makes the plan of a pipeline, "<project>/<name>", with its inputs. The pipeline is checked again against
// the definitions as they are now. Errors are of code Configuration, or NotFound for an unknown pipeline.
func (l *Language) Compile(defs *Definitions, pipeline string, in Request) (*plan.Plan, error) {
	project, name, ok := strings.Cut(pipeline, "/")
	if !ok {
		project, name = DefaultProject, pipeline
	}
	doc, ok := defs.Document(KindPipeline, project, name)
	if !ok {
		return nil, promo.Errorf(promo.CodeNotFound, "project %q has no pipeline %q", project, name).
			WithHint("%s", expression.Suggest(name, defs.Names(KindPipeline, project), "there are"))
	}
	if err := l.checkOne(defs, doc).Err(); err != nil {
		return nil, err
	}
	if err := sound(defs, doc); err != nil {
		return nil, err
	}
	spec, _ := defs.Pipeline(project, name)
	inputs, err := values(spec.Inputs, in.Inputs)
	if err != nil {
		return nil, err
	}
	c := &compiler{lang: l, defs: defs, doc: doc, spec: spec, project: project}
	return c.compile(inputs, in)
}

// sound refuses to build on documents that Parse found errors in. All of them are there: the pipeline was checked.
func sound(defs *Definitions, doc *Document) error {
	project := doc.Metadata.Project
	spec, ok := doc.Spec.(*PipelineSpec)
	used := []*Document{doc}
	add := func(kind, name string) {
		d, has := defs.Document(kind, project, name)
		ok = ok && has
		used = append(used, d)
	}
	if ok {
		add(KindService, spec.Service)
		service, has := defs.Service(project, spec.Service)
		if ok = ok && has; ok {
			add(KindRepository, service.Repository)
		}
		for i := range spec.Stages {
			if env := spec.Stages[i].Environment; env != "" {
				add(KindEnvironment, env)
			}
		}
	}
	if !ok {
		return promo.Errorf(promo.CodeConfiguration, "pipeline %q is incomplete", doc.ID()).WithHint("lint it and apply it again")
	}
	for _, d := range used {
		if d.broken {
			return promo.Errorf(promo.CodeConfiguration, "%s %q has errors", nounOf(d.Kind), d.ID()).WithHint("lint %s and apply it again", d.File())
		}
	}
	return nil
}

// compiler holds what all parts of one compilation share. The pipeline has been checked.
type compiler struct {
	lang    *Language
	defs    *Definitions
	doc     *Document
	spec    *PipelineSpec
	project string
}

func (c *compiler) compile(inputs map[string]any, in Request) (*plan.Plan, error) {
	service, _ := c.defs.Service(c.project, c.spec.Service)
	repository, _ := c.defs.Repository(c.project, service.Repository)
	p := &plan.Plan{
		Version:    plan.Version,
		Project:    c.project,
		Pipeline:   c.doc.Metadata.Name,
		Labels:     c.doc.Metadata.Labels,
		Service:    compileService(c.spec.Service, service),
		Repository: plan.Repository{Name: service.Repository, Provider: repository.Provider, URL: repository.URL},
		Inputs:     inputs,
		Trigger:    in.Trigger,
		Lane:       plan.LaneMode(c.spec.Lane),
		OnFailure:  strategies(c.spec.OnFailure),
		Policies:   c.spec.Policies,
	}
	if p.Trigger == nil {
		p.Trigger = map[string]any{"type": "manual", "name": ""}
	}
	p.Release.Version, _ = inputs["version"].(string)
	left := slices.Clone(in.Only)
	for i := range c.spec.Stages {
		stage := c.stage(i, in.Only)
		left = slices.DeleteFunc(left, func(t string) bool { _, has := stage.Target(t); return has })
		p.Stages = append(p.Stages, stage)
	}
	if len(left) > 0 {
		return nil, promo.Errorf(promo.CodeConfiguration, "pipeline %q has no target %q", c.doc.Metadata.Name, left[0]).
			WithHint("%s", expression.Suggest(left[0], c.targetNames(), "there are"))
	}
	return p, nil
}

func (c *compiler) targetNames() []string {
	var out []string
	for _, s := range c.spec.Stages {
		if env, ok := c.defs.Environment(c.project, s.Environment); ok {
			for _, t := range env.Targets {
				out = append(out, t.Name)
			}
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// compileService resolves every path from the repository's root.
func compileService(name string, s *ServiceSpec) plan.Service {
	out := plan.Service{
		Name: name, Branch: s.Branch, Path: strings.Trim(s.Path, "/"), Owned: make(map[string][]string, len(s.Environments)),
	}
	for _, p := range s.Shared {
		out.Shared = append(out.Shared, plan.JoinPath(s.Path, p))
	}
	for env, e := range s.Environments {
		for _, p := range e.Paths {
			out.Owned[env] = append(out.Owned[env], plan.JoinPath(s.Path, p))
		}
	}
	if s.Rollback != nil {
		out.RollbackDelivery = s.Rollback.Delivery
	}
	if s.Applications != nil {
		out.Selector = maps.Clone(s.Applications.Selector)
	}
	return out
}

func (c *compiler) stage(i int, only []string) plan.Stage {
	s := &c.spec.Stages[i]
	out := plan.Stage{
		Name:              s.Name,
		Type:              s.Type,
		Needs:             needs(c.spec.Stages, i),
		When:              when(s.When),
		PauseBetweenWaves: s.PauseBetweenWaves.Std(),
		MaxParallel:       s.MaxParallel,
		FailFast:          s.FailFast == nil || *s.FailFast,
		OnFailure:         strategies(s.OnFailure),
		Timeout:           s.Timeout.Std(),
		Policies:          s.Policies,
	}
	if env, ok := c.defs.Environment(c.project, s.Environment); ok {
		c.targets(&out, s, env, only)
	}
	path := fmt.Sprintf("spec.stages[%d]", i)
	out.Nodes = c.nodes(s.Steps, path+".steps", "")
	out.RollbackNodes = c.nodes(s.RollbackSteps, path+".rollbackSteps", "")
	out.Prologue = prologue(&out)
	return out
}

// targets fills in environment, targets and waves.
func (c *compiler) targets(out *plan.Stage, s *Stage, env *EnvironmentSpec, only []string) {
	doc, _ := c.defs.Document(KindEnvironment, c.project, s.Environment)
	out.Environment = &plan.Environment{Name: s.Environment, Type: env.Type, Labels: doc.Metadata.Labels}
	out.Changes = plan.Changes(changesOf(s))
	wanted := func(name string) bool { return len(only) == 0 || slices.Contains(only, name) }
	var all []string
	for _, t := range env.Targets {
		if wanted(t.Name) {
			out.Targets = append(out.Targets, plan.Target{Name: t.Name, Agent: t.Agent, Region: t.Region, Labels: t.Labels})
			all = append(all, t.Name)
		}
	}
	if len(s.Waves) == 0 && len(all) > 0 {
		out.Waves = [][]string{all}
	}
	for _, wave := range s.Waves {
		kept := slices.DeleteFunc(slices.Clone(wave), func(t string) bool { return !wanted(t) })
		if len(kept) > 0 {
			out.Waves = append(out.Waves, kept)
		}
	}
	if len(all) == 0 {
		out.When = plan.When{On: plan.OnSuccess, Expr: "false"} // none of its targets was asked for
	}
}

// changesOf is how a stage cuts its changes, with the default filled in.
func changesOf(s *Stage) string {
	switch {
	case s.Changes != "":
		return s.Changes
	case len(s.Waves) > 1:
		return string(plan.ChangesPerWave)
	}
	return string(plan.ChangesOnce)
}

// needs are the stages that must have ended, the one before by default.
func needs(stages []Stage, i int) []string {
	switch {
	case stages[i].Needs != nil:
		return slices.Clone(*stages[i].Needs)
	case i > 0:
		return []string{stages[i-1].Name}
	}
	return nil
}

// when reads a condition; an expression runs after success.
func when(text string) plan.When {
	switch on := plan.WhenOn(strings.TrimSpace(text)); on {
	case "", plan.OnSuccess:
		return plan.When{On: plan.OnSuccess}
	case plan.OnFailure, plan.OnAlways:
		return plan.When{On: on}
	}
	return plan.When{On: plan.OnSuccess, Expr: condition(text)}
}

// condition takes the braces off a condition.
func condition(text string) string {
	if p, ok := expression.Whole(text); ok {
		return p.Text
	}
	return strings.TrimSpace(text)
}

func strategies(in []Strategy) []plan.Strategy {
	var out []plan.Strategy
	for _, s := range in {
		st := plan.Strategy{Errors: s.Errors, Action: plan.Action(s.Action), Attempts: s.Attempts, Then: plan.Action(s.Then)}
		for _, d := range s.Intervals {
			st.Intervals = append(st.Intervals, d.Std())
		}
		if st.Action == plan.ActionRetry && st.Then == "" {
			st.Then = plan.ActionAbort
		}
		out = append(out, st)
	}
	return out
}
