package knowngood_test

import (
	"context"
	"testing"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/knowngood"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/testkit/gitserver"
	"github.com/davit-cd/davit/internal/testkit/releases"
)

// world is a Keeper over a real repository, forge and store.
type world struct {
	*releases.World
	t      *testing.T
	repo   *gitserver.Repo
	keeper *knowngood.Keeper
	fleet  fleet
}

// fleet is what agents report, by target.
type fleet map[string][]promo.Application

func (f fleet) Linked(_ context.Context, _ string, _ plan.Service, _ string, t plan.Target) ([]promo.Application, error) {
	return f[t.Name], nil
}

func files() map[string]string {
	return map[string]string{
		"prod/values.yaml": "all: 1\n", "prod/us/values.yaml": "us: 1\n", "prod/eu/values.yaml": "eu: 1\n",
		"qa/values.yaml": "qa: 1\n", "base/common.yaml": "common: 1\n", "README.md": "hello\n",
	}
}

func newWorld(t *testing.T, protection *forge.Protection) *world {
	t.Helper()
	w := &world{World: releases.New(t), t: t, fleet: fleet{}}
	w.repo = w.Create("deploy", files(), protection)
	w.keeper = &knowngood.Keeper{Repos: w.Repos, History: w.Store, Fleet: w.fleet, Forge: w.Repos, Log: w.Log}
	return w
}

func service() plan.Service {
	return plan.Service{
		Name: "checkout", Branch: "main", Shared: []string{"base"}, Owned: map[string][]string{"prod": {"prod"}, "qa": {"qa"}},
	}
}

// promote commits as Davit does.
func (w *world) promote(operation string, files map[string]string) string {
	w.t.Helper()
	return w.Change("deploy", "main", "", operation, files)
}

// other commits as somebody else does.
func (w *world) other(message string, files map[string]string) string {
	w.t.Helper()
	return w.repo.Commit("main", message, gitserver.Text(files))
}

func (w *world) mark(commit, promotion string, synced map[string]string) knowngood.MarkResult {
	w.t.Helper()
	res, err := w.keeper.Mark(w.t.Context(), w.markRequest(commit, promotion, synced))
	if err != nil {
		w.t.Fatal(err)
	}
	return res
}

func (w *world) markRequest(commit, promotion string, synced map[string]string) knowngood.MarkRequest {
	return knowngood.MarkRequest{
		Entry:   promo.KnownGood{Project: "shop", Service: "checkout", Environment: "prod", Commit: commit, Promotion: promotion, Version: "v-" + promotion, KnownGood: true},
		Service: service(), Repository: releases.Repository("deploy"), Synced: synced,
	}
}

func (w *world) history() []promo.KnownGood {
	w.t.Helper()
	list, err := w.Store.History(w.t.Context(), "shop", "checkout", "prod", 0)
	if err != nil {
		w.t.Fatal(err)
	}
	return list
}

func (w *world) target(to, not string) knowngood.Target {
	return knowngood.Target{
		Project: "shop", Service: service(), Repository: releases.Repository("deploy"), Environment: "prod", To: to, Not: not,
	}
}

func (w *world) preview(t knowngood.Target) promo.Preview {
	w.t.Helper()
	p, err := w.keeper.Preview(w.t.Context(), t)
	if err != nil {
		w.t.Fatal(err)
	}
	return p
}

func everywhere(commit string) map[string]string {
	return map[string]string{"us": commit, "eu": commit}
}
