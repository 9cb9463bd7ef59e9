package app

import (
	"context"
	"time"

	"github.com/davit-cd/davit/internal/metrics"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
	"github.com/davit-cd/davit/internal/store/sqlite"
	"github.com/davit-cd/davit/steps"
)

// maxActive bounds what a scrape reads of promotions that are under way.
const maxActive = 1000

func (a *App) openMetrics(context.Context) error {
	var types []string
	for _, t := range steps.Builtin() {
		types = append(types, t.Kind)
	}
	a.counts = metrics.New(a.metrics, types)
	metrics.Observe(a.metrics, metrics.Sources{Active: a.activePhases, Connected: a.connectedAgents})
	return nil
}

func (a *App) activePhases(ctx context.Context) ([]promo.Phase, error) {
	list, err := a.store.Promotions(ctx, store.PromotionFilter{Active: true, Limit: maxActive})
	phases := make([]promo.Phase, len(list))
	for i, p := range list {
		phases[i] = p.Phase
	}
	return phases, err
}

func (a *App) connectedAgents() int {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(a.ready.context()), wakeTime)
	defer cancel()
	list, err := a.registry.List(ctx)
	if err != nil {
		return 0 // the gauge of promotions fails the scrape then
	}
	n := 0
	for _, g := range list {
		if p, ok := a.fleet.view.Connected(g.Name); ok && p.Connected {
			n++
		}
	}
	return n
}

// recorder counts what is recorded.
type recorder struct {
	*sqlite.Store
	counts *metrics.Metrics
}

// RecordPromotion keeps a promotion's state and counts what it adds.
func (r recorder) RecordPromotion(ctx context.Context, p promo.Promotion) error {
	var before *promo.Promotion
	if b, err := r.Promotion(ctx, p.ID); err == nil {
		before = &b
	}
	if err := r.Store.RecordPromotion(ctx, p); err != nil {
		return err
	}
	r.counts.Promotion(before, p)
	return nil
}

// meteredGit counts changes.
type meteredGit struct {
	steps.Git
	counts *metrics.Metrics
}

// Change brings a change to a repository.
func (m meteredGit) Change(ctx context.Context, req steps.GitChange) (steps.GitResult, error) {
	start := time.Now()
	got, err := m.Git.Change(ctx, req)
	m.counts.Push(time.Since(start), err)
	return got, err
}
