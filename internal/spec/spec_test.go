package spec_test

import (
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/spec"
)

var update = flag.Bool("update", false, "write the golden files anew")

// load parses and checks one file.
func load(t *testing.T, l *spec.Language, path string) (*spec.File, spec.Diagnostics) {
	t.Helper()
	src, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	f, diags := l.Parse(filepath.Base(path), src)
	if !diags.HasErrors() {
		diags = append(diags, l.Check([]*spec.File{f}, nil)...)
	}
	return f, diags
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
