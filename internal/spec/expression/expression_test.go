package expression_test

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec/expression"
)

func vars(t *testing.T) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(`{
		"inputs": {"version": "v1.2.3", "count": 3, "big": 1.5, "on": true, "list": ["a", "b"]},
		"steps": {"update": {"outputs": {"pr": {"number": 7}}}},
		"target": {"name": "us-east", "labels": {"tier": "one"}}
	}`), &v); err != nil {
		t.Fatal(err)
	}
	return v
}

func TestResolve(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, in, want string
	}{
		"Plain":    {"what holds no expression stays, digits included", `{"a":1.10,"b":["x"],"c":null}`, `{"a":1.10,"b":["x"],"c":null}`},
		"Keeps":    {"a whole expression keeps its type", `{"n":"${{ inputs.count }}","b":"${{ inputs.on }}","l":"${{ inputs.list }}"}`, `{"b":true,"l":["a","b"],"n":3}`},
		"Text":     {"inside text it becomes a string", `"v=${{ inputs.count }} ${{ inputs.on }} ${{ inputs.big }}"`, `"v=3 true 1.5"`},
		"Add":      {"texts and numbers add", `["${{ inputs.version + '-rc' }}","${{ inputs.count + 1 }}"]`, `["v1.2.3-rc",4]`},
		"Braces":   {"braces in quotes and maps end nothing", `["${{ {'a': {'b': 1}}.a.b }}","${{ '}}' }}"]`, `[1,"}}"]`},
		"Deep":     {"members of members", `"${{ steps.update.outputs.pr.number }}"`, `7`},
		"Index":    {"names with hyphens are indexed", `"${{ steps[\"update\"].outputs.pr.number }}"`, `7`},
		"HTML":     {"signs stay as they are", `"<${{ inputs.version }}>&"`, `"<v1.2.3>&"`},
		"Join":     {"lists join", `"${{ join(inputs.list, '+') }}"`, `"a+b"`},
		"Cond":     {"the ternary works", `"${{ inputs.count > 2 ? 'many' : 'few' }}"`, `"many"`},
		"Filter":   {"loops work", `"${{ len(filter(inputs.list, # != 'a')) }}"`, `1`},
		"ListText": {"a list inside text is JSON", `"x ${{ inputs.list }}"`, `"x [\"a\",\"b\"]"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := expression.Resolve(json.RawMessage(tc.in), vars(t))
			if err != nil {
				t.Fatalf("%s: %v", tc.reason, err)
			}
			if diff := cmp.Diff(tc.want, string(got)); diff != "" {
				t.Errorf("%s:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestResolvePerTarget(t *testing.T) {
	t.Parallel()
	v := vars(t)
	delete(v, "target")
	v["targets"] = []any{map[string]any{"name": "us"}, map[string]any{"name": "eu"}}
	in := `{"files":[{"path":"base.yaml"},{"path":"prod/${{ target.name }}/v.yaml","set":{"a":"${{ inputs.version }}"}}]}`
	got, err := expression.Resolve(json.RawMessage(in), v)
	if err != nil {
		t.Fatal(err)
	}
	want := `{"files":[{"path":"base.yaml"},{"path":"prod/us/v.yaml","set":{"a":"v1.2.3"}},{"path":"prod/eu/v.yaml","set":{"a":"v1.2.3"}}]}`
	if diff := cmp.Diff(want, string(got)); diff != "" {
		t.Error(diff)
	}
	v["targets"] = []any{map[string]any{"name": "us"}}
	got, err = expression.Resolve(json.RawMessage(`{"title":"to ${{ target.name }}"}`), v)
	if err != nil || string(got) != `{"title":"to us"}` {
		t.Errorf("one target stands for `target` anywhere: %s, %v", got, err)
	}
}

func TestResolveErrors(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason, in, want string
	}{
		"Nothing":   {"nil in text is an error", `{"a":["x ${{ inputs.gone }}"]}`, `field "a[0]"`},
		"Unknown":   {"unknown variables are errors", `"${{ nope.x }}"`, `unknown name nope`},
		"Clock":     {"there is no clock", `"${{ now() }}"`, `now`},
		"Env":       {"there is no environment", `"${{ env('HOME') }}"`, `env`},
		"Open":      {"an open expression", `"${{ inputs.version"`, `never closed`},
		"Doubling":  {"texts that double are stopped", `"${{ let a=inputs.version*1; a }}"`, `expression`},
		"Growth":    {"growth is bounded", `"${{ let a=inputs.version+inputs.version; let b=a+a+a+a+a+a+a+a; let c=b+b+b+b+b+b+b+b+b; let d=c+c+c+c+c+c+c+c+c; let e=d+d+d+d+d+d+d+d; let f=e+e+e+e+e+e; f+f+f+f }}"`, `too costly`},
		"Loops":     {"loops are bounded", `"${{ all(1..3000, all(1..3000, # > 0)) }}"`, `o`},
		"Nested":    {"lists of lists are bounded as text", `"${{ let a=map(1..300, 'xxxxxxxxxxxxxxxx'); toJSON(map(a, map(a, a))) }}"`, `too costly`},
		"LongLoops": {"turns are counted over nesting", `"${{ let a=[1,2,3,4,5,6,7,8,9,10]; let b=map(a,a); count(a, any(a, any(a, any(a, any(a, # == 11))))) }}"`, `too costly`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := expression.Resolve(json.RawMessage(tc.in), vars(t))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("%s: want an error with %q, got %v", tc.reason, tc.want, err)
			}
			if promo.CodeOf(err) != promo.CodeConfiguration {
				t.Errorf("%s: code %s", tc.reason, promo.CodeOf(err))
			}
		})
	}
}

func TestBool(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]bool{
		"": true, "inputs.on": true, "${{ !inputs.on }}": false, "inputs.count > 2 and inputs.version startsWith 'v'": true,
	} {
		got, err := expression.Bool(in, vars(t))
		if err != nil || got != want {
			t.Errorf("Bool(%q) = %v, %v", in, got, err)
		}
	}
	if _, err := expression.Bool("inputs.count", vars(t)); err == nil {
		t.Error("a number is no condition")
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	scope := expression.Scope{
		"inputs": expression.Map(map[string]expression.Type{
			"version": expression.String(), "count": expression.Number(), "on": expression.Boolean(),
		}),
		"steps": expression.Map(map[string]expression.Type{
			"sign-off": expression.Map(map[string]expression.Type{"outputs": expression.Any()}),
			"late":     expression.Absent("it runs later"),
		}),
		"environment": expression.Map(map[string]expression.Type{"labels": expression.Strings()}),
	}
	cases := map[string]struct {
		in   string
		kind expression.Kind
		err  string
		at   int
	}{
		"String":    {in: "inputs.version", kind: expression.KindString},
		"Number":    {in: "inputs.count + 1", kind: expression.KindNumber},
		"Boolean":   {in: "inputs.version matches '^v'", kind: expression.KindBoolean},
		"Any":       {in: `steps["sign-off"].outputs.x`, kind: expression.KindAny},
		"Labels":    {in: "environment.labels.tier", kind: expression.KindString},
		"Let":       {in: "let x = inputs.version; x + '-1'", kind: expression.KindString},
		"Loop":      {in: "all(split(inputs.version, '.'), len(#) > 0)", kind: expression.KindBoolean},
		"Near":      {in: "  inputs.versions", err: `inputs has no "versions" (did you mean "version"?)`, at: 9},
		"Top":       {in: "input.version", err: `unknown name "input" (did you mean "inputs"?)`, at: 0},
		"Hyphen":    {in: "steps.sign-off.outputs", err: `steps has no "sign" (a name with a hyphen is written steps["sign-off"])`, at: 6},
		"Absent":    {in: "steps.late.outputs.x", err: "steps.late can't be used here: it runs later", at: 6},
		"Type":      {in: "inputs.count + inputs.version", err: `invalid operation: + (mismatched types float64 and string)`, at: 13},
		"Function":  {in: "len(uper(inputs.version))", err: `unknown function "uper" (did you mean "upper"?)`, at: 4},
		"Clock":     {in: "now()", err: `unknown function "now"`, at: 0},
		"Syntax":    {in: "inputs.version ==", err: `unexpected token EOF`, at: 16},
		"NotAscii":  {in: "'ü' + inputs.x", err: `inputs has no "x"`, at: 14},
		"MapMisuse": {in: "inputs.version.x", err: `type string has no field x`, at: 15},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			kind, err := expression.Check(tc.in, scope)
			if tc.err == "" {
				if err != nil || kind != tc.kind {
					t.Fatalf("Check(%q) = %s, %v; want %s", tc.in, kind, err, tc.kind)
				}
				return
			}
			if err == nil || !strings.HasPrefix(err.Error(), tc.err) {
				t.Fatalf("Check(%q) = %v; want %s", tc.in, err, tc.err)
			}
			if err.Offset != tc.at {
				t.Errorf("Check(%q): offset %d, want %d", tc.in, err.Offset, tc.at)
			}
		})
	}
}

func TestMentions(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"${{ target.name }}": true, "${{ inputs.target }}": false, "target": false, "a ${{ [target] | len() }} b": true,
		"${{ 'target' }}": false, "${{ target": false, "": false,
	} {
		if got := expression.Mentions(text, "target"); got != want {
			t.Errorf("Mentions(%q) = %v", text, got)
		}
	}
	raw := json.RawMessage(`{"path":"x/${{ steps[\"a-b\"].outputs.y }}","set":{"k":["${{ target.name }}"]}}`)
	if !expression.MentionsJSON(raw, "target") || expression.MentionsJSON(raw, "inputs") {
		t.Error("the values of JSON are looked at, escapes undone")
	}
}

func FuzzBool(f *testing.F) {
	f.Add("inputs.count > 1")
	f.Add("${{ all(inputs.list, # != 'x') }}")
	f.Add("let a = inputs.version; a + a == 'x' ? true : false")
	f.Fuzz(func(t *testing.T, source string) {
		_, _ = expression.Bool(source, vars(t))
		_, errs := expression.CheckText(source, expression.Scope{"inputs": expression.Any()})
		for _, err := range errs {
			if err.Offset < 0 || err.Offset > len(source) || err.Msg == "" {
				t.Errorf("error out of place: %+v in %q", err, source)
			}
		}
	})
}
