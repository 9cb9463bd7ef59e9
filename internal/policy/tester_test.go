package policy

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
)

// TestShippedPolicies runs the tests of everything that ships, and demands that they reach all of it.
func TestShippedPolicies(t *testing.T) {
	t.Parallel()
	for _, dir := range []string{"../../policies/guardrails", "../../policies/access"} {
		r, err := Test(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		for _, test := range r.Tests {
			if test.Status != StatusPass {
				t.Errorf("%s:%d: %s: %s %s", test.File, test.Line, test.Name, test.Status, test.Message)
			}
		}
		if !r.OK() || r.Coverage.Percent != 100 {
			t.Errorf("%s: %d passed, coverage %.1f %%, missing %v", dir, r.Passed, r.Coverage.Percent, r.Coverage.Missing)
		}
	}
}

// TestGuardrailsDecide: the shipped examples compile under the restrictions of policy sets.
func TestGuardrailsDecide(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../policies/guardrails/*.rego")
	if err != nil || len(files) < 10 {
		t.Fatalf("found %v, %v", files, err)
	}
	for _, f := range files {
		if strings.HasSuffix(f, "_test.rego") {
			continue
		}
		if m := load(t, f); !m.Decides() {
			t.Errorf("%s has no deny or warn rule", f)
		}
	}
}

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func TestTest(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{
		"a/p.rego": "package p\ndeny[\"x\"] { input.a }\nwarn[\"y\"] { input.b }\n",
		"a/p_test.rego": `package p_test
test_good if count(data.p.deny) == 1 with input as {"a": true}
test_bad if {
	print("seen", data.p.deny)
	count(data.p.deny) == 7 with input as {"a": true}
}
todo_test_later if false
test_broken if 1 / 0 == 1
test_cases[name] if {
	some name, want in {"one": 1, "two": 2}
	count(data.p.deny) == want with input as {"a": true}
}
`,
		"b/old_test.rego": "package old\ntest_v0 { true }\n",
		"README.md":       "not a module",
	})
	if err := os.Symlink("/etc", filepath.Join(dir, "link.rego")); err != nil {
		t.Fatal(err)
	}
	r, err := Test(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	type line struct {
		File, Name string
		Line       int
		Status     Status
		Message    string
	}
	var got []line
	for _, test := range r.Tests {
		rel, err := filepath.Rel(dir, test.File)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, line{rel, test.Name, test.Line, test.Status, strings.ReplaceAll(test.Message, dir+"/", "")})
	}
	want := []line{
		{"a/p_test.rego", "test_good", 2, StatusPass, ""},
		{"a/p_test.rego", "test_bad", 3, StatusFail, "the rule is not true"},
		{"a/p_test.rego", "todo_test_later", 7, StatusSkip, ""},
		{"a/p_test.rego", "test_broken", 8, StatusError, "a/p_test.rego:8: div: divide by zero"},
		{"a/p_test.rego", "test_cases", 9, StatusFail, "cases failed: two"},
		{"b/old_test.rego", "test_v0", 2, StatusPass, ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if r.Passed != 2 || r.Failed != 3 || r.Skipped != 1 || r.OK() {
		t.Errorf("got %+v", r)
	}
	if !strings.Contains(r.Tests[1].Output, "seen") {
		t.Errorf("print() is lost: %q", r.Tests[1].Output)
	}
	if missing := r.Coverage.Missing; r.Coverage.Percent >= 100 || len(missing) != 1 || missing[0].From != 3 {
		t.Errorf("want line 3 uncovered, got %+v", r.Coverage)
	}
}

func TestTestRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		files  map[string]string
		code   promo.Code
		want   []string
	}{
		"nothing":           {"no test passed is no success", map[string]string{"x.txt": ""}, promo.CodeNotFound, []string{"no .rego file"}},
		"two broken files":  {"both are named", map[string]string{"a.rego": "package a\nx {", "b.rego": "package b\nx := 'a'"}, promo.CodeConfiguration, []string{"a.rego:2", "b.rego:2", "double quotes"}},
		"compile error":     {"with its file", map[string]string{"a.rego": "package a\nx := 1", "b.rego": "package b\ndeny if y"}, promo.CodeConfiguration, []string{"b.rego:2:9: var y is unsafe"}},
		"forbidden builtin": {"the same rules as in a policy set", map[string]string{"a_test.rego": "package a\ntest_x if http.send({})"}, promo.CodeConfiguration, []string{"undefined function http.send"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Test(t.Context(), write(t, tc.files))
			if promo.CodeOf(err) != tc.code {
				t.Errorf("%s: got %v", tc.reason, err)
			}
			for _, want := range tc.want {
				if err == nil || !strings.Contains(err.Error(), want) {
					t.Errorf("%s: want %q in %v", tc.reason, want, err)
				}
			}
		})
	}
	if _, err := Test(t.Context(), filepath.Join(t.TempDir(), "absent")); promo.CodeOf(err) != promo.CodeNotFound {
		t.Errorf("got %v", err)
	}
	if _, err := Test(t.Context(), write(t, map[string]string{"f": ""})+"/f"); promo.CodeOf(err) != promo.CodeConfiguration {
		t.Errorf("got %v", err)
	}
}

func TestEvalFile(t *testing.T) {
	t.Parallel()
	dir := write(t, map[string]string{"p.rego": "package p\ndeny[\"x\"] { input.a }", "in.json": `{"a": true}`, "bad.json": "{"})
	p := func(name string) string { return filepath.Join(dir, name) }
	got, err := EvalFile(t.Context(), p("p.rego"), p("in.json"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(Result{Deny: []string{"x"}, Warn: []string{}}, got); diff != "" {
		t.Error(diff)
	}
	for name, tc := range map[string]struct {
		module, input string
		code          promo.Code
	}{
		"no module": {"q.rego", "in.json", promo.CodeNotFound}, "no input": {"p.rego", "q.json", promo.CodeNotFound},
		"bad input": {"p.rego", "bad.json", promo.CodeConfiguration}, "a directory": {"p.rego", ".", promo.CodeConfiguration},
	} {
		if _, err := EvalFile(t.Context(), p(tc.module), p(tc.input)); promo.CodeOf(err) != tc.code {
			t.Errorf("%s: want %s, got %v", name, tc.code, err)
		}
	}
}
