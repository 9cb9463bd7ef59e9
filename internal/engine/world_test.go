package engine_test

import (
	"context"
	"io/fs"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/davit-cd/davit/examples"
	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/catalog"
	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/engine"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/policy"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/internal/store"
	"github.com/davit-cd/davit/internal/testkit/releases"
	"github.com/davit-cd/davit/steps"
)

// world is an engine over a real store, forge and mirrors. No workflow runs in it.
type world struct {
	*releases.World
	t      *testing.T
	engine *engine.Engine
	defs   engine.Definitions
	fleet  *fleet
	authz  *authz
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{World: releases.New(t), t: t, fleet: &fleet{agents: map[string]store.Agent{}}, authz: &authz{}}
	lang := spec.New(steps.Builtin())
	w.engine = &engine.Engine{
		Store: w.Store, Catalog: catalog.New(w.Store, lang), Lang: lang, Repos: w.Repos, Fleet: w.fleet, Hosts: w.Forge,
		Policy: policy.NewEngine(nil, time.Now, slog.New(slog.DiscardHandler)), Authz: w.authz, Types: steps.Builtin(),
		URL: "https://davit.example.com", Log: w.Log, Now: time.Now,
	}
	w.defs = engine.Definitions{Engine: w.engine}
	return w
}

// fleet is what agents report.
type fleet struct {
	agents map[string]store.Agent
	apps   []promo.Application
	down   string // the agent that is not connected
}

func (f *fleet) Agent(_ context.Context, name string) (store.Agent, error) {
	a, ok := f.agents[name]
	if !ok {
		return a, promo.Errorf(promo.CodeNotFound, "no agent %q", name)
	}
	return a, nil
}

func (f *fleet) Presence(context.Context, string) (contract.PresenceResult, error) {
	return contract.PresenceResult{}, nil
}

func (f *fleet) Linked(_ context.Context, _ string, _ plan.Service, _ string, t plan.Target) ([]promo.Application, error) {
	if t.Agent == f.down {
		return nil, promo.Errorf(promo.CodeConnectivity, "agent %q is not connected", t.Agent)
	}
	var out []promo.Application
	for _, a := range f.apps {
		if a.Agent == t.Agent {
			out = append(out, a)
		}
	}
	return out, nil
}

func (f *fleet) Reported(context.Context) []api.FleetEntry { return nil }

// authz refuses the actions named.
type authz struct{ refused []auth.Action }

func (a *authz) Authorize(_ context.Context, who promo.Principal, action auth.Action, _ auth.Resource) error {
	if slices.Contains(a.refused, action) {
		return promo.Errorf(promo.CodeAuthorization, "%q lacks %s", who.Name, action)
	}
	return nil
}

func ana() promo.Principal { return promo.Principal{Name: "ana", Groups: []string{"devs"}} }

func (w *world) apply(files map[string]string) (api.ApplyResult, error) {
	w.t.Helper()
	return w.defs.Apply(w.t.Context(), ana(), request(files))
}

func request(files map[string]string) api.ApplyRequest {
	req := api.ApplyRequest{Project: spec.DefaultProject}
	for p, d := range files {
		req.Files = append(req.Files, api.File{Path: p, Content: d})
	}
	return req
}

func (w *world) mustApply(files map[string]string) api.ApplyResult {
	w.t.Helper()
	res, err := w.apply(files)
	if err != nil {
		w.t.Fatalf("%v\n%s", err, strings.Join(diagnostics(err), "\n"))
	}
	return res
}

func (w *world) generation() int64 {
	w.t.Helper()
	_, g, err := w.Store.Definitions(w.t.Context(), "")
	if err != nil {
		w.t.Fatal(err)
	}
	return g
}

func (w *world) audit() []string {
	w.t.Helper()
	list, err := w.Store.Audit(w.t.Context(), store.AuditFilter{})
	if err != nil {
		w.t.Fatal(err)
	}
	var out []string
	for _, e := range list {
		out = append(out, e.Who+" "+e.Action+" "+e.Subject)
	}
	return out
}

// quickstart reads a folder of the example by path.
func quickstart(t *testing.T, dir string) map[string]string {
	t.Helper()
	out := map[string]string{}
	root := "quickstart/" + dir
	err := fs.WalkDir(examples.Quickstart, root, func(p string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			return err
		}
		b, err := examples.Quickstart.ReadFile(p)
		out[strings.TrimPrefix(p, root+"/")] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}
