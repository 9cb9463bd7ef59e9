package steps

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/verify/judge"
)

// VerifySpec is the spec of a Verify.
type VerifySpec struct {
	// Window that is judged; it begins when the step does.
	Window VerifyWindow `json:"window,omitempty"` //nolint:modernize // the tag is read by the schema
	// Alpha bounds the false alarms of the whole step.
	Alpha float64 `json:"alpha,omitempty" davit:"later"`
	// Metrics that are judged, each on its own; one that fails, fails the step.
	Metrics []Metric `json:"metrics" jsonschema:"required,minItems=1"`
	// SLO are objectives that are judged by how fast they burn.
	SLO []any `json:"slo,omitempty" davit:"later"`
	// Logs that are judged.
	Logs []any `json:"logs,omitempty" davit:"later"`
	// Selectors tell new from old.
	Selectors map[string]any `json:"selectors,omitempty" davit:"later"`
	// OnInconclusive says what too little evidence becomes; pass is audited.
	OnInconclusive string `json:"onInconclusive,omitempty" jsonschema:"enum=ask,enum=fail,enum=pass"`
	// OnError says what trouble with a provider becomes.
	OnError string `json:"onError,omitempty" jsonschema:"enum=ask,enum=fail"`
}

// VerifyWindow is the time that is judged.
type VerifyWindow struct {
	// Duration of the window.
	Duration Duration `json:"duration,omitempty"`
	// Interval between points; a tenth of the duration by default, a minute at most.
	Interval Duration `json:"interval,omitempty"`
	// Warmup is left out before the window.
	Warmup Duration `json:"warmup,omitempty"`
	// ExtendMax lengthens a window whose end says neither.
	ExtendMax Duration `json:"extendMax,omitempty" davit:"later"`
}

// Metric is one thing that is judged.
type Metric struct {
	// Name of the metric in results.
	Name string `json:"name" jsonschema:"required"`
	// Mode of the judgement.
	Mode string `json:"mode,omitempty" jsonschema:"enum=threshold,enum=before-after,enum=canary,enum=slo,enum=logs" davit:"later=before-after|canary|slo|logs"`
	// Connector that is asked.
	Connector string `json:"connector" jsonschema:"required"`
	// Query in the connector's language.
	Query string `json:"query" jsonschema:"required"`
	// FailIf is a condition on value: a point for which it is true fails the metric.
	FailIf string `json:"failIf,omitempty" davit:"expr=value"`
	// Kind of the metric.
	Kind any `json:"kind,omitempty" davit:"later"`
	// Bad counts what went wrong.
	Bad any `json:"bad,omitempty" davit:"later"`
	// Total counts everything.
	Total any `json:"total,omitempty" davit:"later"`
	// Direction in which the metric is worse.
	Direction any `json:"direction,omitempty" davit:"later"`
	// Compare says what the metric is held against.
	Compare any `json:"compare,omitempty" davit:"later"`
	// FailFast ends the window early.
	FailFast any `json:"failFast,omitempty" davit:"later"`
	// MinEvents is the least that must have happened.
	MinEvents any `json:"minEvents,omitempty" davit:"later"`
	// NoData says what a hole means.
	NoData any `json:"noData,omitempty" davit:"later"`
	// Critical metrics weigh more.
	Critical any `json:"critical,omitempty" davit:"later"`
}

// Limits of a Verify step.
const (
	maxMetrics = 16 // their judges' state fits into what a step may remember
	maxWindow  = 7 * 24 * time.Hour
	maxPoints  = 10_000
	// ingestDelay is how long a point may take to become final at the provider: one scrape of Prometheus.
	ingestDelay = 15 * time.Second
	// keptPoints are drawn per step, all metrics together: they travel in the step's outputs.
	keptPoints = 240
)

// Verify judges metrics.
func Verify() Type {
	return Type{
		Kind:    "Verify",
		Summary: "judges metrics and logs",
		Scope:   plan.ScopeTarget,
		Class:   plan.ClassNetwork,
		Mutates: never,
		Timeout: 2 * time.Hour, // a window of an hour, and a provider that is away for a while
		Config: func() any {
			return &VerifySpec{Window: VerifyWindow{Duration: Duration(5 * time.Minute)}, OnInconclusive: "ask", OnError: "ask"}
		},
		Check: checkVerify,
		Outputs: map[string]string{
			"verdict": "pass, fail, inconclusive or error",
			"reason":  "a sentence per metric",
			"metrics": "list of {name, verdict, reason, min, max, last, valid, expected, points}",
		},
		Run: runVerify,
	}
}

func checkVerify(cfg any) []Problem {
	c, ok := cfg.(*VerifySpec)
	if !ok {
		return nil
	}
	var out []Problem
	if len(c.Metrics) > maxMetrics {
		out = append(out, Problem{Path: "metrics", Msg: fmt.Sprintf("%d metrics are too many", len(c.Metrics)), Hint: fmt.Sprintf("at most %d; fewer find more", maxMetrics)})
	}
	w := c.Window
	switch {
	case w.Duration <= 0:
		out = append(out, Problem{Path: "window.duration", Msg: "is missing", Hint: "say how long to look, such as 5m"})
	case w.Duration.Std() > maxWindow:
		out = append(out, Problem{Path: "window.duration", Msg: "is longer than a week"})
	case w.Interval < 0 || w.Interval > w.Duration:
		out = append(out, Problem{Path: "window.interval", Msg: "is longer than the window"})
	case w.interval() < time.Second || w.points() > maxPoints:
		out = append(out, Problem{Path: "window.interval", Msg: "is too short", Hint: fmt.Sprintf("at least 1s, and at most %d points a window", maxPoints)})
	}
	seen := map[string]bool{}
	for i, m := range c.Metrics {
		at := fmt.Sprintf("metrics[%d]", i)
		if seen[m.Name] {
			out = append(out, Problem{Path: at + ".name", Msg: fmt.Sprintf("metric %q is declared twice", m.Name)})
		}
		seen[m.Name] = true
		if m.FailIf == "" {
			out = append(out, Problem{Path: at, Msg: fmt.Sprintf("nothing says when metric %q is bad", m.Name), Hint: "add failIf, such as failIf: value > 0.01; comparisons are not in this version"})
		}
	}
	return out
}

func (w VerifyWindow) interval() time.Duration {
	if w.Interval > 0 {
		return w.Interval.Std()
	}
	return min(max(w.Duration.Std()/10, time.Second), time.Minute).Truncate(time.Second)
}

// points is how many points the window has: at the end of each interval, the first not at its beginning.
func (w VerifyWindow) points() int { return int(w.Duration.Std() / w.interval()) }

// verifyState is the cursor of a running window: a judge a metric, and when the window began.
type verifyState struct {
	Judges []judge.Threshold `json:"j"`
}

// verification is one call of a running window.
type verification struct {
	in    In
	cfg   *VerifySpec
	start time.Time // of the first interval
	judge []judge.Threshold
}

func runVerify(ctx context.Context, in In) (Out, error) {
	c, err := readConfig[VerifySpec](Verify(), in)
	if err != nil {
		return Out{}, err
	}
	if p := checkVerify(c); len(p) > 0 {
		return Out{}, promo.Errorf(promo.CodeConfiguration, "%s: %s", p[0].Path, p[0].Msg).WithHint("%s", p[0].Hint)
	}
	if err := need(in.Ports.Metrics != nil && in.Ports.Eval != nil, in, "metrics"); err != nil {
		return Out{}, err
	}
	state, err := readState[verifyState](in)
	if err != nil {
		return Out{}, err
	}
	v := verification{in: in, cfg: c, judge: state.Judges, start: in.StartedAt.Add(c.Window.Warmup.Std()).Truncate(time.Second)}
	if len(v.judge) != len(c.Metrics) {
		v.judge = make([]judge.Threshold, len(c.Metrics))
	}
	for i := range c.Metrics {
		if err := v.observe(ctx, i); err != nil {
			return Out{}, err
		}
	}
	return v.conclude(ctx)
}

// at is the time of a point; numbers count from 0.
func (v *verification) at(point int) time.Time {
	return v.start.Add(time.Duration(point+1) * v.cfg.Window.interval())
}

// delay is how long a point is given to become final; short windows (demos, tests) don't wait longer than they are.
func (v *verification) delay() time.Duration { return min(ingestDelay, v.cfg.Window.interval()) }

// over reports whether every point that will ever be read could have been read.
func (v *verification) over() bool {
	last := v.at(v.cfg.Window.points() - 1).Add(v.delay()).Add(v.patience())
	return !v.in.Now.Before(last) || !v.in.Now.Add(v.cfg.Window.interval()).Before(v.in.Deadline)
}

// patience is how long a provider in trouble may come back after the window.
func (v *verification) patience() time.Duration {
	for i := range v.judge {
		if v.judge[i].Trouble != "" {
			return 2 * v.cfg.Window.interval()
		}
	}
	return 0
}

// observe feeds a metric's judge with the points that have become final since the last call.
func (v *verification) observe(ctx context.Context, i int) error {
	m, j := v.cfg.Metrics[i], &v.judge[i]
	final := int(v.in.Now.Add(-v.delay()).Sub(v.start)/v.cfg.Window.interval()) - 1 // number of the newest final point
	final = min(final, v.cfg.Window.points()-1)
	if j.Next > final || j.Outcome(v.cfg.Window.points(), false) != judge.Running {
		return nil
	}
	series, err := v.in.Ports.Metrics.Range(ctx, m.Connector, m.Query, v.at(j.Next), v.at(final), v.cfg.Window.interval())
	if err != nil {
		if ctx.Err() != nil {
			return ctx.Err()
		}
		code := promo.CodeOf(err)
		j.Failed(clip(err.Error(), 300), code != promo.CodeRateLimit, !code.Retryable() && code != promo.CodeInternal)
		return nil
	}
	j.Answered()
	for p := j.Next; p <= final; p++ {
		if err := j.Observe(v.at(p), valuesAt(series, v.at(p), v.cfg.Window.interval()), v.failIf(m)); err != nil {
			return err
		}
	}
	return nil
}

func (v *verification) failIf(m Metric) func(float64) (bool, error) {
	return func(value float64) (bool, error) {
		bad, err := v.in.Ports.Eval(m.FailIf, map[string]any{"value": value})
		if err != nil {
			return false, promo.Errorf(promo.CodeConfiguration, "failIf of metric %q: %w", m.Name, err)
		}
		return bad, nil
	}
}

// valuesAt picks each series' point of the time; providers may round times a little.
func valuesAt(series []Series, at time.Time, step time.Duration) []judge.Value {
	var out []judge.Value
	for _, s := range series {
		for _, p := range s.Points {
			if p.T.Sub(at).Abs() < step/2 {
				out = append(out, judge.Value{Labels: s.Labels, V: p.V, Valid: p.Valid})
				break
			}
		}
	}
	return out
}

// conclude asks to go on, or ends the step.
func (v *verification) conclude(ctx context.Context) (Out, error) {
	worst := judge.Pass
	for i := range v.judge {
		worst = worse(worst, v.judge[i].Outcome(v.cfg.Window.points(), v.over()))
	}
	switch worst {
	case judge.Running:
		message := v.reasons(judge.Running)
		for i := range v.judge {
			v.judge[i].Trouble = clip(v.judge[i].Trouble, 100) // all of them must fit into the state
		}
		return again(Again{After: v.next()}, verifyState{Judges: v.judge}, "%s", message)
	case judge.Pass:
		return answer(v.outputs(ctx, worst), "%s", v.reasons(judge.Pass))
	case judge.Error:
		return v.question(ctx, worst, v.cfg.OnError, "The metrics could not be read. Continue without them?")
	case judge.Inconclusive:
		return v.question(ctx, worst, v.cfg.OnInconclusive, "There is too little evidence to say whether the release is good. Continue?")
	case judge.Fail:
	}
	return Out{Outputs: plan.Encode(v.outputs(ctx, worst)), Verdict: promo.Errorf(promo.CodeVerification, "%s", v.reasons(worst))}, nil
}

// next is when the next point becomes final; after trouble, the next interval.
func (v *verification) next() time.Duration {
	next := v.cfg.Window.interval()
	for i := range v.judge {
		if j := &v.judge[i]; j.Trouble == "" && j.Next < v.cfg.Window.points() {
			next = min(next, v.at(j.Next).Add(v.delay()).Sub(v.in.Now))
		}
	}
	return max(next, 100*time.Millisecond)
}

// worse orders outcomes: a failure is known at once, everything else waits for the window's end, and what is
// missing outweighs what was good.
func worse(a, b judge.Outcome) judge.Outcome {
	for _, o := range []judge.Outcome{judge.Fail, judge.Running, judge.Error, judge.Inconclusive} {
		if a == o || b == o {
			return o
		}
	}
	return judge.Pass
}

// question ends a window that says neither good nor bad, as the spec wishes.
func (v *verification) question(ctx context.Context, outcome judge.Outcome, wish, question string) (Out, error) {
	reason := v.reasons(outcome)
	outputs := plan.Encode(v.outputs(ctx, outcome))
	no := promo.Errorf(promo.CodeVerification, "%s", reason)
	switch wish {
	case "fail":
		return Out{Outputs: outputs, Verdict: no}, nil
	case "pass":
		return Out{Outputs: outputs, Message: "passed without evidence, as onInconclusive: pass says: " + reason}, nil
	}
	return Out{Outputs: outputs, Message: reason, Ask: &Ask{Question: question + " " + reason, Otherwise: *no}}, nil
}

// reasons joins the sentences of the metrics that have the outcome, or of all.
func (v *verification) reasons(outcome judge.Outcome) string {
	var out []string
	for i, m := range v.cfg.Metrics {
		if outcome == judge.Pass || v.judge[i].Outcome(v.cfg.Window.points(), v.over()) == outcome {
			out = append(out, v.reason(i, m))
		}
	}
	return clip(strings.Join(out, "; "), 2000)
}

func (v *verification) reason(i int, m Metric) string {
	return v.judge[i].Reason(m.Name, m.FailIf, v.cfg.Window.points(), v.cfg.Window.interval(), v.over())
}

func clip(s string, most int) string {
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + "…"
}
