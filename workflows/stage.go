package workflows

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// stageRun is one stage under way.
type stageRun struct {
	r     *promotion
	plan  *plan.Stage
	state *promo.Stage
	index map[key]int // places of executions in state.Steps

	// By wave; 0 where there is one change for the stage.
	changes  map[int]*plan.Change
	makers   map[int]maker
	approved map[int]string

	lane    laneHold
	synced  map[string]string // by target: the revision its applications were synced to
	tainted string            // why the outcome proves nothing known-good
	onFail  plan.Action       // what the matched failure strategy does to the stage
	// unreached is set where the stage was skipped because something that it needs did not succeed; what needs it
	// is not reached either.
	unreached bool

	cancel     workflow.CancelFunc // ends the stage's work alone
	refused    *promo.Error        // why the lane turned the run away
	superseded bool
}

// maker is the execution that made a wave's change, and the change as that left it: what others pushed since is
// merged only if people approved it.
type maker struct {
	step      *plan.Step
	unit      unit
	operation string
	left      plan.Change
}

// key names one execution of a step.
type key struct {
	path, target string
	wave         int
}

// part is what a list of nodes is run for: the whole stage (all), or one wave.
type part struct {
	all     bool
	wave    int // from 1; 0 where the stage has one wave
	targets []plan.Target
}

func newStageRun(r *promotion, p *plan.Stage, state *promo.Stage) *stageRun {
	s := &stageRun{
		r: r, plan: p, state: state, index: map[key]int{},
		changes: map[int]*plan.Change{}, makers: map[int]maker{}, approved: map[int]string{},
		synced: map[string]string{}, cancel: func() {},
	}
	for i, st := range state.Steps {
		s.index[key{st.Path, st.Target, st.Wave}] = i
	}
	if len(state.Steps) == 0 {
		s.announceSteps()
	}
	// Room for what is only entered when it runs: entries are pointed at while their steps wait.
	room := len(plan.Steps(p.Nodes))
	for _, st := range plan.Steps(p.RollbackNodes) {
		room += len(s.units(st, s.whole()))
	}
	s.state.Steps = slices.Grow(s.state.Steps, room)
	return s
}

// announceSteps lists every execution to come, so that people see what lies ahead.
func (s *stageRun) announceSteps() {
	for _, st := range plan.Steps(s.plan.Nodes[:s.plan.Prologue]) {
		for _, u := range s.units(st, s.whole()) {
			s.entry(st, u)
		}
	}
	for _, w := range s.parts() {
		for _, st := range plan.Steps(s.plan.Nodes[s.plan.Prologue:]) {
			for _, u := range s.units(st, w) {
				s.entry(st, u)
			}
		}
	}
}

// whole is the part that the prologue runs for.
func (s *stageRun) whole() part { return part{all: true, targets: s.targets(nil)} }

// parts lists the waves.
func (s *stageRun) parts() []part {
	if len(s.plan.Waves) <= 1 {
		return []part{{targets: s.targets(nil)}}
	}
	var out []part
	for i, names := range s.plan.Waves {
		if ts := s.targets(names); len(ts) > 0 { // a wave of targets that were not asked for is none
			out = append(out, part{wave: i + 1, targets: ts})
		}
	}
	return out
}

// targets returns the named targets, or all; restricted to what the run was asked for.
func (s *stageRun) targets(names []string) []plan.Target {
	var out []plan.Target
	for _, t := range s.plan.Targets {
		if (names == nil || slices.Contains(names, t.Name)) && (len(s.r.in.Only) == 0 || slices.Contains(s.r.in.Only, t.Name)) {
			out = append(out, t)
		}
	}
	return out
}

// runWhenReady waits for the stages that this one needs and runs it where its condition holds.
func (s *stageRun) runWhenReady(ctx workflow.Context) {
	err := workflow.Await(ctx, func() bool {
		for _, n := range s.plan.Needs {
			if !s.r.stage(n).state.Phase.Final() {
				return false
			}
		}
		return true
	})
	if err != nil {
		s.unreached = true
		s.skip("not reached: the promotion ended before")
		return
	}
	failed := ""
	for _, n := range s.plan.Needs {
		need := s.r.stage(n)
		if p := need.state.Phase; need.unreached || (p != promo.PhaseSucceeded && p != promo.PhaseSkipped) {
			failed = n
		}
	}
	on := cmp.Or(s.plan.When.On, plan.OnSuccess)
	if (failed != "" && on == plan.OnSuccess) || (failed == "" && on == plan.OnFailure) {
		why := "no stage that it needs failed"
		if failed != "" {
			why = "stage " + failed + " did not succeed"
			s.unreached = true
		}
		s.skip(why)
		return
	}
	if len(s.plan.Targets) > 0 && len(s.targets(nil)) == 0 {
		s.skip("none of its targets was asked for")
		return
	}
	s.run(ctx)
}

func (s *stageRun) skip(why string) {
	s.state.Phase, s.state.Message = promo.PhaseSkipped, why
	for i := range s.state.Steps {
		if s.state.Steps[i].Phase == promo.PhasePending {
			s.state.Steps[i].Phase = promo.PhaseSkipped
		}
	}
	s.r.refresh()
}

// run runs the stage to its end.
func (s *stageRun) run(ctx workflow.Context) {
	if s.plan.When.Expr != "" {
		ok, err := s.condition(ctx)
		if err != nil {
			s.conclude(detached(ctx), err)
			return
		}
		if !ok {
			s.skip("its condition is false: " + s.plan.When.Expr)
			return
		}
	}
	s.state.Phase, s.state.StartedAt = promo.PhaseRunning, workflow.Now(ctx)
	s.r.refresh()
	work, cancel := workflow.WithCancel(ctx)
	defer cancel()
	s.cancel = cancel
	err := s.timed(work, s.body)
	if s.refused != nil {
		err = s.refused
	}
	if err != nil && !isStopped(err) && ctx.Err() == nil && !s.superseded {
		s.compensate(ctx, err)
	}
	s.conclude(detached(ctx), err)
}

func (s *stageRun) condition(ctx workflow.Context) (bool, *promo.Error) {
	vars, err := s.r.in.Plan.Vars(s.r.info, s.r.state.Stages, plan.Place{Stage: s.plan})
	if err != nil {
		return false, fault(err)
	}
	res, err := contract.Resolve.CallLocal(ctx, contract.ResolveRequest{When: s.plan.When.Expr, Vars: vars, Where: "stage " + s.plan.Name})
	return res.Run, fault(err)
}

// timed runs fn within the stage's own timeout, where it has one.
func (s *stageRun) timed(ctx workflow.Context, fn func(workflow.Context) *promo.Error) *promo.Error {
	if s.plan.Timeout <= 0 {
		return fn(ctx)
	}
	inner, cancel := workflow.WithCancel(ctx)
	defer cancel()
	over := false
	workflow.Go(inner, func(ctx workflow.Context) {
		if workflow.Sleep(ctx, s.plan.Timeout) == nil {
			over = true
			cancel()
		}
	})
	err := fn(inner)
	if over && err != nil {
		return errorf(promo.CodeTimeout, "stage %q was not done within %s", s.plan.Name, plan.Duration(s.plan.Timeout))
	}
	return err
}

// body runs prologue and waves. See "How a stage with several waves is cut" in package plan.
func (s *stageRun) body(ctx workflow.Context) *promo.Error {
	if err := s.decide(ctx, s.plan.Policies, "stage", "", ""); err != nil {
		return err
	}
	if err := s.announce(ctx); err != nil {
		return err
	}
	err := s.runNodes(ctx, s.plan.Nodes[:s.plan.Prologue], s.whole(), nil)
	rest := s.plan.Nodes[s.plan.Prologue:]
	for i, w := range s.parts() {
		if i > 0 && err != nil {
			break // the waves that are left are not touched
		}
		if i > 0 && s.plan.PauseBetweenWaves > 0 {
			if err := s.pause(ctx, s.plan.PauseBetweenWaves, w.wave); err != nil {
				return err
			}
		}
		err = s.runNodes(ctx, rest, w, err)
	}
	return err
}

func (s *stageRun) pause(ctx workflow.Context, d time.Duration, wave int) *promo.Error {
	s.state.Message = "pausing " + plan.Duration(d).String() + " before wave " + strconv.Itoa(wave)
	s.r.rec.changed()
	err := workflow.Sleep(ctx, d)
	s.state.Message = ""
	s.r.rec.changed()
	return fault(err)
}

// decide evaluates policy sets named by a stage or step. A denial is the verdict Policy.
func (s *stageRun) decide(ctx workflow.Context, sets []string, event, step, target string) *promo.Error {
	if len(sets) == 0 {
		return nil
	}
	res, err := contract.Decide.Call(ctx, contract.DecideRequest{
		Project: s.r.info.Project, Sets: sets, Event: event, Run: s.r.info.ID, Stage: s.plan.Name, Step: step, Target: target,
		By: s.r.info.TriggeredBy,
	})
	if err != nil {
		return fault(err)
	}
	if len(res.Deny) > 0 {
		return errorf(promo.CodePolicy, "denied by policy: %s", strings.Join(res.Deny, "; "))
	}
	return nil
}

// conclude gives the stage its last phase, records what it brought about and gives its lane back.
func (s *stageRun) conclude(ctx workflow.Context, err *promo.Error) {
	switch {
	case s.superseded:
		s.state.Phase, s.state.Message = promo.PhaseSuperseded, "superseded by "+s.r.superseded
	case s.r.end != nil && err != nil:
		s.state.Phase, s.state.Message = s.r.end.phase, s.r.end.why
	case isStopped(err):
		s.state.Phase = promo.PhaseAborted
	case err != nil:
		s.state.Phase, s.state.Error, s.state.Message = promo.PhaseFailed, err, err.Msg
	default:
		s.state.Phase, s.state.Message = promo.PhaseSucceeded, ""
	}
	for i := range s.state.Steps {
		if st := &s.state.Steps[i]; st.Phase == promo.PhasePending {
			st.Phase = promo.PhaseSkipped
		}
	}
	s.mark(ctx, err == nil)
	s.state.FinishedAt = workflow.Now(ctx)
	s.leave(ctx)
	s.r.endIfSuperseded()
	s.r.refresh()
}

// mark records the commit that the stage brought into its environment, and whether it is known-good.
func (s *stageRun) mark(ctx workflow.Context, succeeded bool) {
	commit := s.lastCommit()
	if s.plan.Environment == nil || commit == "" {
		return
	}
	good := succeeded && s.tainted == "" && len(s.r.in.Only) == 0 && len(s.synced) == len(s.plan.Targets)
	_, err := contract.MarkCommit.Call(ctx, plan.MarkRequest{
		Entry: promo.KnownGood{
			Project: s.r.info.Project, Service: s.r.in.Plan.Service.Name, Environment: s.plan.Environment.Name,
			Commit: commit, Version: s.r.in.Plan.Release.Version, Promotion: s.r.info.ID, At: workflow.Now(ctx), KnownGood: good,
		},
		Service: s.r.in.Plan.Service, Repository: s.r.in.Plan.Repository, Synced: s.synced,
	})
	if err != nil {
		workflow.GetLogger(ctx).Error("commit not recorded in the history", "promotion", s.r.info.ID, "stage", s.plan.Name, "error", err)
	}
}

// lastCommit is the commit of the last wave that was merged.
func (s *stageRun) lastCommit() string {
	out := ""
	for _, w := range workflow.DeterministicKeys(s.changes) {
		if m := s.changes[w].Merged; m != "" {
			out = m
		}
	}
	return out
}

// refresh derives the stage's phase and message from its steps while it runs.
func (s *stageRun) refresh() {
	if s.state.Phase.Final() || s.state.Phase == promo.PhasePending {
		return
	}
	phase := promo.PhaseRunning
	for i := range s.state.Steps {
		st := &s.state.Steps[i]
		if st.Phase == promo.PhaseWaitingForApproval || (st.Phase == promo.PhasePaused && phase == promo.PhaseRunning) {
			phase = st.Phase
			s.state.Message = st.Name + ": " + st.Message
		}
	}
	if phase == promo.PhaseRunning && s.state.Phase != promo.PhaseRunning {
		s.state.Message = ""
	}
	s.state.Phase = phase
}

// setChange keeps what a step or a look at the forge said about the wave's change.
func (s *stageRun) setChange(wave int, c plan.Change) {
	s.changes[wave] = &c
	s.state.Changes = nil
	for _, w := range workflow.DeterministicKeys(s.changes) {
		if s.changes[w].Changed {
			s.state.Changes = append(s.state.Changes, changeRef(w, *s.changes[w]))
		}
	}
}
