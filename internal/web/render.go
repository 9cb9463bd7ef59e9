package web

import (
	"encoding/json"
	"fmt"
	"html/template"
	"math"
	"net/url"
	"sort"
	"strconv"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// maxDiffLines bounds a diff on a page; the whole of it is a click away.
const maxDiffLines = 2000

func funcs(now func() time.Time, as assets) template.FuncMap {
	return template.FuncMap{
		"asset":   func(name string) string { return as.urls[name] },
		"ago":     func(t time.Time) string { return ago(now(), t) },
		"took":    func(from, to time.Time) string { return took(now(), from, to) },
		"left":    func(t time.Time) string { return took(now(), now(), t) },
		"iso":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
		"stamp":   func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05") + " UTC" },
		"short":   short,
		"icon":    icon,
		"tone":    tone,
		"words":   words,
		"phases":  phases,
		"diff":    diffFiles,
		"outputs": outputs,
		"charts":  charts,
		"diffOf":  diffOf,
		"seg":     url.PathEscape,
		"runPath": runPath,
		"join":    strings.Join,
		"inc":     func(i int) int { return i + 1 },
		"image":   func(name string) string { return name[strings.LastIndex(name, "/")+1:] },
		"number":  func(id string) string { return id[strings.LastIndex(id, "/")+1:] },
		"str":     func(v any) string { return fmt.Sprint(v) },
	}
}

// runPath is the page of what proved a commit: a promotion, or a rollback, by its id.
func runPath(id string) string {
	parts := strings.SplitN(id, "/", 4)
	switch len(parts) {
	case 3:
		return "/projects/" + parts[0] + "/promotions/" + parts[1] + "/" + parts[2]
	case 4:
		return rollbackPath(id)
	}
	return ""
}

func short(sha string) string {
	if len(sha) > 8 {
		return sha[:8]
	}
	return sha
}

func ago(now, t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := now.Sub(t)
	switch {
	case d < 5*time.Second:
		return "just now"
	case d < time.Minute:
		return fmt.Sprintf("%d s ago", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
	return t.UTC().Format("2 Jan 2006")
}

func took(now, from, to time.Time) string {
	if from.IsZero() {
		return ""
	}
	if to.IsZero() {
		to = now
	}
	return rough(max(to.Sub(from), 0))
}

// rough is a duration as people say it.
func rough(d time.Duration) string {
	switch {
	case d < time.Second:
		return fmt.Sprintf("%d ms", d.Milliseconds())
	case d < time.Minute:
		return fmt.Sprintf("%d s", int(d.Seconds()))
	case d < time.Hour:
		return fmt.Sprintf("%d min %d s", int(d.Minutes()), int(d.Seconds())%60)
	}
	return fmt.Sprintf("%d h %d min", int(d.Hours()), int(d.Minutes())%60)
}

// icon says a phase, health or sync state without colour.
func icon(state any) string {
	switch fmt.Sprint(state) {
	case "Succeeded", "Healthy", "Synced", "approved", "success", "merged", "pass":
		return "✓"
	case "Failed", "Degraded", "Missing", "failure", "changes-requested", "fail", "error":
		return "✗"
	case "Running", "running", "Progressing", "pending":
		return "▶"
	case "WaitingForApproval":
		return "?"
	case "Paused", "Suspended":
		return "‖"
	case "Aborted", "Superseded", "closed":
		return "⊘"
	case "Skipped":
		return "↷"
	case "OutOfSync":
		return "≠"
	}
	return "○"
}

// phases lists the phases that people filter by.
func phases() []promo.Phase {
	return []promo.Phase{
		promo.PhasePending, promo.PhaseRunning, promo.PhaseWaitingForApproval, promo.PhasePaused, promo.PhaseSucceeded,
		promo.PhaseFailed, promo.PhaseAborted, promo.PhaseSuperseded,
	}
}

// tone is the CSS class of a state.
func tone(state any) string {
	switch fmt.Sprint(state) {
	case "Succeeded", "Healthy", "Synced", "approved", "success", "merged", "pass":
		return "good"
	case "Failed", "Degraded", "Missing", "failure", "changes-requested", "fail", "error":
		return "bad"
	case "Running", "running", "Progressing", "pending", "open":
		return "busy"
	case "WaitingForApproval", "Paused", "Suspended", "OutOfSync", "inconclusive":
		return "wait"
	}
	return "idle"
}

// words spells a state for people.
func words(state any) string {
	if text := fmt.Sprint(state); text != string(promo.PhaseWaitingForApproval) {
		return text
	}
	return "Waiting for approval"
}

type diffFile struct {
	Name  string
	Lines []diffLine
}

type diffLine struct{ Class, Text string }

// diffFiles splits a unified diff by file.
func diffFiles(unified string) []diffFile {
	var out []diffFile
	lines := strings.Split(strings.TrimRight(unified, "\n"), "\n")
	cut := len(lines) > maxDiffLines
	if cut {
		lines = lines[:maxDiffLines]
	}
	header := false
	for _, line := range lines {
		switch {
		case strings.HasPrefix(line, "diff --git "):
			out, header = append(out, diffFile{Name: line[strings.LastIndex(line, " b/")+3:]}), true
			continue
		case strings.HasPrefix(line, "@@"):
			header = false
		case strings.HasPrefix(line, "--- ") && !header:
			out, header = append(out, diffFile{Name: strings.TrimPrefix(line[4:], "a/")}), true
			continue
		case strings.HasPrefix(line, "+++ ") && header:
			if name := strings.TrimPrefix(line[4:], "b/"); name != "/dev/null" && len(out) > 0 {
				out[len(out)-1].Name = name
			}
			continue
		}
		if header || line == "" && len(out) == 0 {
			continue
		}
		if len(out) == 0 {
			out = append(out, diffFile{})
		}
		f := &out[len(out)-1]
		f.Lines = append(f.Lines, diffLine{Class: diffClass(line), Text: line})
	}
	if cut && len(out) > 0 {
		f := &out[len(out)-1]
		f.Lines = append(f.Lines, diffLine{Class: "hunk", Text: fmt.Sprintf("… cut after %d lines", maxDiffLines)})
	}
	return out
}

func diffClass(line string) string {
	switch {
	case strings.HasPrefix(line, "+"):
		return "add"
	case strings.HasPrefix(line, "-"):
		return "del"
	case strings.HasPrefix(line, "@@"):
		return "hunk"
	}
	return "same"
}

type output struct{ Name, Value, URL string }

// outputs flattens a step's outputs for a list. What has its own display (charts, diffs) is left out.
func outputs(raw json.RawMessage) []output {
	var values map[string]any
	if json.Unmarshal(raw, &values) != nil {
		return nil
	}
	var out []output
	flatten(&out, "", values, 0)
	sort.Slice(out, func(i, j int) bool { return out[i].Name < out[j].Name })
	return out
}

func flatten(out *[]output, prefix string, values map[string]any, depth int) {
	for name, v := range values {
		switch v := v.(type) {
		case map[string]any:
			if depth < 3 {
				flatten(out, prefix+name+".", v, depth+1)
			}
		case nil:
		case []any:
			if name != "metrics" && len(v) > 0 {
				*out = append(*out, output{Name: prefix + name, Value: texts(v)})
			}
		default:
			o := output{Name: prefix + name, Value: fmt.Sprint(v)}
			if f, ok := v.(float64); ok {
				o.Value = strconv.FormatFloat(f, 'f', -1, 64)
			}
			if u, err := url.Parse(o.Value); err == nil && (u.Scheme == "http" || u.Scheme == "https") {
				o.URL = o.Value
			}
			*out = append(*out, o)
		}
	}
}

// texts shows a list: plain values by commas, objects by what names them.
func texts(list []any) string {
	var out []string
	for _, v := range list {
		if m, ok := v.(map[string]any); ok {
			if name, ok := m["name"]; ok {
				v = name
			} else if b, err := json.Marshal(m); err == nil {
				v = string(b)
			}
		}
		out = append(out, fmt.Sprint(v))
	}
	return strings.Join(out, ", ")
}

// chart is a metric that a Verify step looked at, ready to draw in a 240×60 box.
type chart struct {
	Name, Verdict, Reason string
	// Line and Limit are points for SVG polylines.
	Line, Limit   string
	Min, Max, Now string
}

// metricOutput is a metric in the outputs of Verify.
type metricOutput struct {
	Name    string       `json:"name"`
	Verdict string       `json:"verdict"`
	Reason  string       `json:"reason"`
	FailIf  string       `json:"failIf"`
	Series  string       `json:"series"`
	Points  [][2]float64 `json:"points"` // Unix seconds, value
}

// limit is the number that a plain comparison fails at, so that it can be drawn.
func (m metricOutput) limit() (float64, bool) {
	fields := strings.Fields(m.FailIf)
	if len(fields) != 3 || fields[0] != "value" || !strings.ContainsAny(fields[1], "<>") {
		return 0, false
	}
	v, err := strconv.ParseFloat(fields[2], 64)
	return v, err == nil
}

// charts reads the metrics of a Verify step's outputs.
func charts(raw json.RawMessage) []chart {
	var o struct {
		Metrics []metricOutput `json:"metrics"`
	}
	if json.Unmarshal(raw, &o) != nil {
		return nil
	}
	out := make([]chart, 0, len(o.Metrics))
	for _, m := range o.Metrics {
		out = append(out, drawn(m))
	}
	return out
}

func drawn(m metricOutput) chart {
	c := chart{Name: m.Name, Verdict: m.Verdict, Reason: m.Reason}
	if m.Series != "" {
		c.Name += " " + m.Series
	}
	if len(m.Points) == 0 {
		return c
	}
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, p := range m.Points {
		lo, hi = min(lo, p[1]), max(hi, p[1])
	}
	last := m.Points[len(m.Points)-1]
	c.Min, c.Max, c.Now = figure(lo), figure(hi), figure(last[1])
	limit, limited := m.limit()
	if limited {
		lo, hi = min(lo, limit), max(hi, limit)
	}
	y := func(v float64) float64 {
		if hi == lo {
			return 30
		}
		return 56 - (v-lo)/(hi-lo)*52
	}
	first, line := m.Points[0][0], make([]string, 0, len(m.Points)+1)
	span := max(last[0]-first, 1)
	for _, p := range m.Points {
		line = append(line, fmt.Sprintf("%.1f,%.1f", 2+(p[0]-first)/span*236, y(p[1])))
	}
	if len(line) == 1 { // a point alone would not show
		line = append(line, fmt.Sprintf("238,%.1f", y(last[1])))
	}
	c.Line = strings.Join(line, " ")
	if limited {
		c.Limit = fmt.Sprintf("0,%.1f 240,%.1f", y(limit), y(limit))
	}
	return c
}

func figure(v float64) string { return strconv.FormatFloat(v, 'g', 3, 64) }
