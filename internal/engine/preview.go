package engine

import (
	"context"
	"encoding/json"
	"strconv"

	"github.com/davit-cd/davit/activities"
	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
)

// Plan says what a run would do, stage by stage, with the diff of each wave's change on the branch's present head.
// It changes nothing: edits are made on trees that are never pushed.
func (r Runs) Plan(ctx context.Context, who promo.Principal, req api.RunRequest) (api.PlanResult, error) {
	p, hash, err := r.compile(ctx, req)
	if err != nil {
		return api.PlanResult{}, err
	}
	info := plan.RunInfo{
		ID: req.Project + "/" + req.Pipeline + "/0", Project: req.Project, Pipeline: req.Pipeline, Attempt: 1, TriggeredBy: who,
		PlanHash: hash, Version: p.Release.Version, StartedAt: r.Now().UTC(),
	}
	res := api.PlanResult{Hash: hash}
	for i := range p.Stages {
		st, err := r.planStage(ctx, p, &p.Stages[i], info)
		if err != nil {
			return api.PlanResult{}, err
		}
		res.Stages = append(res.Stages, st)
	}
	return res, nil
}

func (r Runs) planStage(ctx context.Context, p *plan.Plan, s *plan.Stage, info plan.RunInfo) (api.PlanStage, error) {
	out := api.PlanStage{Name: s.Name, Steps: []string{}}
	for _, st := range plan.Steps(s.Nodes) {
		out.Steps = append(out.Steps, st.Name+" ("+st.Type+")")
	}
	if s.Environment == nil {
		return out, nil
	}
	out.Environment = s.Environment.Name
	if s.When.Expr != "" {
		out.Notes = append(out.Notes, "runs only if "+s.When.Expr)
	}
	for i, names := range s.Waves {
		w, targets, err := r.planWave(ctx, p, s, names)
		if err != nil {
			return out, err
		}
		wave := 0
		if len(s.Waves) > 1 && s.Changes == plan.ChangesPerWave {
			wave = i + 1
		} else {
			targets = s.Targets
		}
		if wave > 0 || i == 0 {
			r.planChange(ctx, place{p, s, info, wave, targets}, &w)
		}
		out.Waves = append(out.Waves, w)
	}
	return out, nil
}

// planWave lists the wave's targets with their applications; an agent that is not connected has none to show.
func (r Runs) planWave(ctx context.Context, p *plan.Plan, s *plan.Stage, names []string) (api.PlanWave, []plan.Target, error) {
	var w api.PlanWave
	var targets []plan.Target
	for _, n := range names {
		t, _ := s.Target(n)
		targets = append(targets, t)
		apps, err := r.Fleet.Linked(ctx, p.Project, p.Service, s.Environment.Name, t)
		if err != nil && promo.CodeOf(err) != promo.CodeConnectivity {
			return w, nil, err
		}
		pt := api.PlanTarget{Name: t.Name, Agent: t.Agent}
		for _, a := range apps {
			pt.Applications = append(pt.Applications, a.Namespace+"/"+a.Name)
		}
		w.Targets = append(w.Targets, pt)
	}
	return w, targets, nil
}

// place is where in a run an edit would be made.
type place struct {
	plan    *plan.Plan
	stage   *plan.Stage
	info    plan.RunInfo
	wave    int
	targets []plan.Target
}

// planChange makes the stage's edits on a tree in the mirror. What can't be known before the run (outputs of other
// steps) is named as the wave's problem.
func (r Runs) planChange(ctx context.Context, at place, w *api.PlanWave) {
	for _, st := range plan.Steps(at.stage.Nodes) {
		if st.Type != "UpdateReleaseRepo" || st.FoldedInto != "" {
			continue
		}
		res, err := r.planEdit(ctx, at, st)
		if err != nil {
			w.Problem = "step " + st.Name + ": " + err.Error()
			return
		}
		w.Files = append(w.Files, res.Files...)
		w.Diff += res.Diff
	}
}

func (r Runs) planEdit(ctx context.Context, at place, st *plan.Step) (steps.GitResult, error) {
	vars, err := at.plan.Vars(at.info, nil, plan.Place{Stage: at.stage, Wave: at.wave})
	if err != nil {
		return steps.GitResult{}, promo.Errorf(promo.CodeInternal, "%w", err)
	}
	req := contract.ResolveRequest{
		Vars: vars, Targets: at.targets, Where: "stage " + at.stage.Name + ", step " + st.Name, Specs: []json.RawMessage{st.Spec},
	}
	for _, o := range plan.Steps(at.stage.Nodes) {
		if o.FoldedInto == st.Name {
			req.Specs = append(req.Specs, o.Spec)
		}
	}
	resolved, err := activities.Resolve(ctx, req)
	if err != nil {
		return steps.GitResult{}, err
	}
	looking := &onlyLooking{Git: r.Repos.Git(at.plan.Project), engine: r.Engine, project: at.plan.Project}
	_, err = steps.UpdateReleaseRepo().Run(ctx, steps.In{
		Call: plan.Call{
			Operation: at.info.ID + "/" + at.stage.Name + ".0/" + st.Path + "/" + strconv.Itoa(at.wave), Run: at.info,
			Spec: resolved.Spec, Wave: at.wave, WaveTargets: at.targets,
			Stage: plan.StageInfo{
				Name: at.stage.Name, Step: st.Name, Environment: at.stage.Environment, Service: at.plan.Service, Repository: at.plan.Repository,
			},
		},
		Ports: steps.Ports{Git: looking, Forge: noForge{}, Blobs: noBlobs{}}, Log: r.Log,
	})
	return looking.result, err
}

// onlyLooking is Git for a step that must change nothing: it makes the change in the mirror and keeps what it saw.
type onlyLooking struct {
	steps.Git
	engine  *Engine
	project string
	result  steps.GitResult
}

func (o *onlyLooking) Change(ctx context.Context, req steps.GitChange) (steps.GitResult, error) {
	repo, err := o.engine.Repos.Repo(ctx, o.project, req.Repository)
	if err != nil {
		return steps.GitResult{}, err
	}
	got, err := repo.Preview(ctx, git.ChangeRequest{
		Operation: req.Operation, Branch: req.Branch, Base: req.Base, Author: req.Author, Message: req.Message,
		Edit: func(ctx context.Context, t *git.Tree) error { return req.Edit(ctx, t) },
	})
	o.result = steps.GitResult{Base: got.Base, Head: got.Head, Changed: got.Changed, Digest: got.Digest, Diff: got.Diff}
	for _, f := range got.Files {
		o.result.Files = append(o.result.Files, f.Path)
	}
	return o.result, err
}

func (o *onlyLooking) DeleteBranch(context.Context, string, string, string) error {
	return promo.Errorf(promo.CodeInternal, "a plan deletes nothing")
}

// noForge opens nothing and says that it did.
type noForge struct{}

func (noForge) Open(_ context.Context, req steps.PullRequestSpec) (steps.PullRequest, error) {
	return steps.PullRequest{State: "open", Head: req.Head, Base: req.Base}, nil
}

func (noForge) Get(context.Context, string, int) (steps.PullRequest, error) {
	return steps.PullRequest{}, promo.Errorf(promo.CodeNotFound, "a plan has no pull request")
}

func (noForge) Merge(context.Context, steps.MergeSpec) (steps.PullRequest, error) {
	return steps.PullRequest{}, promo.Errorf(promo.CodeInternal, "a plan merges nothing")
}

func (noForge) Close(context.Context, string, int, string) error { return nil }

// noBlobs keeps nothing.
type noBlobs struct{}

func (noBlobs) Put(context.Context, string, []byte) (string, error) { return "", nil }
