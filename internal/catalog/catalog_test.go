package catalog_test

import (
	"context"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/catalog"
	"github.com/davit-cd/davit/internal/policy"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/internal/store"
	"github.com/davit-cd/davit/internal/store/sqlite"
	"github.com/davit-cd/davit/steps"
)

// counted counts how often the store is read.
type counted struct {
	*sqlite.Store
	reads atomic.Int32
}

func (c *counted) Definitions(ctx context.Context, project string) ([]store.Definition, int64, error) {
	c.reads.Add(1)
	return c.Store.Definitions(ctx, project)
}

type world struct {
	t       *testing.T
	store   *counted
	catalog *catalog.Catalog
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s, err := sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(t.TempDir(), "davit.db")})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	c := &counted{Store: s}
	return &world{t: t, store: c, catalog: catalog.New(c, spec.New(steps.Builtin()))}
}

func (w *world) apply(defs ...store.Definition) {
	w.t.Helper()
	if _, err := w.store.ApplyDefinitions(w.t.Context(), defs, "ana", store.AnyGeneration); err != nil {
		w.t.Fatal(err)
	}
	w.catalog.Invalidate()
}

func (w *world) view() catalog.View {
	w.t.Helper()
	v, err := w.catalog.View(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	return v
}

func document(kind, project, name, file, body string) store.Definition {
	return store.Definition{
		Kind: kind, Project: project, Name: name, File: file,
		Source: []byte("apiVersion: davit.dev/v1alpha1\nkind: " + kind + "\nmetadata: {name: " + name + ", project: " + project + "}\nspec:\n" + body),
	}
}

func policySet(project, name, file, on, policies string) store.Definition {
	return document(spec.KindPolicySet, project, name, file, "  entity: pipeline\n  on: ["+on+"]\n  policies: ["+policies+"]\n")
}

func module(project, path, rego string) store.Definition {
	return store.Definition{Kind: catalog.KindModule, Project: project, Name: path, File: path, Source: []byte(rego)}
}

func repository(name string) store.Definition {
	return document(spec.KindRepository, "shop", name, "repo.yaml", "  provider: local\n")
}

func TestViewIsReadOncePerApply(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(repository("deploy"))
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if _, err := w.catalog.Repository(t.Context(), "shop", "deploy"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := w.store.reads.Load(); n != 1 {
		t.Errorf("20 questions read the store %d times", n)
	}
	first := w.view()
	w.apply(repository("other"))
	second := w.view()
	if n := w.store.reads.Load(); n != 2 || second.Generation <= first.Generation {
		t.Errorf("after an apply the store was read %d times; generation %d, was %d", n, second.Generation, first.Generation)
	}
	if _, ok := first.Defs.Repository("shop", "other"); ok {
		t.Error("a view changed under its holder")
	}
	if _, ok := second.Defs.Repository("shop", "other"); !ok {
		t.Error("what was applied is not there")
	}
}

func TestLookUps(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(repository("deploy"), document(spec.KindConnector, "shop", "prom", "c.yaml", "  type: prometheus\n  url: http://prometheus.example.com\n"))
	ctx := t.Context()
	if r, err := w.catalog.Repository(ctx, "shop", "deploy"); err != nil || r.Provider != "local" {
		t.Errorf("got %+v, %v", r, err)
	}
	if c, err := w.catalog.Connector(ctx, "shop", "prom"); err != nil || c.Type != "prometheus" {
		t.Errorf("got %+v, %v", c, err)
	}
	for name, err := range map[string]error{
		"no repository":                second(w.catalog.Repository(ctx, "shop", "none")),
		"another project's repository": second(w.catalog.Repository(ctx, "bank", "deploy")),
		"no connector":                 second(w.catalog.Connector(ctx, "shop", "none")),
		"a repository is no connector": second(w.catalog.Connector(ctx, "shop", "deploy")),
		"another project's connector":  second(w.catalog.Connector(ctx, "bank", "prom")),
	} {
		if err == nil || promo.CodeOf(err) != promo.CodeConfiguration {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

func second[T any](_ T, err error) error { return err }

func names(sets []policy.Set) []string {
	out := []string{}
	for _, s := range sets {
		out = append(out, s.Name)
	}
	return out
}

func TestPolicySets(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(
		policySet("shop", "a-save", "a.yaml", "save", `{rego: "package a"}`),
		policySet("shop", "b-both", "b.yaml", "run, save", `{rego: "package b", action: warn}`),
		policySet("shop", "c-step", "c.yaml", "step", `{rego: "package c"}`),
		policySet("bank", "d-save", "d.yaml", "save", `{rego: "package d"}`),
	)
	v := w.view()
	cases := map[string]struct {
		reason string
		names  []string
		on     policy.On
		want   []string
		code   promo.Code
	}{
		"of an event":    {"those of the project that are for it", nil, policy.OnSave, []string{"a-save", "b-both"}, ""},
		"another event":  {"", nil, policy.OnRun, []string{"b-both"}, ""},
		"no set":         {"nothing is for it", nil, policy.OnRollback, []string{}, ""},
		"by name":        {"whatever the events, in the order named", []string{"c-step", "a-save"}, policy.OnRun, []string{"c-step", "a-save"}, ""},
		"unknown":        {"a gate that is gone must not open", []string{"a-save", "gone"}, policy.OnStep, []string{}, promo.CodeConfiguration},
		"of another one": {"names are the project's", []string{"d-save"}, policy.OnStep, []string{}, promo.CodeConfiguration},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := v.PolicySets("shop", tc.names, tc.on)
			if (tc.code != "") != (err != nil) || err != nil && promo.CodeOf(err) != tc.code {
				t.Fatalf("%s: got error %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, names(got)); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
	got, err := v.PolicySets("shop", nil, policy.OnRun)
	if err != nil {
		t.Fatal(err)
	}
	want := []policy.Set{{
		Name: "b-both", Project: "shop", Entity: "pipeline", On: []policy.On{policy.OnRun, policy.OnSave},
		Policies: []policy.Policy{{Rego: "package b", Action: policy.ActionWarn}},
	}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	got, err = v.PolicySets("shop", []string{"a-save"}, "")
	if err != nil || got[0].Policies[0].Action != policy.ActionDeny {
		t.Errorf("without a word a denial denies: got %+v, %v", got, err)
	}
}

func TestModulesAreRelativeToTheirDocument(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(
		policySet("shop", "deep", "ci/gates/deep.yaml", "save", "{module: rego/x.rego}"),
		policySet("shop", "root", "root.yaml", "run", "{module: rego/x.rego}"),
		policySet("shop", "up", "ci/gates/up.yaml", "step", "{module: ../y.rego}"),
		policySet("bank", "same", "root.yaml", "run", "{module: rego/x.rego}"),
		module("shop", "ci/gates/rego/x.rego", "package deep"), module("shop", "rego/x.rego", "package root"),
		module("shop", "ci/y.rego", "package up"), module("bank", "rego/x.rego", "package bank"),
	)
	for on, want := range map[policy.On]string{policy.OnSave: "package deep", policy.OnRun: "package root", policy.OnStep: "package up"} {
		sets, err := w.view().PolicySets("shop", nil, on)
		if err != nil || len(sets) != 1 || sets[0].Policies[0].Rego != want {
			t.Errorf("%s: got %+v, %v, want %q", on, sets, err, want)
		}
	}
	sets, err := w.view().PolicySets("bank", nil, policy.OnRun)
	if err != nil || sets[0].Policies[0].Rego != "package bank" {
		t.Errorf("another project's file of the same path: got %+v, %v", sets, err)
	}
}

func TestMissingModuleFailsClosed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(
		policySet("shop", "lost", "a.yaml", "run", "{module: gone.rego}"), policySet("shop", "fine", "a.yaml", "save", `{rego: "package f"}`),
		module("bank", "gone.rego", "package other"),
	)
	for name, got := range map[string]error{
		"by event": second(w.view().PolicySets("shop", nil, policy.OnRun)),
		"by name":  second(w.view().PolicySets("shop", []string{"lost"}, policy.OnStep)),
	} {
		if got == nil || promo.CodeOf(got) != promo.CodeConfiguration || !strings.Contains(got.Error(), "gone.rego") {
			t.Errorf("%s: got %v", name, got)
		}
	}
	if sets, err := w.view().PolicySets("shop", nil, policy.OnSave); err != nil || len(sets) != 1 {
		t.Errorf("other events are not concerned: got %v, %v", sets, err)
	}
}

func TestUnreadableDefinitions(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(
		repository("deploy"), document(spec.KindService, "shop", "old", "s.yaml", "  sortOf: old\n"),
		policySet("bank", "fine", "p.yaml", "save", `{rego: "package f"}`),
	)
	if _, err := w.catalog.Repository(t.Context(), "shop", "deploy"); err != nil {
		t.Errorf("one document that a newer Davit does not take stops the others: %v", err)
	}
	if sets, err := w.view().PolicySets("shop", nil, policy.OnSave); err != nil || len(sets) != 0 {
		t.Errorf("a service is no gate: got %v, %v", sets, err)
	}
	w.apply(document(spec.KindPolicySet, "shop", "gate", "g.yaml", "  entity: sortOf\n  on: [save]\n  policies: [{rego: \"package g\"}]\n"))
	v := w.view()
	for name, got := range map[string]error{
		"by event": second(v.PolicySets("shop", nil, policy.OnSave)), "by name": second(v.PolicySets("shop", []string{"gate"}, policy.OnStep)),
	} {
		if got == nil || promo.CodeOf(got) != promo.CodeConfiguration || !strings.Contains(got.Error(), `"gate"`) {
			t.Errorf("a gate that can't be read is open, %s: %v", name, got)
		}
	}
	if sets, err := v.PolicySets("bank", nil, policy.OnSave); err != nil || len(sets) != 1 {
		t.Errorf("another project is concerned: got %v, %v", sets, err)
	}
	lang := spec.New(steps.Builtin())
	fixed := policySet("shop", "gate", "g.yaml", "save", `{rego: "package g"}`)
	f, diags := lang.Parse("g.yaml", fixed.Source)
	if diags.HasErrors() {
		t.Fatal(diags)
	}
	if sets, err := v.With("shop", []*spec.File{f}, nil).PolicySets("shop", nil, policy.OnSave); err != nil || len(sets) != 1 {
		t.Errorf("with its repair: got %v, %v", sets, err)
	}
	if err := second(v.With("shop", nil, nil).PolicySets("shop", nil, policy.OnSave)); err == nil {
		t.Error("without its repair the gate is open")
	}
}

func TestWith(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.apply(policySet("shop", "s", "a/s.yaml", "save", "{module: x.rego}"), module("shop", "a/x.rego", "package old"), module("bank", "a/x.rego", "package bank"))
	v := w.view()
	next := v.With("shop", nil, map[string][]byte{"a/x.rego": []byte("package new")})
	for want, view := range map[string]catalog.View{"package old": v, "package new": next} {
		sets, err := view.PolicySets("shop", nil, policy.OnSave)
		if err != nil || sets[0].Policies[0].Rego != want {
			t.Errorf("got %+v, %v, want %q", sets, err, want)
		}
	}
	if string(next.Modules["bank/a/x.rego"]) != "package bank" {
		t.Error("another project's module changed")
	}
}
