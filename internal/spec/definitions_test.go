package spec_test

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
)

func TestDefinitions(t *testing.T) {
	t.Parallel()
	l := spec.New(types())
	defs := base(t, l)
	if s, ok := defs.Service("default", "shop"); !ok || s.Repository != "deploy" {
		t.Errorf("service: %+v, %v", s, ok)
	}
	if _, ok := defs.Service("other", "shop"); ok {
		t.Error("a project sees only its own")
	}
	if diff := cmp.Diff([]string{"dev", "prod"}, defs.Names(spec.KindEnvironment, "default")); diff != "" {
		t.Error(diff)
	}
	more, diags := l.Parse("more.yaml", []byte("apiVersion: davit.dev/v1alpha1\nkind: Environment\nmetadata: {name: dev}\nspec: {type: Production, targets: [{name: a, agent: a}]}\n"))
	if len(diags) > 0 {
		t.Fatal(diags.Strings())
	}
	after := defs.With(more)
	if e, ok := after.Environment("default", "dev"); !ok || e.Type != "Production" {
		t.Errorf("the newer document counts: %+v", e)
	}
	if e, _ := defs.Environment("default", "dev"); e.Type != "PreProduction" {
		t.Error("With must not change what it was called on")
	}
	if _, ok := after.Without(spec.KindEnvironment, "default", "dev").Environment("default", "dev"); ok {
		t.Error("Without must take it away")
	}
	if _, ok := after.Environment("default", "dev"); !ok {
		t.Error("Without must not change what it was called on")
	}
}

func TestOverlapWithApplied(t *testing.T) {
	t.Parallel()
	l := spec.New(types())
	src := spec.Source{Name: "a.yaml", Text: []byte("apiVersion: davit.dev/v1alpha1\nkind: Service\nmetadata: {name: aaa}\nspec: {repository: deploy, environments: {dev: {paths: [services/shop/dev]}}}\n")}
	_, diags := l.Lint([]spec.Source{src}, base(t, l))
	if len(diags) != 1 || diags[0].Rule != "owned-paths" || diags[0].File != "a.yaml" {
		t.Errorf("the file that comes is to blame, not what is applied: %v", diags.Strings())
	}
}

// TestChangeBreaksOthers applies an environment that lacks a target which an applied pipeline names.
func TestChangeBreaksOthers(t *testing.T) {
	t.Parallel()
	l := spec.New(types())
	f, diags := load(t, l, "testdata/ok/waves.yaml")
	if len(diags) > 0 {
		t.Fatal(diags.Strings())
	}
	applied := base(t, l).With(f)
	src := spec.Source{Name: "new.yaml", Text: []byte("apiVersion: davit.dev/v1alpha1\nkind: Environment\nmetadata: {name: prod}\nspec: {type: Production, targets: [{name: us, agent: us}]}\n")}
	_, diags = l.Lint([]spec.Source{src}, applied)
	if len(diags) != 1 || diags[0].File != "waves.yaml" || diags[0].Msg != `environment "prod" has no target "eu"` {
		t.Errorf("the pipeline that breaks is named: %v", diags.Strings())
	}
	gone := l.CheckChange(applied, applied.Without(spec.KindService, "default", "shop"))
	if len(gone) == 0 || gone[0].Rule != "reference" {
		t.Errorf("what refers to a deleted thing is named: %v", gone.Strings())
	}
	if same := l.CheckChange(applied, applied.With()); len(same) > 0 {
		t.Errorf("no change breaks nothing: %v", same.Strings())
	}
}

func TestBounds(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, src, rule string
	}{
		"Large":     {"a file has at most 1 MB", strings.Repeat("# comment\n", 120_000), "size"},
		"Deep":      {"nesting is bounded", "a: " + strings.Repeat("[", 100) + strings.Repeat("]", 100), "size"},
		"VeryDeep":  {"the YAML reader's own bound is an answer, too", "a: " + strings.Repeat("[", 200_000), "yaml"},
		"Binary":    {"text only", "kind: \xff\xfe", "yaml"},
		"Control":   {"control characters are no YAML", "kind: \x00", "yaml"},
		"Documents": {"documents are counted", strings.Repeat("---\n{}\n", 1_200), "size"},
		"Scalar":    {"a document is a map", "hello", "type"},
		"Loop":      {"an alias inside its own anchor ends", "a: &a [*a]", "size"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, diags := spec.New(types()).Parse("x.yaml", []byte(tc.src))
			if !slices.ContainsFunc(diags, func(d spec.Diagnostic) bool { return d.Rule == tc.rule }) {
				t.Errorf("%s: %d problems, %v", tc.reason, len(diags), diags.Strings()[:min(3, len(diags))])
			}
		})
	}
	if f, diags := spec.New(types()).Parse("empty.yaml", nil); len(diags) > 0 || len(f.Documents) > 0 {
		t.Errorf("an empty file is no problem: %v", diags)
	}
}

func TestDiagnosticsErr(t *testing.T) {
	t.Parallel()
	warning := spec.Diagnostic{File: "a", Line: 1, Column: 2, Msg: "odd", Warning: true}
	wrong := spec.Diagnostic{File: "a", Line: 3, Column: 4, EndColumn: 6, Msg: "wrong", Hint: "right", Rule: "value", Source: "\tk: v"}
	if err := (spec.Diagnostics{warning}).Err(); err != nil {
		t.Errorf("a warning is no error: %v", err)
	}
	err := (spec.Diagnostics{warning, wrong, wrong}).Err()
	var e *promo.Error
	if !errors.As(err, &e) || e.Code != promo.CodeConfiguration || e.Msg != "a:3:4: wrong: right (and 1 more problems)" {
		t.Errorf("got %v", err)
	}
	var out bytes.Buffer
	if err := (spec.Diagnostics{wrong}).Format(&out); err != nil {
		t.Fatal(err)
	}
	want := "a:3:4: wrong [value]\n  |  k: v\n  |    ^~\n  hint: right\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Error(diff)
	}
}
