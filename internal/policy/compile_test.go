package policy

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
)

func TestCompileDialect(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		source string
		want   Dialect
	}{
		"v1 keywords":       {"parses as v1", "package a\ndeny contains \"x\" if input.a", DialectV1},
		"v0 body":           {"only v0 takes a body without if", "package a\ndeny[\"x\"] { input.a }", DialectV0},
		"import rego.v1":    {"the import says so", "package a\nimport rego.v1\ndeny if input.a", DialectV1},
		"future, v1 style":  {"all its rules are v1", "package a\nimport future.keywords.if\ndeny if input.a", DialectV1},
		"future, v0 style":  {"the import alone makes no v1 of it", "package a\nimport future.keywords.in\ndeny { 1 in input.a }", DialectV0},
		"comment v0":        {"the comment wins over what would parse", "# rego: v0\npackage a\nx := 1", DialectV0},
		"comment v1":        {"the comment wins", "# rego: v1\npackage a\ndeny if input.a", DialectV1},
		"comment elsewhere": {"only the first line counts", "package a\n# rego: v0\ndeny if input.a", DialectV1},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := compile(t, "a.rego", tc.source).Dialect; got != tc.want {
				t.Errorf("%s: want %s, got %s", tc.reason, tc.want, got)
			}
		})
	}
}

func TestCompileErrors(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		source string
		want   Problem // Message: a part of it
		hint   string  // a part of it
	}{
		"single quotes": {
			"E7 as printed", "package pipeline\ndeny[msg] {\n  input.x == 'Deployment'\n}",
			Problem{"p.rego", 3, 14, "illegal token"},
			"double quotes",
		},
		"unsafe msg": {
			"E7 with quotes mended, msg never bound", "package pipeline\ndeny[msg] {\n  input.x == \"Deployment\"\n}",
			Problem{"p.rego", 2, 6, "var msg is unsafe"},
			"give the variable a value",
		},
		"curly quotes": {
			"as pasted from a document", "package pipeline\ndeny[msg] {\n  msg := “no”\n}",
			Problem{"p.rego", 3, 10, "illegal token"},
			"curly quotes",
		},
		"unknown function": {"a typo", "package a\ndeny if cuont(input) > 1", Problem{"p.rego", 2, 9, "undefined function cuont"}, ""},
		"v1 forced on v0":  {"the comment decides", "# rego: v1\npackage a\ndeny[\"x\"] { input.a }", Problem{"p.rego", 3, 1, "`if` keyword is required"}, ""},
		"v0 forced on v1":  {"the comment decides", "# rego: v0\npackage a\ndeny if input.a", Problem{"p.rego", 3, 1, "var cannot be used for rule name"}, ""},
		"v1 further":       {"the error of the dialect that was meant", "package a\ndeny contains \"x\" if input.a\ndeny contains \"y\" if {", Problem{"p.rego", 3, 22, "unexpected"}, ""},
		"recursion":        {"loops of rules", "package a\ndeny if x\nx if y\ny if x", Problem{"p.rego", 3, 1, "recursive"}, ""},
		"function deny":    {"can't be asked", "package a\ndeny(x) if x", Problem{"p.rego", 2, 1, "deny is a function"}, "without arguments"},
		"empty":            {"nothing at all", "", Problem{"p.rego", 1, 1, "empty"}, ""},
		"other package":    {"modules are alone: nothing to call", "package a\ndeny if data.b.check(1)", Problem{"p.rego", 2, 9, "undefined function data.b.check"}, ""},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Compile(t.Context(), Source{Name: "p.rego", Rego: tc.source})
			if promo.CodeOf(err) != promo.CodeConfiguration {
				t.Fatalf("%s: want a configuration error, got %v", tc.reason, err)
			}
			var ce *CompileError
			if !errors.As(err, &ce) {
				t.Fatalf("no CompileError in %v", err)
			}
			got := ce.Problems[0]
			if !strings.Contains(got.Message, tc.want.Message) {
				t.Errorf("%s: want %q in %q", tc.reason, tc.want.Message, got.Message)
			}
			got.Message = tc.want.Message
			if diff := cmp.Diff(tc.want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if !strings.Contains(err.Error(), tc.hint) {
				t.Errorf("want hint %q in %q", tc.hint, err)
			}
		})
	}
}

func TestCompileBounds(t *testing.T) {
	t.Parallel()
	for name, source := range map[string]string{
		"too big":         "package a\n" + strings.Repeat("#", MaxModuleBytes),
		"unknown dialect": "# rego: v7\npackage a",
		"deep nesting":    "package a\nx := " + strings.Repeat("[", MaxModuleBytes-100),
	} {
		if _, err := Compile(t.Context(), Source{Name: "p.rego", Rego: source}); promo.CodeOf(err) != promo.CodeConfiguration {
			t.Errorf("%s: want a configuration error, got %.200v", name, err)
		}
	}
}

// TestForbiddenBuiltins compiles one call of each builtin that would leave the evaluation.
func TestForbiddenBuiltins(t *testing.T) {
	t.Parallel()
	for _, call := range []string{
		`http.send({"method": "GET", "url": "http://127.0.0.1/"})`, `opa.runtime()`, `net.lookup_ip_addr("example.com")`,
		`net.cidr_expand("10.0.0.0/8")`, `rand.intn("x", 10)`, `uuid.rfc4122("x")`, `rego.parse_module("a", "package a")`,
		`providers.aws.sign_req({}, {}, 1)`, `io.jwt.encode_sign({}, {}, {})`, `json.match_schema({}, {})`,
		`bits.lsh(1, 1000000)`, `graph.reachable_paths({}, {"a"})`, `graphql.is_valid("a", "b")`,
	} {
		for _, source := range []string{
			"package a\ndeny contains x if x := " + call, "package a\ndeny[x] { x := " + call + " }",
			"package a\nf := 1\ndeny if { y := 1 with f as " + call + " }",
		} {
			_, err := Compile(t.Context(), Source{Name: "p.rego", Rego: source})
			if promo.CodeOf(err) != promo.CodeConfiguration || err == nil {
				t.Errorf("%s compiled: %v", source, err)
			}
		}
	}
}

// TestModulesAreAlone: the same package twice, with rules that would conflict or complete each other.
func TestModulesAreAlone(t *testing.T) {
	t.Parallel()
	mods, err := CompileAll(t.Context(), []Source{
		{Name: "one.rego", Rego: "package pipeline\ndeny contains \"one\" if helper\nhelper := false"},
		{Name: "two.rego", Rego: "package pipeline\ndeny[\"two\"] { helper }\nhelper = true { true }"},
		{Name: "three.rego", Rego: "package other\ndeny if count(data.pipeline) > 0"},
	})
	if err != nil {
		t.Fatal(err)
	}
	want := [][]string{{}, {"two"}, {}}
	for i, m := range mods {
		got, err := m.Eval(t.Context(), nil)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want[i], got.Deny); diff != "" {
			t.Errorf("%s: %s", m.Name, diff)
		}
	}

	_, err = CompileAll(t.Context(), []Source{{Name: "one.rego", Rego: "x"}, {Name: "two.rego", Rego: "package a\ndeny if y"}})
	if err == nil || !strings.Contains(err.Error(), "one.rego:") || !strings.Contains(err.Error(), "two.rego:") {
		t.Errorf("want the problems of both modules, got %v", err)
	}
}
