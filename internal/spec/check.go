package spec

import (
	"slices"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/spec/expression"
)

// Check reports what is wrong between documents and inside them, all at once. existing holds what has been applied
// before, so that a file may refer to it; nil where there is nothing.
func (l *Language) Check(files []*File, existing *Definitions) Diagnostics {
	defs := existing.With(files...)
	var diags Diagnostics
	duplicates(files, &diags)
	for _, f := range files {
		for _, doc := range f.Documents {
			c := &check{lang: l, defs: defs, doc: doc, diags: &diags}
			c.document()
		}
	}
	checkOverlaps(files, defs, &diags)
	diags = append(diags, l.CheckChange(existing, defs)...)
	return diags.sorted()
}

// CheckChange reports what a change from one set of definitions to another breaks in documents that it leaves alone:
// a pipeline whose environment lost a target, a service whose repository is to be deleted.
func (l *Language) CheckChange(before, after *Definitions) Diagnostics {
	var diags Diagnostics
	if before == nil {
		return nil
	}
	for _, kind := range Kinds() {
		for _, doc := range before.Documents(kind) {
			if now, ok := after.Document(kind, doc.Metadata.Project, doc.Metadata.Name); !ok || now != doc {
				continue
			}
			broken := l.checkOne(after, doc)
			if !broken.HasErrors() {
				continue
			}
			old := l.checkOne(before, doc)
			diags = append(diags, slices.DeleteFunc(broken, func(d Diagnostic) bool { return d.Warning || slices.Contains(old, d) })...)
		}
	}
	return diags.sorted()
}

// checkOne checks one document against the definitions.
func (l *Language) checkOne(defs *Definitions, doc *Document) Diagnostics {
	var diags Diagnostics
	c := &check{lang: l, defs: defs, doc: doc, diags: &diags}
	c.document()
	return diags.sorted()
}

// check checks one document.
type check struct {
	lang  *Language
	defs  *Definitions
	doc   *Document
	diags *Diagnostics
}

func (c *check) report(path, rule, msg, hint string) {
	*c.diags = append(*c.diags, c.doc.at(path, rule, msg, hint))
}

func (c *check) warn(path, rule, msg, hint string) {
	d := c.doc.at(path, rule, msg, hint)
	d.Warning = true
	*c.diags = append(*c.diags, d)
}

func (c *check) project() string { return c.doc.Metadata.Project }

func (c *check) document() {
	c.references()
	switch s := c.doc.Spec.(type) {
	case *ServiceSpec:
		c.servicePaths(s)
	case *EnvironmentSpec:
		c.targets(s)
	case *RepositorySpec:
		c.address("spec.url", s.URL, "https", "ssh", "http", "file")
	case *ConnectorSpec:
		c.address("spec.url", s.URL, "https", "http")
	case *PolicySetSpec:
		c.policySet(s)
	case *PipelineSpec:
		c.pipeline(s)
	}
}

// pipeline runs the rules of a pipeline.
func (c *check) pipeline(p *PipelineSpec) {
	c.inputs(p)
	c.triggers(p)
	c.stageNames(p)
	graph := c.needs(p)
	c.strategies("spec.onFailure", p.OnFailure, strategyContext{environment: true, rollbackSteps: true})
	service, _ := c.defs.Service(c.project(), p.Service)
	for i := range p.Stages {
		s := &stageCheck{check: c, pipeline: p, stage: &p.Stages[i], index: i, path: stagePath(i), graph: graph}
		s.env, _ = c.defs.Environment(c.project(), p.Stages[i].Environment)
		if service != nil {
			s.service = service
			s.owned = compileService(p.Service, service).OwnedPaths(p.Stages[i].Environment)
		}
		s.run()
	}
}

// stageCheck checks one stage of a pipeline.
type stageCheck struct {
	*check
	pipeline *PipelineSpec
	stage    *Stage
	index    int
	path     string
	graph    map[string][]string // stage → all that it needs, directly or not
	env      *EnvironmentSpec    // nil where there is none
	service  *ServiceSpec        // nil where it is unknown
	owned    plan.OwnedPaths
	steps    []placed
	others   *expression.Type // the stages that this one needs, made once
}

func (s *stageCheck) run() {
	s.collect(s.stage.Steps, s.path+".steps", placement{})
	s.collect(s.stage.RollbackSteps, s.path+".rollbackSteps", placement{rollback: true})
	s.stageShape()
	s.stepNames()
	s.waves()
	s.changes()
	s.ownedPaths()
	s.gates()
	s.timeouts()
	s.stageStrategies()
	s.stepReferences()
	s.expressions()
}
