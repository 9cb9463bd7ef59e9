package spec_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/steps"
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
	src, err := readFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return src
}

func readFile(path string) (spec.Source, error) {
	src, err := os.ReadFile(path)
	return spec.Source{Name: filepath.Base(path), Text: src}, err
}

// TestBuiltin lints the whole example of the language page with the step types that are shipped.
func TestBuiltin(t *testing.T) {
	t.Parallel()
	l := spec.New(steps.Builtin())
	files, diags := l.Lint([]spec.Source{read(t, "testdata/ok/quickstart.yaml")}, nil)
	if len(diags) > 0 {
		t.Fatal(strings.Join(diags.Strings(), "\n"))
	}
	if _, err := l.Compile(spec.NewDefinitions(files...), "checkout", spec.Request{Inputs: map[string]any{"version": "v1.0.0"}}); err != nil {
		t.Error(err)
	}
	for _, kind := range l.StepKinds() {
		text, ok := l.StepSchema(kind)
		if !ok {
			t.Fatalf("no schema for %s", kind)
		}
		compiled(t, text)
		if _, ok := l.Explain(kind); !ok {
			t.Errorf("no explanation of %s", kind)
		}
	}
	compiled(t, l.Schema())
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
	cases := map[string]struct {
		reason   string
		file     string
		pipeline string
		in       spec.Request
	}{
		"quickstart": {"the way of a release", "quickstart", "default/checkout", spec.Request{Inputs: map[string]any{"version": "v1.2.3"}}},
		"groups":     {"groups, folded edits, retries, strategies, defaults of inputs", "groups", "shop", spec.Request{}},
		"once":       {"changes once and per wave", "once", "default/shop", spec.Request{}},
		"only":       {"one target only: its wave remains, other stages are skipped", "quickstart", "checkout", spec.Request{Only: []string{"eu-west"}, Inputs: map[string]any{"version": "v2.0.0"}, Trigger: map[string]any{"type": "manual", "name": "by-hand"}}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := spec.New(types())
			f, diags := load(t, l, filepath.Join("testdata", "ok", tc.file+".yaml"))
			if diags.HasErrors() {
				t.Fatal(diags.Strings())
			}
			p, err := l.Compile(base(t, l).With(f), tc.pipeline, tc.in)
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			b, err := json.MarshalIndent(p, "", "  ")
			if err != nil {
				t.Fatal(err)
			}
			golden(t, filepath.Join("testdata", "plan", name+".json"), append(b, '\n'))
			again, err := l.Compile(base(t, l).With(f), tc.pipeline, tc.in)
			if err != nil {
				t.Fatal(err)
			}
			if h1, h2 := hash(t, p), hash(t, again); h1 != h2 {
				t.Errorf("two compilations differ: %s, %s", h1, h2)
			}
		})
	}
}

func hash(t *testing.T, p *plan.Plan) string {
	t.Helper()
	h, err := p.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func TestCompileErrors(t *testing.T) {
	t.Parallel()
	l := spec.New(types())
	f, _ := load(t, l, "testdata/ok/quickstart.yaml")
	g, _ := load(t, l, "testdata/ok/groups.yaml")
	all := base(t, l).With(f, g)
	good := map[string]any{"version": "v1.2.3"}
	cases := map[string]struct {
		reason   string
		defs     *spec.Definitions
		pipeline string
		in       spec.Request
		code     promo.Code
		want     string
	}{
		"Pipeline": {"unknown pipelines are named with the nearest", all, "chekout", spec.Request{}, promo.CodeNotFound, `did you mean "checkout"?`},
		"Project":  {"projects keep to themselves", all, "other/checkout", spec.Request{Inputs: good}, promo.CodeNotFound, `project "other" has no pipeline`},
		"Missing":  {"required inputs are required", all, "checkout", spec.Request{}, promo.CodeConfiguration, `input "version" is required`},
		"Pattern":  {"the whole value must match", all, "checkout", spec.Request{Inputs: map[string]any{"version": "v1.2.3-rc1"}}, promo.CodeConfiguration, "does not match"},
		"Unknown":  {"unknown inputs are errors", all, "checkout", spec.Request{Inputs: map[string]any{"versions": "v1.2.3"}}, promo.CodeConfiguration, `did you mean "version"?`},
		"Type":     {"inputs keep their type", all, "shop", spec.Request{Inputs: map[string]any{"n": "many"}}, promo.CodeConfiguration, "must be a number"},
		"Choice":   {"choices are closed", all, "shop", spec.Request{Inputs: map[string]any{"size": "xl"}}, promo.CodeConfiguration, "allowed are s, m"},
		"Target":   {"targets exist", all, "checkout", spec.Request{Inputs: good, Only: []string{"us-eats"}}, promo.CodeConfiguration, `did you mean "us-east"?`},
		"Changed":  {"what was taken away since the pipeline was applied", all.Without(spec.KindEnvironment, "default", "prod"), "checkout", spec.Request{Inputs: good}, promo.CodeConfiguration, `unknown environment "prod"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := l.Compile(tc.defs, tc.pipeline, tc.in)
			if err == nil || promo.CodeOf(err) != tc.code || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v (%s), want %q (%s)", tc.reason, err, promo.CodeOf(err), tc.want, tc.code)
			}
		})
	}
}

// TestNoSecretsNoYAML looks at the whole plan: names of secrets may be in it, and nothing of the connector.
func TestNoSecretsNoYAML(t *testing.T) {
	t.Parallel()
	l := spec.New(types())
	f, _ := load(t, l, "testdata/ok/quickstart.yaml")
	p, err := l.Compile(spec.NewDefinitions(f), "checkout", spec.Request{Inputs: map[string]any{"version": "v1.2.3"}})
	if err != nil {
		t.Fatal(err)
	}
	b, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	for _, never := range []string{"prom-token", "prometheus.monitoring", "apiVersion"} {
		if strings.Contains(string(b), never) {
			t.Errorf("plan holds %q", never)
		}
	}
}

// TestStored checks that a document's own text, kept by the store, means the same as the file it came from.
func TestStored(t *testing.T) {
	t.Parallel()
	l := spec.New(types())
	for _, path := range files(t, "ok/*.yaml") {
		f, _ := load(t, l, path)
		for _, doc := range f.Documents {
			again, diags := l.Parse("stored", []byte(doc.Text))
			if len(diags) > 0 || len(again.Documents) != 1 {
				t.Fatalf("%s, line %d: %d documents, %v\n%s", path, doc.Line, len(again.Documents), diags.Strings(), doc.Text)
			}
			if diff := cmp.Diff(string(doc.JSON), string(again.Documents[0].JSON)); diff != "" {
				t.Errorf("%s: %s", path, diff)
			}
		}
	}
}

func FuzzParse(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		file, diags := spec.New(types()).Parse("fuzz.yaml", src)
		inPlace(t, diags, src)
		for _, doc := range file.Documents {
			if doc.Line < 1 {
				t.Errorf("document in line %d", doc.Line)
			}
		}
	})
}

func FuzzCompile(f *testing.F) {
	seed(f)
	f.Fuzz(func(t *testing.T, src []byte) {
		l := spec.New(types())
		files, diags := l.Lint([]spec.Source{{Name: "fuzz.yaml", Text: src}}, nil)
		inPlace(t, diags, src)
		defs := spec.NewDefinitions(files...)
		for _, doc := range defs.Documents(spec.KindPipeline) {
			p, err := l.Compile(defs, doc.ID(), spec.Request{})
			if err != nil {
				continue
			}
			if _, err := p.Hash(); err != nil {
				t.Errorf("plan has no hash: %v", err)
			}
			for _, s := range p.Stages {
				if s.Prologue < 0 || s.Prologue > len(s.Nodes) {
					t.Errorf("prologue %d of %d nodes", s.Prologue, len(s.Nodes))
				}
			}
		}
	})
}

func seed(f *testing.F) {
	f.Helper()
	for _, pattern := range []string{"testdata/ok/*.yaml", "testdata/err/*.yaml"} {
		paths, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, path := range paths {
			src, err := os.ReadFile(path)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(src)
		}
	}
}

// inPlace demands that every problem lies inside the file and says something.
func inPlace(t *testing.T, diags spec.Diagnostics, src []byte) {
	t.Helper()
	lines := bytes.Count(src, []byte("\n")) + 1
	for _, d := range diags {
		if d.Line < 1 || d.Line > lines || d.Column < 1 || d.EndColumn <= d.Column || d.Msg == "" || d.Rule == "" {
			t.Errorf("out of place: %+v", d)
		}
		if d.Column > utf8.RuneCountInString(d.Source)+1 {
			t.Errorf("behind its line: %+v", d)
		}
	}
}
