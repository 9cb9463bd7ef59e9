package temporal

import (
	"maps"
	"strings"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"go.temporal.io/sdk/client"
)

// sdkLabels are the tags that become labels: closed sets, all of them. A tag outside it is dropped, so that a
// new release of the SDK can't blow up the number of series.
func sdkLabels() []string {
	return []string{
		"activity_type", "cause", "failure_reason", "namespace", "operation", "poller_type", "status_code",
		"task_queue", "worker_type", "workflow_type",
	}
}

// NewMetricsHandler returns a handler that keeps the metrics of Temporal's clients and workers in reg.
// Counters end in _total and timers in _seconds; one name can't have two kinds.
func NewMetricsHandler(reg prometheus.Registerer) client.MetricsHandler {
	return metricsHandler{sdk: &sdkMetrics{reg: reg, labels: sdkLabels(), vecs: map[string]prometheus.Collector{}}}
}

// sdkMetrics makes each family when its first value arrives: only the SDK knows their names.
type sdkMetrics struct {
	reg    prometheus.Registerer
	labels []string
	mu     sync.Mutex
	vecs   map[string]prometheus.Collector
}

// family returns the family of a name, made and registered by newVec the first time.
func family[V prometheus.Collector](m *sdkMetrics, name string, newVec func() V) (V, bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if known, ok := m.vecs[name]; ok {
		v, ok := known.(V)
		return v, ok
	}
	v := newVec()
	if err := m.reg.Register(v); err != nil {
		return v, false // somebody else has that name: the metric is lost, the worker goes on
	}
	m.vecs[name] = v
	return v, true
}

type metricsHandler struct {
	sdk  *sdkMetrics
	tags map[string]string
}

// WithTags returns a handler with more tags; the newer value of a tag wins.
func (h metricsHandler) WithTags(tags map[string]string) client.MetricsHandler {
	merged := maps.Clone(h.tags)
	if merged == nil {
		merged = map[string]string{}
	}
	maps.Copy(merged, tags)
	return metricsHandler{sdk: h.sdk, tags: merged}
}

// values lists the label values in the order of the labels; "none" is the SDK's word for unset.
func (h metricsHandler) values() []string {
	out := make([]string, len(h.sdk.labels))
	for i, l := range h.sdk.labels {
		if v := h.tags[l]; v != "none" {
			out[i] = v
		}
	}
	return out
}

type (
	discard     struct{}
	counterFunc func(int64)
	gaugeFunc   func(float64)
	timerFunc   func(time.Duration)
)

func (f counterFunc) Inc(n int64)          { f(n) }
func (f gaugeFunc) Update(v float64)       { f(v) }
func (f timerFunc) Record(d time.Duration) { f(d) }
func (discard) Inc(int64)                  {}
func (discard) Update(float64)             {}
func (discard) Record(time.Duration)       {}
func seconds(name string) string           { return strings.TrimSuffix(name, "_seconds") + "_seconds" }
func total(name string) string             { return strings.TrimSuffix(name, "_total") + "_total" }
func describe(name string) (help string)   { return "Temporal SDK metric " + name + "." }

// Counter implements client.MetricsHandler.
func (h metricsHandler) Counter(name string) client.MetricsCounter {
	v, ok := family(h.sdk, total(name), func() *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Name: total(name), Help: describe(name)}, h.sdk.labels)
	})
	if !ok {
		return discard{}
	}
	c := v.WithLabelValues(h.values()...)
	return counterFunc(func(n int64) { c.Add(max(0, float64(n))) })
}

// Gauge implements client.MetricsHandler.
func (h metricsHandler) Gauge(name string) client.MetricsGauge {
	v, ok := family(h.sdk, name, func() *prometheus.GaugeVec {
		return prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: name, Help: describe(name)}, h.sdk.labels)
	})
	if !ok {
		return discard{}
	}
	return gaugeFunc(v.WithLabelValues(h.values()...).Set)
}

// Timer implements client.MetricsHandler.
func (h metricsHandler) Timer(name string) client.MetricsTimer {
	v, ok := family(h.sdk, seconds(name), func() *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: seconds(name), Help: describe(name),
			Buckets: prometheus.ExponentialBuckets(0.002, 4, 10), // 2 ms (a local call) to 9 min (a long activity)
		}, h.sdk.labels)
	})
	if !ok {
		return discard{}
	}
	o := v.WithLabelValues(h.values()...)
	return timerFunc(func(d time.Duration) { o.Observe(d.Seconds()) })
}
