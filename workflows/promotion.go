package workflows

import (
	"slices"

	"go.temporal.io/sdk/workflow"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// Promotion walks the plan's stages. It answers QueryState with its promo.Promotion, takes UpdateDecide,
// UpdateAbort, SignalWake and SignalLane, and records every change.
func Promotion(ctx workflow.Context, in contract.PromotionInput) (contract.PromotionResult, error) {
	r := &promotion{in: in, lanes: map[string]*laneClaim{}}
	r.state = r.initial()
	r.base = newBase(ctx, in.Run, &recorder{save: r.save}, &r.state.WaitsFor)
	workCtx, cancel := workflow.WithCancel(ctx)
	r.cancel = cancel
	if err := r.serve(ctx); err != nil {
		return contract.PromotionResult{}, err
	}
	if err := workflow.SetQueryHandler(ctx, contract.QueryState, func() (promo.Promotion, error) { return r.state, nil }); err != nil {
		return contract.PromotionResult{}, err
	}
	r.listen(ctx)
	r.listenToLanes(ctx)
	r.rec.start(ctx)
	r.rec.changed()

	r.walk(workCtx)

	return r.conclude(detached(ctx))
}

// promotion is the state of one run.
type promotion struct {
	base
	in     contract.PromotionInput
	state  promo.Promotion
	stages []*stageRun
	lanes  map[string]*laneClaim // by token
	// cleanups runs beside the stages (closing pull requests, giving lanes back); the end waits for them.
	cleanups workflow.WaitGroup
	// superseded names the run that took this one's place, while a stage still holds a lane.
	superseded string
}

// initial is the state before anything ran: every stage and step pending, finished ones of an earlier attempt kept.
func (r *promotion) initial() promo.Promotion {
	p := promo.Promotion{
		ID: r.in.Run.ID, Project: r.in.Run.Project, Pipeline: r.in.Run.Pipeline, Number: r.in.Run.Number,
		Service: r.in.Plan.Service.Name, Attempt: r.in.Run.Attempt, Version: r.in.Plan.Release.Version,
		Inputs: r.in.Plan.Inputs, TriggeredBy: r.in.Run.TriggeredBy.Name, PlanHash: r.in.Run.PlanHash,
		Automatic: r.in.Automatic, Only: r.in.Only,
		Phase: promo.PhaseRunning, StartedAt: r.in.Run.StartedAt, Sequence: r.in.Sequence,
		Stages: make([]promo.Stage, len(r.in.Plan.Stages)),
	}
	for i := range r.in.Plan.Stages {
		st := &r.in.Plan.Stages[i]
		p.Stages[i] = promo.Stage{Name: st.Name, Type: st.Type, Phase: promo.PhasePending, Attempt: r.in.Run.Attempt}
		if st.Environment != nil {
			p.Stages[i].Environment = st.Environment.Name
		}
		if len(st.Waves) > 1 {
			p.Stages[i].Waves = st.Waves
		}
		if old := r.kept(st.Name); old != nil {
			p.Stages[i] = *old
		}
	}
	return p
}

// kept returns the stage of the previous attempt where it need not run again.
func (r *promotion) kept(name string) *promo.Stage {
	if r.in.Previous == nil {
		return nil
	}
	i := slices.IndexFunc(r.in.Previous.Stages, func(s promo.Stage) bool {
		return s.Name == name && s.Phase == promo.PhaseSucceeded
	})
	if i < 0 {
		return nil
	}
	return &r.in.Previous.Stages[i]
}

func (r *promotion) save(ctx workflow.Context) error {
	r.state.Sequence++
	_, err := contract.Record.CallLocal(ctx, contract.RecordRequest{Promotion: plan.Encode(r.state)})
	return err
}

// walk runs the stages, each as soon as those that it needs have ended, and returns when all have.
func (r *promotion) walk(ctx workflow.Context) {
	r.cleanups = workflow.NewWaitGroup(ctx)
	wg := workflow.NewWaitGroup(ctx)
	for i := range r.in.Plan.Stages {
		s := newStageRun(r, &r.in.Plan.Stages[i], &r.state.Stages[i])
		r.stages = append(r.stages, s)
	}
	for _, s := range r.stages {
		if s.state.Phase.Final() {
			continue
		}
		wg.Add(1)
		workflow.Go(ctx, func(ctx workflow.Context) {
			defer wg.Done()
			s.runWhenReady(ctx)
		})
	}
	wg.Wait(detached(ctx))
}

// stage returns the run of the stage of that name; the compiler has checked that it exists.
func (r *promotion) stage(name string) *stageRun {
	i := slices.IndexFunc(r.stages, func(s *stageRun) bool { return s.plan.Name == name })
	return r.stages[i]
}

// refresh derives the promotion's phase from its stages while it runs.
func (r *promotion) refresh() {
	phase, message := promo.PhaseRunning, ""
	for _, s := range r.stages {
		s.refresh()
		if s.state.Phase == promo.PhaseWaitingForApproval || (s.state.Phase == promo.PhasePaused && phase == promo.PhaseRunning) {
			phase, message = s.state.Phase, "stage "+s.plan.Name+": "+s.state.Message
		}
	}
	if r.state.Phase != phase && !r.closing {
		r.state.Phase = phase
	}
	r.state.Message = message
	r.rec.changed()
}

// conclude gives the run its last phase, cleans up and stores the end.
func (r *promotion) conclude(ctx workflow.Context) (contract.PromotionResult, error) {
	r.closing = true
	r.cleanups.Wait(ctx)
	phase, message, cause := r.outcome()
	r.state.Phase, r.state.Message, r.state.Error = phase, message, cause
	r.state.FinishedAt = workflow.Now(ctx)
	r.state.WaitsFor = nil
	r.rec.changed()
	if err := r.rec.close(ctx); err != nil {
		return contract.PromotionResult{}, err
	}
	// An update that arrived at the last moment is answered ("already ending") before the workflow closes.
	err := workflow.Await(ctx, func() bool { return workflow.AllHandlersFinished(ctx) })
	return contract.PromotionResult{Phase: phase}, err
}

func (r *promotion) outcome() (promo.Phase, string, *promo.Error) {
	if r.end != nil {
		return r.end.phase, r.end.why, nil
	}
	for _, s := range r.stages {
		if s.state.Phase == promo.PhaseFailed {
			message := "stage " + s.plan.Name + " failed"
			if s.state.Error != nil {
				message += ": " + s.state.Error.Msg
			}
			return promo.PhaseFailed, message, s.state.Error
		}
	}
	for _, s := range r.stages {
		if s.state.Phase == promo.PhaseSuperseded {
			return promo.PhaseSuperseded, "superseded by " + r.superseded, nil
		}
		if s.state.Phase == promo.PhaseAborted {
			return promo.PhaseAborted, "cancelled from outside", nil
		}
	}
	return promo.PhaseSucceeded, "", nil
}

// supersede ends the stage that waits for the lane, and the run as soon as it changes nothing any more.
func (r *promotion) supersede(s *stageRun, by string) {
	r.superseded, s.superseded = by, true
	s.cancel()
	r.endIfSuperseded()
}

// endIfSuperseded ends a superseded run. A stage that holds its lane may have changed its environment: it ends first.
func (r *promotion) endIfSuperseded() {
	if r.superseded != "" && !slices.ContainsFunc(r.stages, func(s *stageRun) bool { return s.lane.held }) {
		r.stop(promo.PhaseSuperseded, "superseded by "+r.superseded)
	}
}
