package steps

import (
	"context"

	"github.com/davit-cd/davit/internal/verify/judge"
)

// metricResult is one metric in a Verify's outputs.
type metricResult struct {
	Name     string        `json:"name"`
	Verdict  judge.Outcome `json:"verdict"`
	Reason   string        `json:"reason"`
	FailIf   string        `json:"failIf"`
	Min      float64       `json:"min"`
	Max      float64       `json:"max"`
	Last     float64       `json:"last"`
	Valid    int           `json:"valid"`
	Expected int           `json:"expected"`
	// Points are [unix seconds, value] pairs to draw; a hole has no point.
	Points [][2]float64 `json:"points,omitempty"`
	// Series names the series that is drawn, where the query has several.
	Series string `json:"series,omitempty"`
}

func (v *verification) outputs(ctx context.Context, worst judge.Outcome) map[string]any {
	results := make([]metricResult, len(v.cfg.Metrics))
	for i, m := range v.cfg.Metrics {
		j := v.judge[i]
		results[i] = metricResult{
			Name: clip(m.Name, 60), Verdict: j.Outcome(v.cfg.Window.points(), v.over()), Reason: clip(v.reason(i, m), 300), FailIf: clip(m.FailIf, 100),
			Min: j.Min, Max: j.Max, Last: j.Last, Valid: j.Valid, Expected: v.cfg.Window.points(),
		}
		results[i].Points, results[i].Series = v.drawn(ctx, i)
	}
	return map[string]any{"verdict": worst, "reason": v.reasons(worst), "metrics": results}
}

// drawn reads the judged part of the window once more, for people to see. It decides nothing, so that trouble only
// leaves the picture empty. Of several series the one with the breach is drawn, else the one with the highest value.
func (v *verification) drawn(ctx context.Context, i int) ([][2]float64, string) {
	m, j := v.cfg.Metrics[i], v.judge[i]
	if j.Valid == 0 && j.Breach == nil {
		return nil, ""
	}
	series, err := v.in.Ports.Metrics.Range(ctx, m.Connector, m.Query, v.at(0), v.at(j.Next-1), v.cfg.Window.interval())
	if err != nil || len(series) == 0 {
		return nil, ""
	}
	pick := series[0]
	for _, s := range series {
		if j.Breach != nil && judge.SeriesName(s.Labels) == j.Breach.Series || j.Breach == nil && highest(s) > highest(pick) {
			pick = s
		}
	}
	points := make([][2]float64, 0, len(pick.Points))
	for _, p := range pick.Points {
		if p.Valid {
			points = append(points, [2]float64{float64(p.T.Unix()), p.V})
		}
	}
	name := ""
	if len(series) > 1 {
		name = judge.SeriesName(pick.Labels)
	}
	return thin(points, max(keptPoints/len(v.cfg.Metrics), 10)), name
}

func highest(s Series) float64 {
	first, out := true, 0.0
	for _, p := range s.Points {
		if p.Valid && (first || p.V > out) {
			first, out = false, p.V
		}
	}
	return out
}

// thin keeps at most n points and of each bundle the highest, so that no spike is lost from the picture.
func thin(points [][2]float64, n int) [][2]float64 {
	if len(points) <= n {
		return points
	}
	out := make([][2]float64, 0, n)
	for i := range n {
		bundle := points[i*len(points)/n : (i+1)*len(points)/n]
		top := bundle[0]
		for _, p := range bundle {
			if p[1] > top[1] {
				top = p
			}
		}
		out = append(out, top)
	}
	return out
}
