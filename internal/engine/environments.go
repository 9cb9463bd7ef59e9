package engine

import (
	"context"
	"maps"
	"slices"
	"strings"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/internal/store"
)

// Environments knows what a service was in an environment, and what is held back from it.
type Environments struct{ *Engine }

// History lists the commits that were in an environment, newest first.
func (s Environments) History(ctx context.Context, _ promo.Principal, ref api.EnvironmentRef) ([]promo.KnownGood, error) {
	list, err := s.Store.History(ctx, ref.Project, ref.Service, ref.Environment, ref.Limit)
	if err != nil || len(list) > 0 {
		return list, err
	}
	v, err := s.Catalog.View(ctx)
	if err != nil {
		return nil, err
	}
	service, ok := v.Defs.Service(ref.Project, ref.Service)
	if !ok {
		return nil, promo.Errorf(promo.CodeNotFound, "project %q has no service %q", ref.Project, ref.Service)
	}
	if _, ok := service.Environments[ref.Environment]; !ok {
		return nil, promo.Errorf(promo.CodeNotFound, "service %q has no environment %q", ref.Service, ref.Environment)
	}
	return list, nil
}

// Pin marks a commit as known-good by hand, or takes the mark away.
func (s Environments) Pin(ctx context.Context, who promo.Principal, req api.PinRequest) error {
	action, mark := "environment:unpin", s.Store.Unpin
	if req.Pinned {
		action, mark = "environment:pin", s.Store.Pin
		var err error
		if req.Commit, err = s.commit(ctx, req); err != nil {
			return err
		}
	}
	if err := mark(ctx, req.Project, req.Service, req.Environment, req.Commit); err != nil {
		return err
	}
	return s.audit(ctx, who, deed{action, "environment", req.Service + "/" + req.Environment, req.Project}, req)
}

// commit returns the whole id of the commit that is to be pinned: one of the history by its beginning, or any that
// the service's branch has.
func (s Environments) commit(ctx context.Context, req api.PinRequest) (string, error) {
	known, err := s.Store.History(ctx, req.Project, req.Service, req.Environment, store.MaxLimit)
	if err != nil {
		return "", err
	}
	found := map[string]bool{}
	for _, k := range known {
		if strings.HasPrefix(k.Commit, req.Commit) && len(req.Commit) >= 7 {
			found[k.Commit] = true
		}
	}
	if len(found) == 1 {
		return slices.Collect(maps.Keys(found))[0], nil
	}
	v, err := s.Catalog.View(ctx)
	if err != nil {
		return "", err
	}
	service, ok := v.Defs.Service(req.Project, req.Service)
	if !ok {
		return "", promo.Errorf(promo.CodeNotFound, "project %q has no service %q", req.Project, req.Service)
	}
	repo, err := s.Repos.Repo(ctx, req.Project, service.Repository)
	if err != nil {
		return "", err
	}
	head, err := repo.Head(ctx, service.Branch)
	if err != nil {
		return "", err
	}
	rel, err := repo.Relation(ctx, req.Commit, head, nil)
	if err != nil || rel.Kind == git.Unrelated || rel.Kind == git.Ancestor {
		return "", promo.Errorf(promo.CodeNotFound, "commit %q is not on branch %q of repository %q", req.Commit, service.Branch, service.Repository).
			WithHint("name one of `davit history`, or the whole id of a commit on the branch")
	}
	return req.Commit, nil
}

// Holds lists what is held.
func (s Environments) Holds(ctx context.Context, _ promo.Principal, f api.EnvironmentRef) ([]promo.Hold, error) {
	all, err := s.Store.Holds(ctx, f.Project)
	if err != nil {
		return nil, err
	}
	var out []promo.Hold
	for _, h := range all {
		if (f.Service == "" || h.Service == f.Service) && (f.Environment == "" || h.Environment == f.Environment) {
			out = append(out, h)
		}
	}
	return out, nil
}

// Hold keeps automatic promotions out.
func (s Environments) Hold(ctx context.Context, who promo.Principal, req api.HoldRequest) (promo.Hold, error) {
	h := promo.Hold{Project: req.Project, Service: req.Service, Environment: req.Environment, Reason: req.Reason, By: who.Name, At: s.Now().UTC()}
	if err := s.Store.SetHold(ctx, h); err != nil {
		return promo.Hold{}, err
	}
	return h, s.audit(ctx, who, deed{"environment:hold", "environment", req.Service + "/" + req.Environment, req.Project}, req)
}

// Release lets automatic promotions in again and wakes those that wait.
func (s Environments) Release(ctx context.Context, who promo.Principal, req api.HoldRequest) error {
	was, err := s.Store.ReleaseHold(ctx, req.Project, req.Service, req.Environment)
	if err != nil {
		return err
	}
	if !was {
		return promo.Errorf(promo.CodeNotFound, "service %q is not held in environment %q", req.Service, req.Environment)
	}
	s.Wake(ctx, promo.EventHold(req.Project, req.Service, req.Environment))
	return s.audit(ctx, who, deed{"environment:release", "environment", req.Service + "/" + req.Environment, req.Project}, req)
}

// Fleet is what agents report, and who they are.
type Fleet interface {
	Agent(ctx context.Context, name string) (store.Agent, error)
	Presence(ctx context.Context, agent string) (contract.PresenceResult, error)
	Linked(ctx context.Context, project string, service plan.Service, environment string, target plan.Target) ([]promo.Application, error)
	Reported(ctx context.Context) []api.FleetEntry
}

// Applications answers pages and the CLI about the fleet and the lanes.
type Applications struct{ *Engine }

// Applications lists applications by agent, with the target and environment that they belong to.
func (s Applications) Applications(ctx context.Context, _ promo.Principal, f api.EnvironmentRef) ([]api.FleetEntry, error) {
	out := []api.FleetEntry{}
	for _, e := range s.Fleet.Reported(ctx) {
		if (f.Environment == "" || e.Environment == f.Environment) && (f.Service == "" || e.Service == f.Service) {
			out = append(out, e)
		}
	}
	return out, nil
}

// Lanes shows the holder and the queue of every lane of the project's services.
func (s Applications) Lanes(ctx context.Context, _ promo.Principal, f api.EnvironmentRef) ([]api.Lane, error) {
	v, err := s.Catalog.View(ctx)
	if err != nil {
		return nil, err
	}
	out := []api.Lane{}
	for _, doc := range v.Defs.Documents(spec.KindService) {
		svc, ok := doc.Spec.(*spec.ServiceSpec)
		if !ok || doc.Metadata.Project != f.Project || (f.Service != "" && f.Service != doc.Metadata.Name) {
			continue
		}
		for _, env := range slices.Sorted(maps.Keys(svc.Environments)) {
			if f.Environment != "" && f.Environment != env {
				continue
			}
			lane, err := s.lane(ctx, contract.LaneID{Project: f.Project, Service: doc.Metadata.Name, Environment: env})
			if err != nil {
				return nil, err
			}
			out = append(out, lane)
		}
	}
	return out, nil
}

// lane reads a lane's state; one that isn't running is free.
func (s Applications) lane(ctx context.Context, id contract.LaneID) (api.Lane, error) {
	out := api.Lane{Project: id.Project, Service: id.Service, Environment: id.Environment}
	alive, err := s.Alive(ctx, id.WorkflowID())
	if err != nil || !alive {
		return out, err
	}
	resp, err := s.Temporal.QueryWorkflow(ctx, id.WorkflowID(), "", contract.QueryState)
	if err != nil {
		return out, wireError(err)
	}
	var st contract.LaneState
	if err := resp.Get(&st); err != nil {
		return out, promo.Errorf(promo.CodeInternal, "state of lane %s: %w", id.WorkflowID(), err)
	}
	if st.Holder != nil {
		out.Holder = st.Holder.Label
	}
	for _, m := range st.Queue {
		out.Queue = append(out.Queue, m.Label)
	}
	return out, nil
}
