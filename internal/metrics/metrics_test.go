package metrics_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/davit-cd/davit/internal/metrics"
	"github.com/davit-cd/davit/internal/promo"
)

func families(t *testing.T, reg *prometheus.Registry) map[string]*dto.MetricFamily {
	t.Helper()
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	out := map[string]*dto.MetricFamily{}
	for _, f := range all {
		out[f.GetName()] = f
	}
	return out
}

// value sums a family's series with this label value; of a histogram it counts observations.
func value(t *testing.T, reg *prometheus.Registry, name, label string) float64 {
	t.Helper()
	sum := 0.0
	for _, m := range families(t, reg)[name].GetMetric() {
		for _, l := range m.GetLabel() {
			if l.GetValue() == label {
				sum += m.GetCounter().GetValue() + m.GetGauge().GetValue() + float64(m.GetHistogram().GetSampleCount())
			}
		}
	}
	return sum
}

func sources() metrics.Sources {
	return metrics.Sources{
		Active: func(context.Context) ([]promo.Phase, error) {
			return []promo.Phase{promo.PhaseRunning, promo.PhaseRunning, promo.PhasePaused}, nil
		},
		Connected: func() int { return 3 },
	}
}

func TestPromotion(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := metrics.New(reg, []string{"Sync"})
	metrics.Observe(reg, sources())
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	step := func(kind string, phase promo.Phase) promo.Step {
		s := promo.Step{Name: kind, Path: kind, Type: kind, Phase: phase, StartedAt: at}
		if phase.Final() {
			s.FinishedAt = at.Add(2 * time.Second)
		}
		return s
	}
	run := func(phase promo.Phase, attempt int, steps ...promo.Step) promo.Promotion {
		return promo.Promotion{Phase: phase, Attempt: attempt, Stages: []promo.Stage{{Name: "dev", Steps: steps}}}
	}
	states := []promo.Promotion{
		run(promo.PhaseRunning, 1, step("Sync", promo.PhaseRunning)),
		run(promo.PhaseRunning, 1, step("Sync", promo.PhaseSucceeded), step("Mine", promo.PhaseRunning)),
		run(promo.PhaseRunning, 1, step("Sync", promo.PhaseSucceeded), step("Mine", promo.PhaseFailed)),
		run(promo.PhaseFailed, 1, step("Sync", promo.PhaseSucceeded), step("Mine", promo.PhaseFailed)),
		run(promo.PhaseFailed, 1, step("Sync", promo.PhaseSucceeded), step("Mine", promo.PhaseFailed)), // recorded again
	}
	var before *promo.Promotion
	for _, s := range states {
		m.Promotion(before, s)
		before = &s
	}
	m.Push(time.Second, nil)
	m.Push(time.Second, promo.Errorf(promo.CodeConflict, "moved"))
	m.Push(time.Second, errors.New("gone"))
	for _, want := range []struct {
		name, label string
		n           float64
	}{
		{"davit_promotions_finished_total", "Failed", 1},
		{"davit_promotions_finished_total", "Succeeded", 0},
		{"davit_step_duration_seconds", "Sync", 1},
		{"davit_step_duration_seconds", "Mine", 0},
		{"davit_step_duration_seconds", "other", 1},
		{"davit_promotions_active", "Running", 2},
		{"davit_promotions_active", "Paused", 1},
		{"davit_git_pushes_total", "conflict", 1},
		{"davit_git_pushes_total", "ok", 1},
		{"davit_git_pushes_total", "error", 1},
	} {
		if got := value(t, reg, want.name, want.label); got != want.n {
			t.Errorf("%s{%s}: want %v, got %v", want.name, want.label, want.n, got)
		}
	}
}

// TestDocumented holds the table of README.md against what is really there.
func TestDocumented(t *testing.T) {
	t.Parallel()
	reg := prometheus.NewRegistry()
	m := metrics.New(reg, nil)
	metrics.Observe(reg, sources())
	at := time.Date(2026, 1, 2, 3, 0, 0, 0, time.UTC)
	m.Promotion(nil, promo.Promotion{Stages: []promo.Stage{{Steps: []promo.Step{{Phase: promo.PhaseFailed, StartedAt: at, FinishedAt: at}}}}})
	all, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	var want strings.Builder
	for _, f := range all {
		if !strings.HasPrefix(f.GetName(), "davit_") {
			continue
		}
		labels := map[string]bool{}
		var names []string
		for _, metric := range f.GetMetric() {
			for _, l := range metric.GetLabel() {
				if !labels[l.GetName()] {
					labels[l.GetName()] = true
					names = append([]string{l.GetName()}, names...)
				}
			}
		}
		fmt.Fprintf(&want, "| `%s` | %s | %s | %s |\n", f.GetName(), strings.ToLower(f.GetType().String()), strings.Join(names, ", "), f.GetHelp())
	}
	raw, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(raw), "|---|---|---|---|\n")
	if d := cmp.Diff(want.String(), table); d != "" {
		t.Errorf("the table in README.md is not what is registered: -registered +README:\n%s", d)
	}
}
