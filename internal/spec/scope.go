package spec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/spec/expression"
	"github.com/davit-cd/davit/steps"
)

func typeOfTrigger() reflect.Type { return reflect.TypeFor[Trigger]() }

// stageScope is what an expression of the stage itself may use: everything but steps and targets.
func (s *stageCheck) stageScope() expression.Scope {
	text := expression.String()
	scope := expression.Scope{
		"inputs":  inputTypes(s.pipeline.Inputs),
		"release": s.release(),
		"service": expression.Map(map[string]expression.Type{"name": text, "branch": text, "path": text, "repository": text}),
		"run": expression.Map(map[string]expression.Type{
			"id": text, "number": expression.Number(), "triggeredBy": text, "startedAt": text,
		}),
		"trigger": expression.Map(map[string]expression.Type{"type": text, "name": text}),
		"stages":  s.otherStages(),
		"steps":   expression.Absent("steps are in scope inside the stage's steps only"),
		"target":  expression.Absent("the stage runs for all its targets"),
	}
	scope["environment"] = expression.Map(map[string]expression.Type{"name": text, "type": text, "labels": expression.Strings()})
	if s.stage.Environment == "" {
		scope["environment"] = expression.Absent(fmt.Sprintf("stage %q has none", s.stage.Name))
	}
	return scope
}

// release has a version where an input says it.
func (s *stageCheck) release() expression.Type {
	version := expression.String()
	if _, ok := s.pipeline.Inputs["version"]; !ok {
		version = expression.Absent(`the pipeline has no input "version"`)
	}
	return expression.Map(map[string]expression.Type{"version": version})
}

// region is that of the target, where every target has one.
func (s *stageCheck) region() expression.Type {
	if s.env != nil {
		for _, t := range s.env.Targets {
			if t.Region == "" {
				return expression.Absent(fmt.Sprintf("target %q has none", t.Name))
			}
		}
	}
	return expression.String()
}

func inputTypes(inputs map[string]Input) expression.Type {
	fields := map[string]expression.Type{}
	for name, in := range inputs {
		switch in.Type {
		case "number":
			fields[name] = expression.Number()
		case "boolean":
			fields[name] = expression.Boolean()
		case "string", "choice":
			fields[name] = expression.String()
		default:
			fields[name] = expression.Any()
		}
	}
	return expression.Map(fields)
}

// otherStages has the stages that this one needs, directly or not; the others are known, but not in scope.
func (s *stageCheck) otherStages() expression.Type {
	if s.others != nil {
		return *s.others
	}
	fields := map[string]expression.Type{}
	for i := range s.pipeline.Stages {
		other := &s.pipeline.Stages[i]
		if other.Name == "" {
			continue
		}
		if !slices.Contains(s.graph[s.stage.Name], other.Name) || other.Name == s.stage.Name {
			fields[other.Name] = expression.Absent(fmt.Sprintf("stage %q does not need it, so it may not have ended", s.stage.Name))
			continue
		}
		inner := map[string]expression.Type{}
		o := &stageCheck{check: &check{lang: s.lang, doc: s.doc, diags: &Diagnostics{}}, stage: other}
		o.collect(other.Steps, "", placement{})
		for _, p := range o.steps {
			inner[p.step.Name] = outputsFrom(p, other)
		}
		fields[other.Name] = expression.Map(map[string]expression.Type{"phase": expression.String(), "steps": expression.Map(inner)})
	}
	all := expression.Map(fields)
	s.others = &all
	return all
}

// outputsFrom is a step of another stage, seen from here. What ran several times has no one value.
func outputsFrom(p placed, other *Stage) expression.Type {
	switch {
	case p.typ.Scope == plan.ScopeTarget:
		return perTarget(p.typ, "it runs once per target, so use targets.<name>")
	case p.typ.Scope == plan.ScopeChange && len(other.Waves) > 1:
		return expression.Absent("it runs once per wave")
	}
	return stepType(p.typ)
}

// stepScope is what an expression of the i-th step may use.
func (s *stageCheck) stepScope(i int) expression.Scope {
	me := s.steps[i]
	scope := s.stageScope()
	scope["target"] = expression.Map(map[string]expression.Type{
		"name": expression.String(), "agent": expression.String(), "region": s.region(), "labels": expression.Strings(),
	})
	if me.typ.Scope != plan.ScopeTarget && me.typ.Scope != plan.ScopeChange || s.stage.Environment == "" {
		scope["target"] = expression.Absent(fmt.Sprintf("step %q runs once for the stage", me.step.Name))
	}
	fields := map[string]expression.Type{}
	for j, p := range s.steps {
		if p.step.Name != "" {
			fields[p.step.Name] = s.seen(i, j)
		}
	}
	scope["steps"] = expression.Map(fields)
	return scope
}

// seen is step j as step i sees it.
func (s *stageCheck) seen(i, j int) expression.Type {
	me, p := s.steps[i], s.steps[j]
	perWave := len(s.stage.Waves) > 1 && changesOf(s.stage) == string(plan.ChangesPerWave)
	switch {
	case i == j:
		return expression.Absent("it is this step")
	case j > i:
		return expression.Absent("it runs later")
	case p.parallel != "" && p.parallel == me.parallel:
		return expression.Absent("it runs at the same time")
	case p.typ.Scope == plan.ScopeTarget && me.typ.Scope != plan.ScopeTarget:
		return perTarget(p.typ, fmt.Sprintf("it runs once per target, step %q does not; use targets.<name>", me.step.Name))
	case p.typ.Scope == plan.ScopeChange && perWave && me.step.Type == typeApproval && declaredText(me.step, "each") != "wave":
		return expression.Absent(fmt.Sprintf("it runs once per wave, approval %q is asked once", me.step.Name))
	}
	return stepType(p.typ)
}

// perTarget is a step that ran once per target, seen from where there is no target: its outputs by target.
func perTarget(t steps.Type, why string) expression.Type {
	each := stepType(t).Fields["outputs"]
	return expression.Map(map[string]expression.Type{
		"outputs": expression.Absent(why), "targets": {Kind: expression.KindMap, Extra: &each},
	})
}

// stepType is the type of a step's outputs. Their values' types are known only at run time.
func stepType(t steps.Type) expression.Type {
	root := &outputTree{}
	for _, name := range sortedKeys(t.Outputs) {
		root.add(strings.Split(name, "."))
	}
	outputs := expression.Map(map[string]expression.Type{})
	if len(root.children) > 0 {
		outputs = root.typ()
	}
	return expression.Map(map[string]expression.Type{"outputs": outputs})
}

// outputTree turns dotted names into nested maps; "*" stands for any name, "name[]" for a list.
type outputTree struct {
	children map[string]*outputTree
	list     bool
}

func (o *outputTree) add(names []string) {
	if len(names) == 0 || o.list {
		return
	}
	name, isList := strings.CutSuffix(names[0], "[]")
	if o.children == nil {
		o.children = map[string]*outputTree{}
	}
	if o.children[name] == nil {
		o.children[name] = &outputTree{list: isList}
	}
	o.children[name].add(names[1:])
}

func (o *outputTree) typ() expression.Type {
	if len(o.children) == 0 {
		return expression.Any()
	}
	m := expression.Map(map[string]expression.Type{})
	for name, child := range o.children {
		if name == "*" {
			anything := child.typ()
			m.Extra = &anything
			continue
		}
		m.Fields[name] = child.typ()
	}
	return m
}
