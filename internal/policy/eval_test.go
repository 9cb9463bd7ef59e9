package policy

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
)

func TestNormalise(t *testing.T) {
	t.Parallel()
	const plain = "denied by a.deny"
	none := []string{}
	cases := map[string]struct {
		reason string
		source string // v1 unless it has a body without if
		want   []string
	}{
		"undefined":          {"nothing said", `deny if input.nothing`, none},
		"false":              {"said no", `deny := false`, none},
		"default false":      {"said no", "default deny := false", none},
		"null":               {"neither true nor anything", `deny := null`, none},
		"empty string":       {"nothing said", `deny := ""`, none},
		"empty array":        {"nothing said", `deny := []`, none},
		"empty object":       {"nothing said", `deny := {}`, none},
		"empty set":          {"nothing said", `deny := set()`, none},
		"partial set, empty": {"nothing matched", `deny contains "x" if input.nothing`, none},
		"zero":               {"a count of nothing", `deny := count([])`, none},
		"true":               {"names the rule", `deny := true`, []string{plain}},
		"string":             {"is the reason", `deny := "no"`, []string{"no"}},
		"number":             {"a count of something", `deny := count([1, 2])`, []string{plain + ": 2"}},
		"array":              {"sorted, no duplicates", `deny := ["b", "a", "b"]`, []string{"a", "b"}},
		"set":                {"sorted", `deny := {"b", "a"}`, []string{"a", "b"}},
		"v0 set":             {"sorted", `deny["b"] { true } deny["a"] { true }`, []string{"a", "b"}},
		"v0 object":          {"true: the key is the reason", `deny["why"] = true { true }`, []string{"why"}},
		"object":             {"key and value", `deny := {"image": "not signed"}`, []string{"image: not signed"}},
		"object, number":     {"key and value", `deny := {"n": 3}`, []string{"n: 3"}},
		"object, false":      {"not empty, so it denies", `deny := {"signed": false}`, []string{"signed: false"}},
		"object, msg":        {"the shape other tools use", `deny := {"msg": "no", "level": 3}`, []string{"no"}},
		"set of objects":     {"the shape other tools use", `deny contains {"msg": "no"}`, []string{"no"}},
		"set of odd things":  {"not empty, so it denies", `deny := {false, "", 7, ["x"]}`, []string{"7", `["x"]`, plain, "false"}},
		"ref heads, none":    {"empty sets below keys are nothing", `deny.a contains "x" if input.nothing`, none},
		"ref heads, one":     {"what is in them counts", "deny.a contains \"x\" if input.nothing\ndeny.b contains \"y\"", []string{"y"}},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := compile(t, "a.rego", "package a\n"+tc.source).Eval(t.Context(), map[string]any{})
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(Result{Deny: tc.want, Warn: []string{}}, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			warned, err := compile(t, "a.rego", strings.ReplaceAll("package a\n"+tc.source, "deny", "warn")).Eval(t.Context(), map[string]any{})
			if err != nil {
				t.Fatal(err)
			}
			if len(warned.Deny) != 0 || len(warned.Warn) != len(tc.want) {
				t.Errorf("%s: warn gives %+v", tc.reason, warned)
			}
		})
	}
}

func TestNormaliseBounds(t *testing.T) {
	t.Parallel()
	got := normalise(func() []any {
		list := make([]any, 0, maxReasons+5)
		for i := range maxReasons + 5 {
			list = append(list, strings.Repeat("ä", maxReasonBytes)+string(rune('a'+i%26)), string(rune(0x4e00+i)))
		}
		return list
	}(), "a.deny", "denied")
	if len(got) != maxReasons+1 || !strings.HasPrefix(got[maxReasons], "… and ") {
		t.Errorf("want %d reasons and how many more, got %d, last %.40q", maxReasons, len(got), got[len(got)-1])
	}
	for _, r := range got {
		if len(r) > maxReasonBytes+len("…") {
			t.Fatalf("a reason of %d bytes", len(r))
		}
	}
}

// TestFailClosed: what can't be evaluated denies, says so, and does it in time.
// It runs alone, because memory is the whole process's.
func TestFailClosed(t *testing.T) {
	loop := "x := [i | some i in numbers.range(1, 3000)]\n"
	cases := map[string]struct {
		reason string
		source string
		want   string
	}{
		"division by zero":  {"would be undefined otherwise, and pass", `deny contains "x" if 1 / input.zero > 1`, "divide by zero"},
		"wrong type":        {"would be undefined otherwise, and pass", `deny contains "x" if split(input.zero, "a")[0] == "b"`, "must be string"},
		"conflict":          {"a rule with two values", "deny := \"a\" if true\ndeny := \"b\" if true", "conflicting values"},
		"warn rule":         {"an error there is an error too", `warn contains "x" if 1 / input.zero > 1`, "divide by zero"},
		"a loop":            {"billions of rounds", loop + `deny if count([1 | some a in x; some b in x; some c in x; a + b + c == 0]) > 0`, "longer than 1s"},
		"a loop, v0":        {"billions of rounds", `deny { x := numbers.range(1, 3000); count([1 | a := x[_]; b := x[_]; c := x[_]; a + b + c == 0]) > 0 }`, "longer than 1s"},
		"growing a string":  {"doubling 40 times", "deny if {\n" + doubling(40) + "count(s40) == 0\n}", "could not be evaluated"},
		"one huge replace":  {"a single call", "deny if {\n" + doubling(16) + "t := replace(s16, \"a\", s16)\ncount(t) == 0 }", "could not be evaluated"},
		"a long result":     {"too many values, or too slow to make them on a busy machine", `deny := numbers.range(1, 150000)`, "could not be evaluated"},
		"one huge sequence": {"a single call", `deny if count(numbers.range(1, 1000000000000)) == 0`, "could not be evaluated"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			m := compile(t, "a.rego", "package a\n"+tc.source)
			began := time.Now()
			got, err := m.Eval(t.Context(), map[string]any{"zero": 0})
			if err != nil {
				t.Fatal(err)
			}
			if took := time.Since(began); took > 5*EvalTimeout {
				t.Errorf("took %s", took)
			}
			if len(got.Deny) != 1 || !got.Failed || !strings.Contains(got.Deny[0], tc.want) || !strings.Contains(got.Deny[0], `policy "a.rego" could not be evaluated`) {
				t.Errorf("%s: want a denial with %q, got %+v", tc.reason, tc.want, got)
			}
		})
	}
}

// TestMemoryIsWatched plays the heap's sizes, one a look.
func TestMemoryIsWatched(t *testing.T) {
	t.Parallel()
	const base = 1 << 30
	cases := map[string]struct {
		reason string
		sizes  []uint64
		want   error
	}{
		"grows":            {"past the bound", []uint64{base, base + EvalMemory, base + EvalMemory + 1}, errTooBig},
		"up to the bound":  {"and no further", []uint64{base, base + EvalMemory}, errTooLong},
		"garbage at first": {"what was collected meanwhile hides no growth", []uint64{base, base / 2, base/2 + EvalMemory + 1}, errTooBig},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			look := 0
			heap := func() uint64 {
				look++
				return tc.sizes[min(look, len(tc.sizes))-1]
			}
			if _, err := watch(t.Context(), nil, heap); !errors.Is(err, tc.want) {
				t.Errorf("%s: want %v, got %v", tc.reason, tc.want, err)
			}
		})
	}
	if heapBytes() == 0 {
		t.Error("the runtime doesn't tell the size of the heap")
	}
}

// doubling assigns s0 … sN, each twice as long as the one before.
func doubling(n int) string {
	var b strings.Builder
	b.WriteString("s0 := \"aa\"\n")
	for i := range n {
		a, c := "s"+itoa(i), "s"+itoa(i+1)
		b.WriteString(c + " := concat(\"\", [" + a + ", " + a + "])\n")
	}
	return b.String()
}

func itoa(i int) string {
	if i < 10 {
		return string(rune('0' + i))
	}
	return itoa(i/10) + itoa(i%10)
}

func TestEvalCancelled(t *testing.T) {
	t.Parallel()
	m := compile(t, "a.rego", "package a\ndeny if true")
	why := errors.New("the server stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if _, err := m.Eval(ctx, nil); err != nil && !errors.Is(err, why) {
		t.Errorf("want the cause or a result, got %v", err)
	}
	slow := compile(t, "a.rego", "package a\nx := numbers.range(1, 3000)\ndeny if count([1 | some a in x; some b in x; some c in x; a + b + c == 0]) > 0")
	ctx, cancel = context.WithCancelCause(t.Context())
	time.AfterFunc(20*time.Millisecond, func() { cancel(why) })
	if r, err := slow.Eval(ctx, nil); !errors.Is(err, why) || len(r.Deny) != 0 {
		t.Errorf("nothing was decided, so neither allow nor deny: got %+v, %v", r, err)
	}
}

func TestInput(t *testing.T) {
	t.Parallel()
	a, err := ParseInput([]byte(`{"b": 1e400, "a": 9007199254740993}`))
	if err != nil {
		t.Fatal(err)
	}
	if want := `{"a":9007199254740993,"b":1e400}`; string(a.JSON) != want {
		t.Errorf("want the canonical %s, got %s", want, a.JSON)
	}
	for name, raw := range map[string]string{"no JSON": "{", "two values": "{} {}", "nothing": "", "too big": `"` + strings.Repeat("x", MaxInputBytes) + `"`} {
		if _, err := ParseInput([]byte(raw)); promo.CodeOf(err) != promo.CodeConfiguration {
			t.Errorf("%s: want a configuration error, got %v", name, err)
		}
	}
	if _, err := NewInput(make(chan int)); promo.CodeOf(err) != promo.CodeConfiguration {
		t.Errorf("want a configuration error, got %v", err)
	}
}

// TestNowIsTheDecisionsTime: otherwise a replay could differ.
func TestNowIsTheDecisionsTime(t *testing.T) {
	t.Parallel()
	m := compile(t, "a.rego", "package a\ndeny contains sprintf(\"%d\", [time.now_ns()])")
	in, err := NewInput(nil)
	if err != nil {
		t.Fatal(err)
	}
	got, err := m.EvalAt(t.Context(), in, time.Unix(0, 42))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"42"}, got.Deny); diff != "" {
		t.Error(diff)
	}
}

func BenchmarkEval(b *testing.B) {
	m, err := Compile(b.Context(), Source{Name: "e7", Rego: "package p\ndeny contains msg if {\n\tsome i\n\tinput.pipeline.stages[i].stage.type == \"Deployment\"\n\tnot input.pipeline.stages[i + 1].stage.type == \"Approval\"\n\tmsg := \"x\"\n}"})
	if err != nil {
		b.Fatal(err)
	}
	doc := Build(stages("Deployment", "Approval", "Deployment", "Approval"), Event{})
	for b.Loop() {
		if _, err := m.Eval(b.Context(), doc); err != nil {
			b.Fatal(err)
		}
	}
}
