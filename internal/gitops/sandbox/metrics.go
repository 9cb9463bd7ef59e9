package sandbox

import (
	"context"
	"hash/fnv"
	"math"
	"strconv"
	"time"

	"github.com/davit-cd/davit/internal/gitops/sandbox/prom"
)

// requestRate is how many requests a second a workload gets, shared by its ready pods. It is enough for an error
// rate of one percent to show within seconds.
const requestRate = 40.0

// bounds are the upper bounds of the latency histogram in seconds (client_golang's defaults).
func bounds() []float64 {
	return []float64{0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10}
}

// meter turns running pods into metrics. Only the cluster's own goroutine uses it.
type meter struct {
	db      *prom.DB
	cluster string
	traffic map[labelSet]*traffic
	gauges  map[labelSet]bool
	last    time.Time
}

// labelSet identifies the series of one version of a workload; version and app are empty for gauges.
type labelSet struct{ app, namespace, environment, version, deployment string }

func (l labelSet) labels(cluster string, more ...string) map[string]string {
	out := map[string]string{
		"app": l.app, "namespace": l.namespace, "cluster": cluster, "environment": l.environment,
		"version": l.version, "deployment": l.deployment,
	}
	for i := 0; i+1 < len(more); i += 2 {
		out[more[i]] = more[i+1]
	}
	return out
}

// traffic is what one version has answered since it started: counters, which begin at zero.
type traffic struct {
	good, bad float64
	seconds   float64
	buckets   []float64 // requests at or below each bound
}

func newMeter(db *prom.DB, cluster string) *meter {
	return &meter{db: db, cluster: cluster, traffic: map[labelSet]*traffic{}, gauges: map[labelSet]bool{}}
}

// load is what the pods of one version are asked and how they answer.
type load struct {
	share     float64 // of a workload's requests; more than 1 if several workloads call themselves the same
	errorRate float64
	latency   time.Duration
}

// with adds a workload's share; the last one's latency counts.
func (l load) with(p podSet, share float64) load {
	all := l.share + share
	return load{share: all, errorRate: (l.errorRate*l.share + p.ErrorRate*share) / all, latency: p.Latency}
}

// scrape samples every running workload.
func (c *Cluster) scrape(ctx context.Context) {
	c.mu.Lock()
	now := c.clock.Now()
	c.at("scrape", now.Add(c.timings.Scrape), c.scrape)
	loads, ready := c.loads(now)
	c.mu.Unlock()
	if err := c.metrics.record(ctx, now, loads, ready); err != nil {
		c.log.ErrorContext(ctx, "metrics not stored", "error", err)
	}
}

// loads gathers what runs now. The caller holds c.mu.
func (c *Cluster) loads(now time.Time) (map[labelSet]load, map[labelSet]int) {
	loads, ready := map[labelSet]load{}, map[labelSet]int{}
	for key, l := range c.objects {
		if len(l.Pods) == 0 || key.Kind == "Job" {
			continue
		}
		id := labelSet{namespace: key.Namespace}
		if a := c.apps[l.Owner]; a != nil {
			id.environment = a.Spec.Labels["davit.dev/environment"]
		}
		counts, total := l.running(now), 0
		for _, n := range counts {
			total += n
		}
		if key.Kind == "Deployment" {
			gauge := id
			gauge.deployment = key.Name
			ready[gauge] = total
		}
		for i, p := range l.Pods {
			if counts[i] > 0 {
				id.app, id.version = p.App, p.Version
				loads[id] = loads[id].with(p, float64(counts[i])/float64(total))
			}
		}
	}
	return loads, ready
}

func (m *meter) record(ctx context.Context, now time.Time, loads map[labelSet]load, ready map[labelSet]int) error {
	passed := now.Sub(m.last).Seconds()
	if m.last.IsZero() || passed < 0 || passed > 60 { // a machine that slept served nobody
		passed = 0
	}
	m.last = now
	var samples []prom.Sample
	for id, l := range loads {
		t, known := m.traffic[id]
		if known {
			t.serve(l, passed*requestRate*l.share*jitter(id, now))
		} else { // the first sample is zero, so that the first increase counts
			t = &traffic{buckets: make([]float64, len(bounds()))}
			m.traffic[id] = t
		}
		samples = append(samples, m.samplesOf(id, t, false)...)
	}
	for id, t := range m.traffic {
		if _, runs := loads[id]; !runs {
			samples = append(samples, m.samplesOf(id, t, true)...)
			delete(m.traffic, id)
		}
	}
	for id, n := range ready {
		m.gauges[id] = true
		samples = append(samples, prom.Sample{Name: "kube_deployment_status_replicas_ready", Labels: id.labels(m.cluster), Value: float64(n)})
	}
	for id := range m.gauges {
		if _, lives := ready[id]; !lives {
			delete(m.gauges, id)
			samples = append(samples, prom.Sample{Name: "kube_deployment_status_replicas_ready", Labels: id.labels(m.cluster), Gone: true})
		}
	}
	return m.db.Append(ctx, now, samples)
}

// serve counts n requests.
func (t *traffic) serve(l load, n float64) {
	t.bad += n * l.errorRate
	t.good += n * (1 - l.errorRate)
	median := math.Max(l.latency.Seconds(), 0.0001)
	t.seconds += n * median * math.Exp(spread*spread/2)
	for i, bound := range bounds() {
		t.buckets[i] += n * shareBelow(bound, median)
	}
}

// spread is the width of the log-normal distribution of latencies: the 95th percentile is 2.3 medians.
const spread = 0.5

// shareBelow is the share of requests that take at most bound seconds.
func shareBelow(bound, median float64) float64 {
	return 0.5 * math.Erfc(-math.Log(bound/median)/(spread*math.Sqrt2))
}

// jitter varies traffic by a tenth, the same way on every run, so that graphs and statistics look alive.
func jitter(id labelSet, now time.Time) float64 {
	h := fnv.New32a()
	for _, s := range []string{id.app, id.namespace, id.version, strconv.FormatInt(now.Unix(), 10)} {
		_, _ = h.Write([]byte(s)) // a hash takes everything
	}
	return 0.9 + 0.2*float64(h.Sum32()%1000)/1000
}

func (m *meter) samplesOf(id labelSet, t *traffic, gone bool) []prom.Sample {
	var out []prom.Sample
	add := func(name string, v float64, more ...string) {
		out = append(out, prom.Sample{Name: name, Labels: id.labels(m.cluster, more...), Value: v, Gone: gone})
	}
	good, bad := math.Floor(t.good), math.Floor(t.bad)
	add("http_requests_total", good, "code", "200")
	add("http_requests_total", bad, "code", "500")
	for i, bound := range bounds() {
		add("http_request_duration_seconds_bucket", math.Floor(t.buckets[i]), "le", strconv.FormatFloat(bound, 'g', -1, 64))
	}
	add("http_request_duration_seconds_bucket", math.Floor(t.good+t.bad), "le", "+Inf")
	add("http_request_duration_seconds_count", math.Floor(t.good+t.bad))
	add("http_request_duration_seconds_sum", t.seconds)
	return out
}
