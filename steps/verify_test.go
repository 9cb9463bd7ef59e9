package steps_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
	"github.com/davit-cd/davit/steps/stepstest"
)

// provider keeps one series whose points appear in time, and fails as it is told.
type provider struct {
	value func(at time.Time) (v float64, valid, there bool)
	fail  func(call int) error
	calls int
	read  map[time.Time]int // how often a point was read by the judge
	last  time.Time
}

func (p *provider) Range(_ context.Context, connector, _ string, start, end time.Time, step time.Duration) ([]steps.Series, error) {
	if connector != "prom" {
		return nil, promo.Errorf(promo.CodeNotFound, "no connector %q", connector)
	}
	p.calls++
	if p.fail != nil {
		if err := p.fail(p.calls); err != nil {
			return nil, err
		}
	}
	var s steps.Series
	for at := start; !at.After(end); at = at.Add(step) {
		if p.read == nil {
			p.read = map[time.Time]int{}
		}
		p.read[at]++
		p.last = at
		if v, valid, there := p.value(at); there {
			s.Points = append(s.Points, steps.Point{T: at.Add(3 * time.Millisecond), V: v, Valid: valid})
		}
	}
	if len(s.Points) == 0 {
		return nil, nil
	}
	return []steps.Series{s}, nil
}

func good(time.Time) (float64, bool, bool) { return 0.001, true, true }

const verifySpec = `{"window":{"duration":"5m","interval":"30s","warmup":"1m"}%s,"metrics":[{"name":"error-rate","connector":"prom","query":"q","failIf":"value > 0.01"}]}`

// drive runs a Verify to its end, its state through JSON each time, and returns when it ended.
func drive(t *testing.T, in steps.In) (steps.Out, time.Duration) {
	t.Helper()
	for range 500 {
		out, err := steps.Verify().Run(t.Context(), in)
		if err != nil {
			t.Fatal(err)
		}
		if out.Again == nil {
			return out, in.Now.Sub(in.StartedAt)
		}
		if len(out.Again.State) > 4<<10 {
			t.Fatalf("state of %d bytes", len(out.Again.State))
		}
		in.State, in.Now = out.Again.State, in.Now.Add(out.Again.After)
	}
	t.Fatal("a Verify without end")
	return steps.Out{}, 0
}

func verifyIn(m steps.Metrics, spec string) steps.In {
	w := stepstest.World{Ports: steps.Ports{Metrics: m, Eval: stepstest.Eval}}
	in := w.In("verify", spec)
	in.Deadline = in.StartedAt.Add(2 * time.Hour)
	return in
}

func TestVerify(t *testing.T) {
	t.Parallel()
	from := stepstest.Now
	cases := map[string]struct {
		reason string
		p      provider
		more   string // of the spec
		want   string // pass, fail, ask, passed without evidence
		says   string
		after  time.Duration // when it ended
	}{
		"Pass":       {"every point within", provider{value: good}, "", "pass", "stayed between 0.001 and 0.001", 6*time.Minute + 15*time.Second},
		"Fail":       {"a breach ends it at once", provider{value: func(at time.Time) (float64, bool, bool) { return at.Sub(from).Minutes() / 250, true, true }}, "", "fail", "error-rate was", 3*time.Minute + 15*time.Second},
		"Warmup":     {"what is before the window doesn't count", provider{value: func(at time.Time) (float64, bool, bool) { return 1, true, !at.After(from.Add(time.Minute)) }}, "", "ask", "no data", 6*time.Minute + 15*time.Second},
		"NoData":     {"nothing passes for lack of evidence", provider{value: func(time.Time) (float64, bool, bool) { return 0, false, false }}, "", "ask", "0 of 10 points", 6*time.Minute + 15*time.Second},
		"NaN":        {"0/0 is no evidence", provider{value: func(time.Time) (float64, bool, bool) { return math.NaN(), false, true }}, "", "ask", "no data", 6*time.Minute + 15*time.Second},
		"NoDataFail": {"onInconclusive: fail", provider{value: func(time.Time) (float64, bool, bool) { return 0, false, false }}, `,"onInconclusive":"fail"`, "fail", "no data", 6*time.Minute + 15*time.Second},
		"NoDataPass": {"onInconclusive: pass says so", provider{value: func(time.Time) (float64, bool, bool) { return 0, false, false }}, `,"onInconclusive":"pass"`, "pass", "without evidence", 6*time.Minute + 15*time.Second},
		"Holes":      {"half of the points", provider{value: func(at time.Time) (float64, bool, bool) { return 0, true, at.Unix()/30%2 == 0 }}, "", "ask", "too little data", 6*time.Minute + 15*time.Second},
		"Down":       {"five failures in a row, then a person is asked", provider{value: good, fail: func(int) error { return promo.Errorf(promo.CodeConnectivity, "connection refused") }}, "", "ask", "could not be read: connection refused", 0},
		"DownFail":   {"onError: fail", provider{value: good, fail: func(int) error { return promo.Errorf(promo.CodeConnectivity, "connection refused") }}, `,"onError":"fail"`, "fail", "could not be read", 0},
		"Blips": {"a provider that comes back; no point is lost", provider{value: good, fail: func(n int) error {
			if n%3 != 0 {
				return promo.Errorf(promo.CodeTimeout, "too slow")
			}
			return nil
		}}, "", "pass", "10 of 10 points", 0},
		"Patience": {"too many requests don't count as failures", provider{value: good, fail: func(n int) error {
			if n < 9 {
				return promo.Errorf(promo.CodeRateLimit, "slow down")
			}
			return nil
		}}, "", "pass", "10 of 10 points", 0},
		"BadQuery": {"what can't be mended isn't asked again", provider{value: good, fail: func(int) error { return promo.Errorf(promo.CodeConfiguration, "parse error") }}, "", "ask", "parse error", time.Minute + 45*time.Second},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := tc.p
			out, took := drive(t, verifyIn(&p, fmt.Sprintf(verifySpec, tc.more)))
			got, text := "pass", out.Message
			switch {
			case out.Verdict != nil:
				got, text = "fail", out.Verdict.Error()
				failsWith(t, tc.reason, out.Verdict, promo.CodeVerification, tc.says)
			case out.Ask != nil:
				got, text = "ask", out.Ask.Question
				failsWith(t, tc.reason, &out.Ask.Otherwise, promo.CodeVerification, tc.says)
			}
			if got != tc.want || !strings.Contains(text, tc.says) {
				t.Errorf("%s: %s %q, want %s with %q", tc.reason, got, text, tc.want, tc.says)
			}
			if tc.after != 0 && took != tc.after {
				t.Errorf("%s: ended after %s, want %s", tc.reason, took, tc.after)
			}
		})
	}
}

// TestVerifyCountsOnce restarts between any two calls: each point is judged once, and one read of the window for
// the picture is all there is beside.
func TestVerifyCountsOnce(t *testing.T) {
	t.Parallel()
	p := provider{value: good}
	out, _ := drive(t, verifyIn(&p, fmt.Sprintf(verifySpec, "")))
	if len(p.read) != 10 {
		t.Errorf("%d points were read, want 10: %v", len(p.read), p.read)
	}
	for at, n := range p.read {
		if n != 2 {
			t.Errorf("point %s was read %d times", at.Format(time.TimeOnly), n)
		}
	}
	var got struct {
		Verdict string
		Metrics []struct {
			Name            string
			Valid, Expected int
			Points          [][2]float64
		}
	}
	if err := json.Unmarshal(out.Outputs, &got); err != nil {
		t.Fatal(err)
	}
	if got.Verdict != "pass" || got.Metrics[0].Valid != 10 || len(got.Metrics[0].Points) != 10 {
		t.Errorf("%+v", got)
	}
}

func TestVerifyLimits(t *testing.T) {
	t.Parallel()
	var metrics []string
	for i := range 16 {
		metrics = append(metrics, fmt.Sprintf(`{"name":"metric-with-a-long-name-%d","connector":"prom","query":"%s","failIf":"value > 1"}`, i, strings.Repeat("q", 2000)))
	}
	p := provider{value: func(at time.Time) (float64, bool, bool) { return -float64(at.UnixNano()) / 1e-100, true, true }, fail: func(n int) error {
		if n%2 == 0 {
			return promo.Errorf(promo.CodeConnectivity, "%s", strings.Repeat("long text ", 100))
		}
		return nil
	}}
	in := verifyIn(&p, `{"window":{"duration":"1h","interval":"1s"},"metrics":[`+strings.Join(metrics, ",")+`]}`)
	out, err := steps.Verify().Run(t.Context(), in)
	for range 40 { // in large strides, as after an outage
		if err != nil || out.Again == nil {
			break
		}
		in.State, in.Now = out.Again.State, in.Now.Add(2*time.Minute)
		out, err = steps.Verify().Run(t.Context(), in)
	}
	if err != nil || out.Again != nil || len(out.Outputs) > 16<<10 {
		t.Errorf("%v, again %v, outputs of %d bytes", err, out.Again != nil, len(out.Outputs))
	}
}

func TestVerifySeries(t *testing.T) {
	t.Parallel()
	in := verifyIn(pods{}, `{"window":{"duration":"10s","interval":"1s"},"metrics":[{"name":"m","connector":"prom","query":"q","failIf":"value > 5"}]}`)
	out, _ := drive(t, in)
	failsWith(t, "one pod of several", out.Verdict, promo.CodeVerification, "pod=b")
	if !strings.Contains(string(out.Outputs), `"series":"pod=b"`) {
		t.Errorf("the pod that failed isn't drawn: %s", out.Outputs)
	}
}

// pods has two series of which one is bad.
type pods struct{}

func (pods) Range(_ context.Context, _, _ string, start, end time.Time, step time.Duration) ([]steps.Series, error) {
	a, b := steps.Series{Labels: map[string]string{"pod": "a"}}, steps.Series{Labels: map[string]string{"pod": "b"}}
	for at := start; !at.After(end); at = at.Add(step) {
		a.Points = append(a.Points, steps.Point{T: at, V: 1, Valid: true})
		b.Points = append(b.Points, steps.Point{T: at, V: 9, Valid: true})
	}
	return []steps.Series{a, b}, nil
}

func TestCheckVerify(t *testing.T) {
	t.Parallel()
	metric := steps.Metric{Name: "m", Connector: "c", Query: "q", FailIf: "value > 1"}
	window := steps.VerifyWindow{Duration: steps.Duration(5 * time.Minute)}
	for at, c := range map[string]steps.VerifySpec{
		"window.duration": {Metrics: []steps.Metric{metric}},
		"window.interval": {Metrics: []steps.Metric{metric}, Window: steps.VerifyWindow{Duration: window.Duration, Interval: steps.Duration(time.Hour)}},
		"metrics[1].name": {Metrics: []steps.Metric{metric, metric}, Window: window},
		"metrics[0]":      {Metrics: []steps.Metric{{Name: "m"}}, Window: window},
	} {
		if got := steps.Verify().Check(&c); len(got) != 1 || got[0].Path != at {
			t.Errorf("%s: %+v", at, got)
		}
	}
	if got := steps.Verify().Check(&steps.VerifySpec{Window: window, Metrics: []steps.Metric{metric}}); len(got) != 0 {
		t.Errorf("a good one: %+v", got)
	}
	in := verifyIn(pods{}, `{"metrics":[{"name":"m","connector":"prom","query":"q","failIf":"value > "}],"window":{"duration":"2s"}}`)
	in.Now = in.Now.Add(time.Minute)
	_, err := steps.Verify().Run(t.Context(), in)
	failsWith(t, "a condition that doesn't parse", err, promo.CodeConfiguration, `failIf of metric "m"`)
}
