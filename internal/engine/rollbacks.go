package engine

import (
	"context"
	"strconv"
	"strings"
	"time"

	"go.temporal.io/api/enums/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/catalog"
	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/internal/store"
)

// Rollbacks goes back to known-good commits.
type Rollbacks struct{ *Engine }

// Preview says what a rollback would do.
func (r Rollbacks) Preview(ctx context.Context, _ promo.Principal, req api.RollbackRequest) (promo.Preview, error) {
	p, err := r.rollbackPlan(ctx, req)
	if err != nil {
		return promo.Preview{}, err
	}
	return r.KnownGood.Preview(ctx, p.target)
}

// Start starts a rollback. What can be refused is refused before: nothing to go back to, shared files that differ
// without a word about them.
func (r Rollbacks) Start(ctx context.Context, who promo.Principal, req api.RollbackRequest) (promo.Rollback, error) {
	p, err := r.rollbackPlan(ctx, req)
	if err != nil {
		return promo.Rollback{}, err
	}
	preview, err := r.KnownGood.Preview(ctx, p.target)
	if err != nil {
		return promo.Rollback{}, err
	}
	if preview.Refusal != "" {
		return promo.Rollback{}, promo.Errorf(promo.CodeConflict, "%s", preview.Refusal)
	}
	if len(preview.Shared) > 0 && req.Shared != "include" && req.Shared != "paths-only" {
		return promo.Rollback{}, promo.Errorf(promo.CodeConflict, "files under the shared paths differ from the known-good commit too: %s", strings.Join(preview.Shared, ", ")).
			WithHint("choose: --shared include puts them back as well (also read by %s), --shared paths-only leaves them", strings.Join(preview.Readers, ", "))
	}
	number, err := r.Store.NextRollbackNumber(ctx, req.Project, req.Service, req.Environment)
	if err != nil {
		return promo.Rollback{}, err
	}
	in := p.input(req, who, number)
	in.Target.To = preview.To
	if in.Inputs, err = r.inputsOf(ctx, req, preview.To); err != nil {
		return promo.Rollback{}, err
	}
	state := promo.Rollback{
		ID: in.ID, Project: req.Project, Service: req.Service, Environment: req.Environment, Number: number, To: preview.To, From: preview.From,
		StartedBy: who.Name, Reason: req.Reason, Phase: promo.PhasePending, Preview: &preview, StartedAt: r.Now().UTC(),
	}
	if err := r.Store.RecordRollback(ctx, state); err != nil {
		return promo.Rollback{}, err
	}
	_, err = r.Temporal.ExecuteWorkflow(ctx, client.StartWorkflowOptions{
		ID: contract.RollbackID(in.ID), TaskQueue: contract.TaskQueue,
		WorkflowIDReusePolicy: enums.WORKFLOW_ID_REUSE_POLICY_REJECT_DUPLICATE,
		TypedSearchAttributes: temporal.NewSearchAttributes(contract.AttrProject.ValueSet(req.Project),
			contract.AttrService.ValueSet(req.Service), contract.AttrEnvironment.ValueSet(req.Environment)),
	}, contract.RollbackWorkflow, in)
	if err != nil {
		return promo.Rollback{}, wireError(err)
	}
	return state, r.audit(ctx, who, deed{"rollback:run", "rollback", in.ID, req.Project}, req)
}

// inputsOf are the inputs of the promotion that brought a commit into the environment; none for a baseline.
func (r Rollbacks) inputsOf(ctx context.Context, req api.RollbackRequest, commit string) (map[string]any, error) {
	known, err := r.Store.History(ctx, req.Project, req.Service, req.Environment, store.MaxLimit)
	if err != nil {
		return nil, err
	}
	for _, k := range known {
		if _, rolled := cutRollback(k.Promotion); k.Commit != commit || k.Promotion == "" || rolled {
			continue
		}
		p, err := r.Store.Promotion(ctx, k.Promotion)
		if err != nil && promo.CodeOf(err) != promo.CodeNotFound {
			return nil, err
		}
		return p.Inputs, nil
	}
	return nil, nil
}

// rollbackPlan is what is known of a service's environment when somebody wants it back.
type rollbackPlan struct {
	target plan.RollbackTarget
	env    plan.Environment
	of     []plan.Target
	verify []plan.Step
}

func (r Rollbacks) rollbackPlan(ctx context.Context, req api.RollbackRequest) (rollbackPlan, error) {
	v, err := r.Catalog.View(ctx)
	if err != nil {
		return rollbackPlan{}, err
	}
	service, ok := v.Defs.Service(req.Project, req.Service)
	if !ok {
		return rollbackPlan{}, promo.Errorf(promo.CodeNotFound, "project %q has no service %q", req.Project, req.Service)
	}
	env, ok := v.Defs.Environment(req.Project, req.Environment)
	if !ok {
		return rollbackPlan{}, promo.Errorf(promo.CodeNotFound, "project %q has no environment %q", req.Project, req.Environment)
	}
	repository, ok := v.Defs.Repository(req.Project, service.Repository)
	if !ok {
		return rollbackPlan{}, promo.Errorf(promo.CodeConfiguration, "project %q has no repository %q any more", req.Project, service.Repository)
	}
	out := rollbackPlan{
		target: plan.RollbackTarget{
			Project: req.Project, Service: spec.CompileService(req.Service, service), Environment: req.Environment, To: req.To,
			Repository: plan.Repository{Name: service.Repository, Provider: repository.Provider, URL: repository.URL},
		},
		env: plan.Environment{Name: req.Environment, Type: env.Type},
		of:  spec.CompileTargets(env),
	}
	out.verify = r.verifySteps(v, req)
	return out, nil
}

// verifySteps are the Verify steps of the pipeline stage that brings the service into the environment.
func (r Rollbacks) verifySteps(v catalog.View, req api.RollbackRequest) []plan.Step {
	for _, doc := range v.Defs.Documents(spec.KindPipeline) {
		ps, ok := doc.Spec.(*spec.PipelineSpec)
		if !ok || doc.Metadata.Project != req.Project || ps.Service != req.Service {
			continue
		}
		p, err := r.Lang.Skeleton(v.Defs, doc)
		if err != nil {
			continue
		}
		for _, st := range p.Stages {
			if st.Environment == nil || st.Environment.Name != req.Environment {
				continue
			}
			var out []plan.Step
			for _, s := range plan.Steps(st.Nodes) {
				if s.Type == "Verify" {
					out = append(out, *s)
				}
			}
			return out
		}
	}
	return nil
}

func (p rollbackPlan) input(req api.RollbackRequest, who promo.Principal, number int) contract.RollbackInput {
	id := req.Project + "/" + req.Service + "/" + req.Environment + "/" + strconv.Itoa(number)
	return contract.RollbackInput{
		ID: id, Number: number, Target: p.target, Targets: p.of, Env: p.env, By: who, Reason: req.Reason, Shared: req.Shared,
		Delivery: p.target.Service.RollbackDelivery, NoPrune: req.NoPrune, Verify: p.verify, BreakGlass: req.BreakGlass,
		Run: plan.RunInfo{ID: "rollback/" + id, Project: req.Project, Number: number, Attempt: 1, TriggeredBy: who, StartedAt: time.Time{}},
	}
}

// Get returns a rollback.
func (r Rollbacks) Get(ctx context.Context, _ promo.Principal, id string) (promo.Rollback, error) {
	return r.Store.Rollback(ctx, id)
}

// List returns rollbacks, newest first.
func (r Rollbacks) List(ctx context.Context, _ promo.Principal, f api.EnvironmentRef) ([]promo.Rollback, error) {
	return r.Store.Rollbacks(ctx, store.RollbackFilter{Project: f.Project, Service: f.Service, Environment: f.Environment, Limit: f.Limit})
}

// Abort ends a rollback that is still under way.
func (r Rollbacks) Abort(ctx context.Context, who promo.Principal, req api.AbortRequest) error {
	m := contract.AbortMessage{RequestID: req.RequestID, By: who, Reason: req.Reason}
	if err := update(ctx, r.Temporal, message{contract.RollbackID(req.ID), contract.UpdateAbort, req.RequestID}, m, nil); err != nil {
		return err
	}
	return r.audit(ctx, who, deed{"rollback:abort", "rollback", req.ID, project(req.ID)}, req)
}

// cutRollback returns the rollback's id where the run's id says that it is one.
func cutRollback(run string) (string, bool) { return strings.CutPrefix(run, "rollback/") }

// project is the first part of an id.
func project(id string) string {
	if rest, ok := cutRollback(id); ok {
		id = rest
	}
	p, _, _ := strings.Cut(id, "/")
	return p
}
