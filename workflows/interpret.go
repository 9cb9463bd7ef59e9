package workflows

import (
	"strconv"
	"strings"

	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// unit is one execution of a step: for the stage, a wave or a target.
type unit struct {
	wave    int
	target  *plan.Target
	targets []plan.Target // of the wave
}

// runNodes runs nodes in order. Behind a failure only nodes run that ask for failures; the first error is returned.
func (s *stageRun) runNodes(ctx workflow.Context, nodes []plan.Node, at part, prior *promo.Error) *promo.Error {
	for i := range nodes {
		if ctx.Err() != nil {
			return first([]*promo.Error{prior, stopped()})
		}
		err := s.runNode(ctx, &nodes[i], at, prior)
		if prior == nil {
			prior = err
		}
	}
	return prior
}

// runNode is the interpreter's closed switch.
func (s *stageRun) runNode(ctx workflow.Context, n *plan.Node, at part, prior *promo.Error) *promo.Error {
	switch n.Kind {
	case plan.NodeStep, plan.NodeGate:
		if !wanted(n.Step.When, prior) {
			return nil
		}
		return s.runStep(ctx, n.Step, at)
	case plan.NodeSequence:
		return s.runNodes(ctx, n.Nodes, at, prior)
	case plan.NodeParallel:
		return together(ctx, len(n.Nodes), 0, true, func(ctx workflow.Context, i int) *promo.Error {
			return s.runNode(ctx, &n.Nodes[i], at, prior)
		})
	}
	return errorf(promo.CodeInternal, "stage %q: the plan has a node of unknown kind %q", s.plan.Name, n.Kind)
}

func wanted(w plan.When, prior *promo.Error) bool {
	switch w.On {
	case plan.OnFailure:
		return prior != nil && !isStopped(prior)
	case plan.OnAlways:
		return true
	case plan.OnSuccess:
		return prior == nil
	}
	return prior == nil
}

// runStep fans a step out over the executions that its scope asks for.
func (s *stageRun) runStep(ctx workflow.Context, st *plan.Step, at part) *promo.Error {
	us := s.units(st, at)
	limit := 1
	if st.Scope == plan.ScopeTarget {
		limit = s.plan.MaxParallel
		if limit == 0 || limit > maxAtOnce {
			limit = maxAtOnce
		}
	}
	return together(ctx, len(us), limit, st.Scope != plan.ScopeTarget || s.plan.FailFast, func(ctx workflow.Context, i int) *promo.Error {
		return s.runUnit(ctx, st, us[i])
	})
}

// maxAtOnce keeps a stage far below Temporal's limit of 2,000 pending activities, past which a workflow hangs.
const maxAtOnce = 200

// units lists the executions of a step in a part of the stage.
func (s *stageRun) units(st *plan.Step, at part) []unit {
	switch st.Scope {
	case plan.ScopeTarget:
		out := make([]unit, len(at.targets))
		for i := range at.targets {
			out[i] = unit{wave: at.wave, target: &at.targets[i], targets: at.targets}
		}
		return out
	case plan.ScopeChange:
		if at.all && s.plan.Changes == plan.ChangesPerWave && len(s.plan.Waves) > 1 {
			var out []unit
			for _, w := range s.parts() {
				out = append(out, unit{wave: w.wave, targets: w.targets})
			}
			return out
		}
		if s.plan.Changes == plan.ChangesOnce {
			return []unit{{targets: s.targets(nil)}}
		}
		return []unit{{wave: at.wave, targets: at.targets}}
	case plan.ScopeStage:
		return []unit{{wave: at.wave, targets: at.targets}}
	}
	return nil
}

// entry returns the record of an execution, made on first use.
func (s *stageRun) entry(st *plan.Step, u unit) *promo.Step {
	k := key{path: st.Path, wave: u.wave}
	if u.target != nil {
		k.target = u.target.Name
	}
	i, ok := s.index[k]
	if !ok {
		i = len(s.state.Steps)
		s.state.Steps = append(s.state.Steps, promo.Step{
			Name: st.Name, Type: st.Type, Path: st.Path, Target: k.target, Wave: k.wave, Phase: promo.PhasePending,
		})
		s.index[k] = i
	}
	return &s.state.Steps[i]
}

// runUnit runs one execution until it succeeds, is ignored, or fails for good.
func (s *stageRun) runUnit(ctx workflow.Context, st *plan.Step, u unit) *promo.Error {
	for try := 1; ; try++ {
		if ctx.Err() != nil {
			return stopped()
		}
		err := s.attempt(ctx, st, u, try)
		if err == nil {
			return nil
		}
		again, err := s.handle(ctx, st, u, err, try)
		if !again {
			return err
		}
	}
}

// attempt runs one execution once.
func (s *stageRun) attempt(ctx workflow.Context, st *plan.Step, u unit, try int) *promo.Error {
	e := s.entry(st, u)
	e.Phase, e.StartedAt, e.Error, e.Message = promo.PhaseRunning, workflow.Now(ctx), nil, ""
	e.Attempt = try
	e.Operation = s.operation(st, u, try)
	s.r.refresh()
	run, err := s.execute(ctx, st, u, e)
	e = s.entry(st, u)
	e.FinishedAt = workflow.Now(ctx)
	switch {
	case err == nil && run:
		e.Phase = promo.PhaseSucceeded
	case err == nil:
		e.Phase = promo.PhaseSkipped
	case isStopped(err):
		e.Phase = promo.PhaseAborted
	default:
		e.Phase, e.Error, e.Message = promo.PhaseFailed, err, err.Msg
	}
	s.r.refresh()
	return err
}

// operation is the id under which the effect is found again (architecture, "Doing a thing once").
func (s *stageRun) operation(st *plan.Step, u unit, try int) string {
	attempt := strconv.Itoa(s.r.info.Attempt)
	if try > 1 {
		attempt += "-" + strconv.Itoa(try)
	}
	place := "stage"
	switch {
	case u.target != nil:
		place = u.target.Name
	case u.wave > 0:
		place = "wave-" + strconv.Itoa(u.wave)
	}
	return s.r.info.ID + "/" + s.plan.Name + "." + attempt + "/" + st.Path + "/" + place
}

// execute resolves the step, asks its policies, takes the lane where needed, and does it.
func (s *stageRun) execute(ctx workflow.Context, st *plan.Step, u unit, e *promo.Step) (bool, *promo.Error) {
	if st.FoldedInto != "" {
		return s.followFold(st, u, e), nil
	}
	run, spec, err := s.resolve(ctx, st, u)
	if err != nil || !run {
		return false, err
	}
	target := ""
	if u.target != nil {
		target = u.target.Name
	}
	if err := s.decide(ctx, st.Policies, "step", st.Name, target); err != nil {
		return true, err
	}
	if st.Mutates {
		if err := s.holdLane(ctx, u, e); err != nil {
			return true, err
		}
	}
	call := s.newCall(ctx, st, u, e, spec)
	var res plan.Result
	switch _, gate := gates()[st.Type]; {
	case gate:
		res, err = s.runGate(ctx, st, u, call, e)
	case st.Type == "MergePR":
		res, err = s.merge(ctx, st, u, call, e)
	default:
		res, err = s.r.act(ctx, st, call, e)
	}
	if err != nil {
		return true, err
	}
	return true, s.absorb(ctx, st, u, res, e)
}

// followFold shows what became of the commit that holds a folded edit; false where that was skipped.
func (s *stageRun) followFold(st *plan.Step, u unit, e *promo.Step) bool {
	for _, o := range plan.Steps(s.plan.Nodes) {
		if o.Name == st.FoldedInto {
			lead := s.entry(o, u)
			e.Outputs, e.Message = lead.Outputs, "made in the commit of step "+st.FoldedInto
			return lead.Phase != promo.PhaseSkipped
		}
	}
	return true
}

func gates() map[string]bool {
	return map[string]bool{"Approval": true, "Wait": true, "WaitForPR": true, "Rollback": true}
}

// resolve evaluates the step's condition and spec. A spec without expressions needs no activity.
func (s *stageRun) resolve(ctx workflow.Context, st *plan.Step, u unit) (bool, []byte, *promo.Error) {
	specs := s.folded(st)
	plain := st.When.Expr == "" && len(specs) == 1 && !strings.Contains(string(specs[0]), "${{")
	if plain {
		return true, specs[0], nil
	}
	vars, err := s.r.in.Plan.Vars(s.r.info, s.r.state.Stages, plan.Place{Stage: s.plan, Target: u.target, Wave: u.wave})
	if err != nil {
		return false, nil, fault(err)
	}
	req := contract.ResolveRequest{When: st.When.Expr, Vars: vars, Where: "stage " + s.plan.Name + ", step " + st.Name}
	if st.Scope == plan.ScopeChange && len(u.targets) > 0 {
		req.Targets = u.targets
	}
	for _, sp := range specs {
		req.Specs = append(req.Specs, sp)
	}
	res, err := contract.Resolve.CallLocal(ctx, req)
	if err != nil {
		return false, nil, fault(err)
	}
	return res.Run, res.Spec, nil
}

// folded lists the step's spec and those of the neighbouring edits that are made in the same commit.
func (s *stageRun) folded(st *plan.Step) [][]byte {
	specs := [][]byte{st.Spec}
	for _, o := range plan.Steps(s.plan.Nodes) {
		if o.FoldedInto == st.Name {
			specs = append(specs, o.Spec)
		}
	}
	return specs
}

func (s *stageRun) newCall(ctx workflow.Context, st *plan.Step, u unit, e *promo.Step, spec []byte) plan.Call {
	now := workflow.Now(ctx)
	wave := s.changeWave(u)
	c := plan.Call{
		Operation: e.Operation, Run: s.r.info, Target: u.target, Wave: u.wave, WaveTargets: u.targets, Spec: spec,
		Stage: plan.StageInfo{
			Name: s.plan.Name, Step: st.Name, Environment: s.plan.Environment, Service: s.r.in.Plan.Service, Repository: s.r.in.Plan.Repository,
		},
		Approved: s.approved[wave], StartedAt: now, Now: now, Deadline: now.Add(st.Timeout),
	}
	if ch := s.changes[wave]; ch != nil {
		c.Change = *ch
		if m := s.makers[wave]; c.Approved == "" && m.step != nil { // what others pushed was looked at by nobody
			c.Change.Head, c.Change.Digest = m.left.Head, m.left.Digest
		}
	}
	if u.target != nil {
		c.WaveTargets = nil // a step of one target need not know the others: 200 times 200 fill a history
	}
	return c
}

// changeWave is the wave under which the unit's change is kept.
func (s *stageRun) changeWave(u unit) int {
	if s.plan.Changes == plan.ChangesPerWave && len(s.plan.Waves) > 1 {
		return u.wave
	}
	return 0
}

// absorb takes over what a step answered.
func (s *stageRun) absorb(ctx workflow.Context, st *plan.Step, u unit, res plan.Result, e *promo.Step) *promo.Error {
	if len(res.Outputs) > 0 {
		e.Outputs = res.Outputs
	}
	e.Message = res.Message
	if res.Change != nil {
		w := s.changeWave(u)
		if st.Type != "MergePR" {
			s.makers[w] = maker{step: st, unit: u, operation: e.Operation, left: *res.Change}
		}
		s.setChange(w, *res.Change)
	}
	if st.Type == "Sync" && u.target != nil {
		out, err := plan.Decode[syncOutputs](res.Outputs)
		if err == nil && !out.Partial {
			s.synced[u.target.Name] = out.Revision
		}
		if out.Partial {
			s.tainted = "a sync was a dry run or covered some resources only"
		}
	}
	if res.Verdict != nil {
		return res.Verdict
	}
	if res.Ask != nil {
		return s.askAboutVerdict(ctx, st, u, *res.Ask, e)
	}
	return nil
}

// syncOutputs are the outputs of Sync that the stage itself reads.
type syncOutputs struct {
	Revision string `json:"revision"`
	// Partial is set for dry runs and syncs of some resources: they prove nothing known-good.
	Partial bool `json:"partial"`
}
