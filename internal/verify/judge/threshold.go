// Package judge decides from observed values whether a release is good. It is pure: no clock, no network, no
// randomness, so that a decision can be replayed bit by bit from what was observed. Providers fetch, judges judge,
// and neither knows the other.
//
// A judge's state is small and has a cursor, so that it survives restarts without counting a point twice.
//
// Nothing passes for lack of evidence: too few valid points are Inconclusive.
//
// Start reading at Threshold.
package judge

import (
	"fmt"
	"math"
	"sort"
	"strconv"
	"strings"
	"time"
)

// Outcome is what a judge says about one metric.
type Outcome string

// The outcomes. Running means that the window is not over and nothing bad was seen.
const (
	Running      Outcome = "running"
	Pass         Outcome = "pass"
	Fail         Outcome = "fail"
	Inconclusive Outcome = "inconclusive"
	Error        Outcome = "error"
)

// minCoverage is the share of a window's points that must be valid: with more holes than that, what was not seen
// could outweigh what was.
const minCoverage = 0.8

// mostErrors is how many failed queries in a row end the wait for a provider.
const mostErrors = 5

// Value is one series' value at a point of time. Valid is false for NaN and infinities.
type Value struct {
	Labels map[string]string
	V      float64
	Valid  bool
}

// Breach is the value that failed a metric.
type Breach struct {
	At     time.Time `json:"at"`
	V      float64   `json:"v"`
	Series string    `json:"series,omitempty"`
}

// Threshold judges each complete point of a window by a condition. Its zero value is the start; its JSON is its
// state. Points are fed in order, each once: the one to feed next is number Next.
type Threshold struct {
	// Next counts the points that were fed.
	Next int `json:"n,omitempty"`
	// Valid counts those of them that had a value.
	Valid int `json:"ok,omitempty"`
	// Min, Max and Last are over valid values; they mean nothing while Valid is 0.
	Min  float64 `json:"min,omitempty"`
	Max  float64 `json:"max,omitempty"`
	Last float64 `json:"last,omitempty"`
	// Breach is the first value for which the condition was true.
	Breach *Breach `json:"breach,omitempty"`
	// Errors counts queries that failed in a row, Trouble is the last one's message.
	Errors  int    `json:"errors,omitempty"`
	Trouble string `json:"trouble,omitempty"`
	// Broken is set where asking again cannot help (a query that doesn't parse, a refused token).
	Broken bool `json:"broken,omitempty"`
}

// Observe feeds the next point. A point counts as valid when it has a value and none of its series' values is
// invalid; a breach of any series fails the metric.
func (t *Threshold) Observe(at time.Time, values []Value, failIf func(v float64) (bool, error)) error {
	valid := len(values) > 0
	for _, v := range values {
		if !v.Valid {
			valid = false
			continue
		}
		bad, err := failIf(v.V)
		if err != nil {
			return err
		}
		if bad && t.Breach == nil {
			t.Breach = &Breach{At: at.UTC(), V: v.V, Series: SeriesName(v.Labels)}
		}
	}
	t.Next++
	if valid {
		t.count(values)
	}
	return nil
}

func (t *Threshold) count(values []Value) {
	for i, v := range values {
		if t.Valid == 0 && i == 0 {
			t.Min, t.Max = v.V, v.V
		}
		t.Min, t.Max, t.Last = math.Min(t.Min, v.V), math.Max(t.Max, v.V), v.V
	}
	t.Valid++
}

// Answered notes that the provider answered.
func (t *Threshold) Answered() { t.Errors, t.Trouble = 0, "" }

// Failed notes that it did not. Counts is false for a provider that only asked for patience (too many requests),
// final is true where asking again cannot help.
func (t *Threshold) Failed(message string, counts, final bool) { //nolint:revive // a fact about what is written, not a mode
	t.Trouble, t.Broken = message, t.Broken || final
	if counts {
		t.Errors++
	}
}

// Outcome judges what was fed of a window of expected points. Over says that no more points will come.
func (t *Threshold) Outcome(expected int, over bool) Outcome {
	switch {
	case t.Breach != nil:
		return Fail
	case t.Broken, t.Errors >= mostErrors, over && t.Trouble != "" && t.Next < expected:
		return Error
	case t.Next < expected && !over:
		return Running
	case t.Valid == 0, float64(t.Valid) < minCoverage*float64(expected):
		return Inconclusive
	}
	return Pass
}

// Reason says in one sentence what was seen, against what, and over how much.
func (t *Threshold) Reason(name, failIf string, expected int, interval time.Duration, over bool) string {
	seen := fmt.Sprintf("%d of %d points at an interval of %s", t.Valid, expected, interval)
	switch t.Outcome(expected, over) {
	case Fail:
		series := ""
		if t.Breach.Series != "" {
			series = " of " + t.Breach.Series
		}
		return fmt.Sprintf("%s was %s%s at %s; the limit is %s", name, Number(t.Breach.V), series, t.Breach.At.Format("15:04:05"), failIf)
	case Error:
		return fmt.Sprintf("%s could not be read: %s (after %s)", name, t.Trouble, seen)
	case Inconclusive:
		if t.Valid == 0 {
			return fmt.Sprintf("%s had no data in the window: 0 of %d points", name, expected)
		}
		return fmt.Sprintf("%s had too little data: %s, and at least %d%% are needed", name, seen, int(minCoverage*100))
	case Pass:
		return fmt.Sprintf("%s stayed between %s and %s; the limit is %s (%s)", name, Number(t.Min), Number(t.Max), failIf, seen)
	case Running:
	}
	return fmt.Sprintf("%s is within its limit %s so far (%s)", name, failIf, seen)
}

// Number prints a value for people: at most four digits that matter.
func Number(v float64) string { return strconv.FormatFloat(v, 'g', 4, 64) }

// SeriesName names a series by its labels, without the metric's own name; short, for messages and state.
func SeriesName(labels map[string]string) string {
	parts := make([]string, 0, len(labels))
	for k, v := range labels {
		if k != "__name__" {
			parts = append(parts, k+"="+v)
		}
	}
	sort.Strings(parts)
	const most = 120
	s := strings.Join(parts, ",")
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}
