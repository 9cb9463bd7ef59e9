package spec_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/spec"
)

var update = flag.Bool("update", false, "write the golden files anew")

// load lints one file against testdata/base.yaml.
func load(t *testing.T, l *spec.Language, path string) (*spec.File, spec.Diagnostics) {
	t.Helper()
	files, diags := l.Lint([]spec.Source{read(t, path)}, base(t, l))
	return files[0], diags
}

func read(t *testing.T, path string) spec.Source {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return spec.Source{Name: filepath.Base(path), Text: src}
}

// base is what the files of testdata refer to.
func base(t *testing.T, l *spec.Language) *spec.Definitions {
	t.Helper()
	files, diags := l.Lint([]spec.Source{read(t, "testdata/base.yaml")}, nil)
	if len(diags) > 0 {
		t.Fatal(diags.Strings())
	}
	return spec.NewDefinitions(files...)
}

func files(t *testing.T, pattern string) []string {
	t.Helper()
	out, err := filepath.Glob(filepath.Join("testdata", pattern))
	if err != nil || len(out) == 0 {
		t.Fatalf("no files for %q: %v", pattern, err)
	}
	return out
}

func TestOK(t *testing.T) {
	t.Parallel()
	for _, path := range files(t, "ok/*.yaml") {
		t.Run(filepath.Base(path), func(t *testing.T) {
			t.Parallel()
			if _, diags := load(t, spec.New(types()), path); len(diags) > 0 {
				t.Errorf("must be silent:\n%s", strings.Join(diags.Strings(), "\n"))
			}
		})
	}
}

func TestErr(t *testing.T) {
	t.Parallel()
	for _, path := range files(t, "err/*.yaml") {
		rule := strings.TrimSuffix(filepath.Base(path), ".yaml")
		t.Run(rule, func(t *testing.T) {
			t.Parallel()
			_, diags := load(t, spec.New(types()), path)
			var out strings.Builder
			if err := diags.Format(&out); err != nil {
				t.Fatal(err)
			}
			golden(t, strings.TrimSuffix(path, ".yaml")+".out", []byte(out.String()))
			if !slices.ContainsFunc(diags, func(d spec.Diagnostic) bool { return d.Rule == rule }) {
				t.Errorf("rule %q is not broken by its file", rule)
			}
			for _, d := range diags {
				if d.Line < 1 || d.Column < 1 || d.EndColumn <= d.Column || d.Msg == "" || d.Rule == "" {
					t.Errorf("diagnostic out of place: %+v", d)
				}
			}
		})
	}
}

// TestRules demands a pair of files for every rule, and a rule for every file.
func TestRules(t *testing.T) {
	t.Parallel()
	var rules []string
	for _, r := range spec.Rules() {
		rules = append(rules, r.Name)
		for _, path := range []string{"testdata/ok/" + r.Name + ".yaml", "testdata/err/" + r.Name + ".yaml"} {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("rule %q has no %s", r.Name, path)
			}
		}
	}
	for _, path := range files(t, "err/*.yaml") {
		_, diags := load(t, spec.New(types()), path)
		for _, d := range diags {
			if !slices.Contains(rules, d.Rule) {
				t.Errorf("%s: rule %q is not in Rules", path, d.Rule)
			}
		}
	}
}

// golden compares with a file, which -update writes anew.
func golden(t *testing.T, path string, got []byte) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, got, 0o600); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (go test ./internal/spec -update writes it)", err)
	}
	if diff := cmp.Diff(string(want), string(got)); diff != "" {
		t.Errorf("%s (go test ./internal/spec -update writes it anew):\n%s", path, diff)
	}
}

func TestPlans(t *testing.T) {
	t.Parallel()
	inputs := map[string]map[string]any{"quickstart": {"version": "v1.2.3"}}
	for name, in := range inputs {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := spec.New(types())
			f, diags := load(t, l, filepath.Join("testdata", "ok", name+".yaml"))
			if diags.HasErrors() {
				t.Fatal(diags.Strings())
			}
			p, err := l.Compile(spec.NewDefinitions(f), "default/checkout", spec.Request{Inputs: in})
			if err != nil {
				t.Fatal(err)
			}
			b, err := json.MarshalIndent(p, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "plan", name+".json"), append(b, '\n'))
		})
	}
}
