package spec

import (
	"fmt"

	"github.com/davit-cd/davit/steps"
)

// duplicates finds documents of one kind and name in the files.
func duplicates(files []*File, diags *Diagnostics) {
	first := map[string]*Document{}
	for _, f := range files {
		for _, doc := range f.Documents {
			id := doc.Kind + " " + doc.ID()
			if doc.Metadata.Name == "" {
				continue
			}
			if before, twice := first[id]; twice {
				*diags = append(*diags, doc.at("metadata.name", "duplicate-name",
					fmt.Sprintf("%s %q is declared twice", doc.Kind, doc.Metadata.Name),
					fmt.Sprintf("first in %s:%d; rename or drop one", before.File(), before.Line)))
				continue
			}
			first[id] = doc
		}
	}
}

func (c *check) stageNames(p *PipelineSpec) {
	first := map[string]int{}
	for i := range p.Stages {
		name := p.Stages[i].Name
		if j, twice := first[name]; twice && name != "" {
			c.report(stagePath(i)+".name", "duplicate-name", fmt.Sprintf("stage %q is declared twice", name),
				fmt.Sprintf("first on line %d; rename one", c.doc.node(stagePath(j)+".name").Line))
			continue
		}
		first[name] = i
	}
}

func stagePath(i int) string { return fmt.Sprintf("spec.stages[%d]", i) }

// targets of an environment have different names.
func (c *check) targets(e *EnvironmentSpec) {
	first := map[string]int{}
	for i, t := range e.Targets {
		if j, twice := first[t.Name]; twice && t.Name != "" {
			c.report(fmt.Sprintf("spec.targets[%d].name", i), "duplicate-name", fmt.Sprintf("target %q is declared twice", t.Name),
				fmt.Sprintf("first on line %d; rename one", c.doc.node(fmt.Sprintf("spec.targets[%d].name", j)).Line))
			continue
		}
		first[t.Name] = i
	}
}

// placement says where in a stage a step stands.
type placement struct {
	prefix   string
	rollback bool
	parallel string // path of the parallel group around it, "" outside
}

// placed is a step with its place; steps stand in the order in which they run.
type placed struct {
	placement
	step *Step
	typ  steps.Type
	path string
}

// collect flattens the steps and reports those that are neither step nor group.
func (s *stageCheck) collect(list []Step, path string, at placement) {
	for i := range list {
		st := &list[i]
		here := fmt.Sprintf("%s[%d]", path, i)
		switch s.shape(st, here); {
		case st.Parallel != nil:
			inner := at
			if inner.parallel == "" {
				inner.parallel = here
			}
			s.collect(st.Parallel, here+".parallel", inner)
		case st.Group != nil:
			inner := at
			inner.prefix += st.Group.Name + "/"
			s.collect(st.Group.Steps, here+".group.steps", inner)
		default:
			s.steps = append(s.steps, placed{placement: at, step: st, typ: s.lang.types[st.Type], path: here})
		}
	}
}

// shape demands that an entry is exactly one of the three.
func (s *stageCheck) shape(st *Step, path string) {
	n := 0
	for _, set := range []bool{st.Type != "", st.Parallel != nil, st.Group != nil} {
		if set {
			n++
		}
	}
	own := st.Spec != nil || st.When != "" || st.Timeout != 0 || st.Retry != nil || st.OnFailure != nil || st.Policies != nil
	switch {
	case n == 0:
		s.report(path, "step-shape", "entry is no step", "give it a name and a type, or make it a parallel: or group:")
	case n > 1:
		s.report(path, "step-shape", "entry is more than one of type, parallel and group", "keep one of them")
	case st.Type == "" && (own || st.Name != ""):
		s.report(path, "step-shape", "a group has only its steps", "put name, spec, when and the like on the steps inside")
	case st.Type != "" && st.Name == "":
		s.report(path, "step-shape", fmt.Sprintf("step of type %q has no name", st.Type), "add name:")
	}
}

// stepNames are unique in their stage, groups included.
func (s *stageCheck) stepNames() {
	first := map[string]string{}
	for _, p := range s.steps {
		name := p.step.Name
		if before, twice := first[name]; twice && name != "" {
			s.report(p.path+".name", "duplicate-name", fmt.Sprintf("step %q is declared twice in stage %q", name, s.stage.Name),
				fmt.Sprintf("first on line %d; rename one", s.doc.node(before+".name").Line))
			continue
		}
		first[name] = p.path
	}
}
