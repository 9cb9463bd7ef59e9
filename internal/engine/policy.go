package engine

import (
	"context"
	"encoding/json"
	"strings"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/catalog"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/policy"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/steps"
)

func user(who promo.Principal) policy.User {
	return policy.User{Name: who.Name, Email: who.Email, Groups: who.Groups}
}

// ask evaluates the policy sets bound to an event and turns a denial into an error.
func (e *Engine) ask(ctx context.Context, v catalog.View, about policy.Request) ([]string, error) {
	sets, err := v.PolicySets(about.Project, nil, about.Event)
	if err != nil || len(sets) == 0 {
		return nil, err
	}
	about.Sets = sets
	d, err := e.Policy.Decide(ctx, about)
	if err != nil {
		return nil, err
	}
	if !d.Allowed {
		return nil, api.Refused(d.Deny)
	}
	return d.Warn, nil
}

// maySave asks the policies about one document that is to be stored.
func (e *Engine) maySave(ctx context.Context, who promo.Principal, project string, doc *spec.Document, next catalog.View) ([]string, error) {
	d, err := e.saved(who, doc, next, "save")
	if err != nil {
		return nil, err
	}
	return e.ask(ctx, next, policy.Request{
		Event: policy.OnSave, Project: project, Entity: entity(doc.Kind), Subject: doc.Kind + "/" + doc.Metadata.Name, By: who.Name, Document: d,
	})
}

// mayDelete asks the policies bound to saving about a deletion; metadata.action says "delete".
func (e *Engine) mayDelete(ctx context.Context, who promo.Principal, project string, doc *spec.Document, v catalog.View) error {
	d, err := e.saved(who, doc, v, "delete")
	if err != nil {
		return err
	}
	_, err = e.ask(ctx, v, policy.Request{
		Event: policy.OnSave, Project: project, Entity: entity(doc.Kind), Subject: doc.Kind + "/" + doc.Metadata.Name, By: who.Name, Document: d,
	})
	return err
}

// entity is a kind in the words of policy sets.
func entity(kind string) string {
	b := []byte(kind)
	for i, c := range b {
		if c >= 'A' && c <= 'Z' {
			b[i] = c + 'a' - 'A'
		}
	}
	return string(b)
}

// saved is the document that policies see when a definition is saved or deleted.
func (e *Engine) saved(who promo.Principal, doc *spec.Document, v catalog.View, action string) (policy.Document, error) {
	ev := policy.Event{Metadata: policy.Metadata{
		Action: action, Type: entity(doc.Kind), Timestamp: e.Now().UTC(), User: user(who), Project: doc.Metadata.Project,
	}}
	var content map[string]any
	if err := json.Unmarshal(doc.JSON, &content); err != nil {
		return policy.Document{}, promo.Errorf(promo.CodeInternal, "%s %q: %w", doc.Kind, doc.Metadata.Name, err)
	}
	ev.Definition = content
	if doc.Kind != spec.KindPipeline {
		return policy.Build(nil, ev), nil
	}
	p, err := e.Lang.Skeleton(v.Defs, doc)
	if err != nil {
		return policy.Document{}, err
	}
	shown, err := policy.FromPlan(p, "")
	if err != nil {
		return policy.Document{}, err
	}
	return policy.Build(shown, ev), nil
}

// allowed asks the policies bound to an event of a run.
func (e *Engine) allowed(ctx context.Context, p *plan.Plan, info plan.RunInfo, event policy.On) error {
	v, err := e.Catalog.View(ctx)
	if err != nil {
		return err
	}
	doc, err := runDocument(e, p, info, event, steps.PolicyRequest{By: info.TriggeredBy})
	if err != nil {
		return err
	}
	_, err = e.ask(ctx, v, policy.Request{
		Event: event, Project: info.Project, Entity: "pipeline", Subject: info.ID, By: info.TriggeredBy.Name, Document: doc,
	})
	return err
}

// runDocument is the document that policies see about a run, or a place in it.
func runDocument(e *Engine, p *plan.Plan, info plan.RunInfo, event policy.On, at steps.PolicyRequest) (policy.Document, error) {
	shown, err := policy.FromPlan(p, "")
	if err != nil {
		return policy.Document{}, err
	}
	ev := policy.Event{
		Metadata: policy.Metadata{Action: string(event), Type: "pipeline", Timestamp: e.Now().UTC(), User: user(at.By), Project: info.Project},
		Run: &policy.Run{
			ID: info.ID, Number: info.Number, Attempt: info.Attempt, PlanHash: info.PlanHash, TriggeredBy: info.TriggeredBy.Name,
			StartedAt: info.StartedAt, Inputs: p.Inputs,
		},
		Release: &policy.Release{Service: p.Service.Name, Version: p.Release.Version},
	}
	if st, ok := p.Stage(at.Stage); ok {
		ev.Stage = &policy.StageRef{Name: st.Name, Type: st.Type}
		if st.Environment != nil {
			ev.Stage.Environment, ev.Stage.EnvironmentType = st.Environment.Name, st.Environment.Type
		}
		if t, ok := st.Target(at.Target); ok {
			ev.Target = &policy.Target{Name: t.Name, Agent: t.Agent, Region: t.Region, Labels: t.Labels}
		}
		for _, s := range plan.Steps(st.Nodes) {
			if s.Name == at.Step {
				n, err := policy.FromStep(s)
				if err != nil {
					return policy.Document{}, err
				}
				ev.Step = &n
			}
		}
	}
	return policy.Build(shown, ev), nil
}

// Decide implements the Policy port of steps and activities: it decides about a place in a run.
func (e *Engine) Decide(ctx context.Context, req steps.PolicyRequest) (steps.PolicyDecision, error) {
	v, err := e.Catalog.View(ctx)
	if err != nil {
		return steps.PolicyDecision{}, err
	}
	sets, err := v.PolicySets(req.Project, req.Sets, policy.On(req.Event))
	if err != nil {
		return steps.PolicyDecision{}, err
	}
	if len(sets) == 0 {
		return steps.PolicyDecision{}, nil
	}
	doc, err := e.document(ctx, req)
	if err != nil {
		return steps.PolicyDecision{}, err
	}
	d, err := e.Policy.Decide(ctx, policy.Request{
		Key:   req.Operation, // a repeated activity makes no second decision
		Event: policy.On(req.Event), Project: req.Project, Subject: req.Run + subjectStep(req), By: req.By.Name,
		Entity: "pipeline", Named: len(req.Sets) > 0, Sets: sets, Document: doc,
	})
	return steps.PolicyDecision{ID: d.ID, Deny: d.Deny, Warn: d.Warn}, err
}

func subjectStep(req steps.PolicyRequest) string {
	var out strings.Builder
	for _, s := range []string{req.Stage, req.Step, req.Target} {
		if s != "" {
			out.WriteString("/" + s)
		}
	}
	return out.String()
}

// document is the run's document, or the step's own input.
func (e *Engine) document(ctx context.Context, req steps.PolicyRequest) (any, error) {
	if len(req.Input) > 0 {
		var own any
		if err := json.Unmarshal(req.Input, &own); err != nil {
			return nil, promo.Errorf(promo.CodeConfiguration, "input of step %q: %w", req.Step, err)
		}
		return own, nil
	}
	if _, ok := cutRollback(req.Run); ok {
		return policy.Build(nil, policy.Event{
			Metadata: policy.Metadata{Action: req.Event, Type: "environment", Timestamp: e.Now().UTC(), User: user(req.By), Project: req.Project},
			Stage:    &policy.StageRef{Name: "rollback", Environment: req.Stage},
		}), nil
	}
	pr, err := e.Store.Promotion(ctx, req.Run)
	if err != nil {
		return nil, err
	}
	in, err := e.input(ctx, pr)
	if err != nil {
		return nil, err
	}
	doc, err := runDocument(e, &in.Plan, in.Run, policy.On(req.Event), req)
	if err != nil {
		return nil, err
	}
	e.addChange(ctx, &doc, pr, req.Stage, in.Plan.Repository.Name)
	return doc, nil
}

// addChange shows the stage's pull request and diff, as far as they are recorded.
func (e *Engine) addChange(ctx context.Context, doc *policy.Document, pr promo.Promotion, stage, repository string) {
	for _, st := range pr.Stages {
		if st.Name != stage || len(st.Changes) == 0 {
			continue
		}
		c := st.Changes[len(st.Changes)-1]
		doc.PullRequest = &policy.PullRequest{Number: c.PR, URL: c.URL, Branch: c.Branch, Head: c.Head, Author: pr.TriggeredBy}
		if c.PR != 0 {
			if got, err := e.Repos.Forge(pr.Project).Get(ctx, repository, c.PR); err == nil {
				doc.PullRequest.Author = got.Author
			}
		}
		doc.Diff = &policy.Diff{Digest: c.Digest, Files: []policy.FileDiff{}}
		if blob, err := e.Store.Blob(ctx, c.Diff); err == nil {
			doc.Diff.Files = filesOf(string(blob.Data))
		}
	}
}

// Records are what was decided, done and kept.
type Records struct{ *Engine }

// Evaluate asks applied policy sets about a document; nothing is recorded.
func (r Records) Evaluate(ctx context.Context, who promo.Principal, req api.EvaluateRequest) (api.EvaluateResult, error) {
	v, err := r.Catalog.View(ctx)
	if err != nil {
		return api.EvaluateResult{}, err
	}
	sets, err := v.PolicySets(req.Project, req.Sets, policy.OnStep)
	if err != nil {
		return api.EvaluateResult{}, err
	}
	dry := policy.NewEngine(nil, r.Now, r.Log)
	d, err := dry.Decide(ctx, policy.Request{Event: policy.OnStep, Project: req.Project, By: who.Name, Named: true, Sets: sets, Document: req.Input})
	return api.EvaluateResult{Deny: d.Deny, Warn: d.Warn}, err
}
