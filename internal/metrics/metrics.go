// Package metrics has what Davit counts of itself for Prometheus, beside what Temporal's SDK counts. Labels have
// closed sets of values: no ids, no commits, no names that people choose.
//
// It must not know where the numbers come from: Sources say. Start reading at New; README.md lists every metric.
package metrics

import (
	"context"
	"slices"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"

	"github.com/davit-cd/davit/internal/promo"
)

// scrapeLimit bounds what a scrape asks of the store; Prometheus itself gives up after 10 s.
const scrapeLimit = 5 * time.Second

// other stands for a step type that this version doesn't know.
const other = "other"

// Sources give the numbers that are counted when they are asked for.
type Sources struct {
	// Active returns the phases of the promotions that are under way.
	Active func(ctx context.Context) ([]promo.Phase, error)
	// Connected returns how many agents are connected.
	Connected func() int
}

// Metrics counts. It is safe for concurrent use.
type Metrics struct {
	types    []string
	finished *prometheus.CounterVec
	steps    *prometheus.HistogramVec
	pushes   *prometheus.CounterVec
	pushTime prometheus.Histogram
}

// New makes the metrics and registers them, with those of Go and of the process. types are the step types there are.
func New(reg prometheus.Registerer, types []string) *Metrics {
	m := &Metrics{
		types: types,
		finished: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "davit_promotions_finished_total", Help: "Promotions that ended, by their final phase.",
		}, []string{"phase"}),
		steps: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "davit_step_duration_seconds", Help: "How long steps took, waits included, by type and final phase.",
			Buckets: []float64{0.1, 0.5, 1, 5, 15, 60, 300, 900, 3600, 21600, 86400}, // from a commit to an approval the next day
		}, []string{"type", "phase"}),
		pushes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "davit_git_pushes_total", Help: "Changes brought to release repositories, by outcome: ok, conflict or error.",
		}, []string{"outcome"}),
		pushTime: prometheus.NewHistogram(prometheus.HistogramOpts{
			Name: "davit_git_push_duration_seconds", Help: "How long a change took from its request until it was on the server.",
			Buckets: []float64{0.01, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 15, 60},
		}),
	}
	reg.MustRegister(m.finished, m.steps, m.pushes, m.pushTime,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	for _, phase := range finalPhases() {
		m.finished.WithLabelValues(string(phase)) // a rate needs the zero before the first
	}
	for _, outcome := range []string{"ok", "conflict", "error"} {
		m.pushes.WithLabelValues(outcome)
	}
	return m
}

// Observe registers what is counted when it is asked for.
func Observe(reg prometheus.Registerer, s Sources) {
	reg.MustRegister(active{s}, prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "davit_agents_connected", Help: "Agents whose connection to the gateway stands.",
	}, func() float64 { return float64(s.Connected()) }))
}

// Promotion counts what a newly recorded state of a promotion adds to the one before: nil where there was none.
func (m *Metrics) Promotion(before *promo.Promotion, now promo.Promotion) {
	if now.Phase.Final() && (before == nil || before.Attempt != now.Attempt || !before.Phase.Final()) {
		m.finished.WithLabelValues(string(now.Phase)).Inc()
	}
	counted := map[string]bool{}
	if before != nil && before.Attempt == now.Attempt {
		each(*before, func(key string, s promo.Step) { counted[key] = s.Phase.Final() })
	}
	each(now, func(key string, s promo.Step) {
		if !s.Phase.Final() || s.StartedAt.IsZero() || s.FinishedAt.IsZero() || counted[key] {
			return
		}
		m.steps.WithLabelValues(m.known(s.Type), string(s.Phase)).Observe(s.FinishedAt.Sub(s.StartedAt).Seconds())
	})
}

// each calls f with every step under a key that stays over records: stage, place, target, wave and start.
func each(p promo.Promotion, f func(key string, s promo.Step)) {
	for _, stage := range p.Stages {
		for _, s := range stage.Steps {
			f(stage.Name+"\x00"+s.Path+"\x00"+s.Name+"\x00"+s.Target+"\x00"+s.StartedAt.String(), s)
		}
	}
}

func (m *Metrics) known(kind string) string {
	if slices.Contains(m.types, kind) {
		return kind
	}
	return other
}

// Push counts a change of a release repository.
func (m *Metrics) Push(took time.Duration, err error) {
	outcome := "ok"
	switch {
	case err != nil && promo.CodeOf(err) == promo.CodeConflict:
		outcome = "conflict"
	case err != nil:
		outcome = "error"
	}
	m.pushes.WithLabelValues(outcome).Inc()
	m.pushTime.Observe(took.Seconds())
}

func finalPhases() []promo.Phase {
	return []promo.Phase{promo.PhaseSucceeded, promo.PhaseFailed, promo.PhaseAborted, promo.PhaseSuperseded}
}

func activePhases() []promo.Phase {
	return []promo.Phase{promo.PhasePending, promo.PhaseRunning, promo.PhaseWaitingForApproval, promo.PhasePaused}
}

// active asks at each scrape: the store is right even after a restart.
type active struct{ s Sources }

func activeDesc() *prometheus.Desc {
	return prometheus.NewDesc("davit_promotions_active", "Promotions that are under way, by phase.", []string{"phase"}, nil)
}

// Describe is part of prometheus.Collector.
func (a active) Describe(ch chan<- *prometheus.Desc) { ch <- activeDesc() }

// Collect is part of prometheus.Collector.
func (a active) Collect(ch chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeLimit) //nolint:forbidigo // a prometheus.Collector is given none
	defer cancel()
	phases, err := a.s.Active(ctx)
	if err != nil {
		ch <- prometheus.NewInvalidMetric(activeDesc(), err)
		return
	}
	counts := map[promo.Phase]int{}
	for _, p := range phases {
		counts[p]++
	}
	for _, p := range activePhases() {
		ch <- prometheus.MustNewConstMetric(activeDesc(), prometheus.GaugeValue, float64(counts[p]), string(p))
	}
}
