package judge

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"
)

func over(limit float64) func(float64) (bool, error) {
	return func(v float64) (bool, error) { return v > limit, nil }
}

func at(i int) time.Time { return time.Date(2026, 1, 1, 10, 0, i, 0, time.UTC) }

func ok(v float64) []Value { return []Value{{V: v, Valid: true}} }

func TestThreshold(t *testing.T) {
	t.Parallel()
	invalid := []Value{{V: math.NaN()}}
	two := func(a, b float64) []Value {
		return []Value{{Labels: map[string]string{"pod": "a"}, V: a, Valid: true}, {Labels: map[string]string{"pod": "b", "__name__": "x"}, V: b, Valid: true}}
	}
	cases := map[string]struct {
		reason string
		points [][]Value
		over   bool
		want   Outcome
		says   string
	}{
		"Start":        {"nothing seen yet", nil, false, Running, "0 of 5"},
		"StartOver":    {"no evidence never passes", nil, true, Inconclusive, "no data"},
		"Pass":         {"all points within", [][]Value{ok(1), ok(2), ok(3), ok(2), ok(1)}, true, Pass, "between 1 and 3"},
		"PassNegative": {"minimum of negative values", [][]Value{ok(-1), ok(-2), ok(-3), ok(-2), ok(-1)}, true, Pass, "between -3 and -1"},
		"Fail":         {"one breach is enough", [][]Value{ok(1), ok(11)}, false, Fail, "was 11 at 10:00:01; the limit is value > 10"},
		"FailStays":    {"a breach stays", [][]Value{ok(11), ok(1), ok(1), ok(1), ok(1)}, true, Fail, "was 11"},
		"FailSeries":   {"any series can fail", [][]Value{two(1, 20)}, false, Fail, "of pod=b"},
		"Empty":        {"no series at all", [][]Value{nil, nil, nil, nil, nil}, true, Inconclusive, "no data"},
		"NaN":          {"0/0 is no value", [][]Value{invalid, invalid, invalid, invalid, invalid}, true, Inconclusive, "no data"},
		"Holes":        {"60 % is too little", [][]Value{ok(1), nil, ok(1), invalid, ok(1)}, true, Inconclusive, "too little data"},
		"FewHoles":     {"80 % is enough", [][]Value{ok(1), nil, ok(1), ok(1), ok(1)}, true, Pass, "4 of 5"},
		"Late":         {"a window that ends early in data", [][]Value{ok(1), ok(1)}, true, Inconclusive, "too little"},
		"HalfInvalid":  {"a series without value makes the point invalid", [][]Value{{{V: 1, Valid: true}, {V: math.Inf(1)}}}, true, Inconclusive, "no data"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var th Threshold
			for i, p := range tc.points {
				if err := th.Observe(at(i), p, over(10)); err != nil {
					t.Fatal(err)
				}
			}
			if got := th.Outcome(5, tc.over); got != tc.want {
				t.Errorf("%s: outcome %s, want %s", tc.reason, got, tc.want)
			}
			if got := th.Reason("errors", "value > 10", 5, time.Minute, tc.over); !strings.Contains(got, tc.says) {
				t.Errorf("%s: reason %q, want %q in it", tc.reason, got, tc.says)
			}
		})
	}
}

func TestThresholdErrors(t *testing.T) {
	t.Parallel()
	var th Threshold
	for range 4 {
		th.Failed("503", true, false)
	}
	if got := th.Outcome(5, false); got != Running {
		t.Errorf("four errors in a row: %s", got)
	}
	th.Answered()
	for range 9 {
		th.Failed("429", false, false)
	}
	if got := th.Outcome(5, false); got != Running {
		t.Errorf("a provider that asks for patience: %s", got)
	}
	if got := th.Outcome(5, true); got != Error {
		t.Errorf("a window that ended in trouble: %s", got)
	}
	th.Failed("bad query", true, true)
	if got := th.Outcome(5, false); got != Error || !strings.Contains(th.Reason("m", "x", 5, time.Second, false), "bad query") {
		t.Errorf("a query that can't be mended: %s", got)
	}
	want := errors.New("unknown name")
	if err := th.Observe(at(0), ok(1), func(float64) (bool, error) { return false, want }); !errors.Is(err, want) {
		t.Errorf("a condition that errors: %v", err)
	}
}

// TestThresholdResumes feeds a window with a restart between any two points and demands the same state.
func TestThresholdResumes(t *testing.T) {
	t.Parallel()
	var whole, parts Threshold
	for i := range 30 {
		v := ok(float64(i%7) - 3)
		if err := whole.Observe(at(i), v, over(10)); err != nil {
			t.Fatal(err)
		}
		b, err := json.Marshal(parts)
		if err != nil {
			t.Fatal(err)
		}
		parts = Threshold{}
		if err := json.Unmarshal(b, &parts); err != nil {
			t.Fatal(err)
		}
		if parts.Next != i {
			t.Fatalf("cursor %d after %d points", parts.Next, i)
		}
		if err := parts.Observe(at(i), v, over(10)); err != nil {
			t.Fatal(err)
		}
	}
	if whole != parts {
		t.Errorf("with restarts %+v, without %+v", parts, whole)
	}
}
