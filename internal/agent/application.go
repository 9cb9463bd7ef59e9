package agent

import (
	"context"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// maxDiff bounds the diffs of one answer in bytes: histories take 2 MiB at most.
const maxDiff = 512 << 10

// registerApplications offers what the server asks about single applications outside of steps.
func (a *Agent) registerApplications(r contract.Registry) {
	contract.Diff.Register(r, func(ctx context.Context, req contract.DiffRequest) (contract.DiffResult, error) {
		out, err := a.diff(ctx, req)
		return out, contract.Wire(err)
	})
	contract.Refresh.Register(r, func(ctx context.Context, req contract.RefreshRequest) (contract.Nothing, error) {
		return contract.Nothing{}, contract.Wire(a.engineFor(req.AppRequest).Refresh(ctx, req.Application, req.Hard))
	})
}

// engineFor is the engine as this request may use it.
func (a *Agent) engineFor(req contract.AppRequest) guarded {
	call := plan.Call{Run: plan.RunInfo{Project: req.Project}, Stage: plan.StageInfo{
		Service: plan.Service{Name: req.Service}, Environment: &plan.Environment{Name: req.Environment},
	}}
	return guarded{Engine: a.o.Engine, guard: a.guard, call: call}
}

func (a *Agent) diff(ctx context.Context, req contract.DiffRequest) (contract.DiffResult, error) {
	e := a.engineFor(req.AppRequest)
	if err := e.allowed(ctx, req.Application); err != nil {
		return contract.DiffResult{}, err
	}
	all, err := e.Diff(ctx, req.Application, req.Revision)
	if err != nil {
		return contract.DiffResult{}, err
	}
	return bounded(all), nil
}

// bounded cuts diffs so that all together fit; what is cut still names its object.
func bounded(all []promo.ResourceDiff) contract.DiffResult {
	const maxObjects = 1000 // with some 200 bytes each beside the diff
	out := contract.DiffResult{Truncated: len(all) > maxObjects}
	left := maxDiff
	for _, d := range all[:min(len(all), maxObjects)] {
		if len(d.Unified) > left {
			d.Unified, out.Truncated = "", true
		}
		left -= len(d.Unified)
		out.Resources = append(out.Resources, d)
	}
	return out
}
