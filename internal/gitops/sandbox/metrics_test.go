package sandbox

import (
	"math"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/davit-cd/davit/internal/gitops/sandbox/prom"
	"github.com/davit-cd/davit/internal/promo"
)

// metered is a world with metrics and a PromQL client on them.
type metered struct {
	*world
	client v1.API
}

func newMetered(t *testing.T) metered {
	t.Helper()
	db, err := prom.Open(prom.Options{Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	server := httptest.NewServer(db.Handler())
	t.Cleanup(server.Close)
	c, err := api.NewClient(api.Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return metered{world: newWorld(t, db), client: v1.NewAPI(c)}
}

// query returns the value of a query with at most one series; NaN if there is none.
func (m metered) query(q string) float64 {
	m.t.Helper()
	value, _, _, err := m.client.Query(m.t.Context(), q, m.clock.Now())
	if err != nil {
		m.t.Fatalf("%s: %v", q, err)
	}
	vector, ok := value.(model.Vector)
	if !ok || len(vector) > 1 {
		m.t.Fatalf("%s = %v", q, value)
	}
	if len(vector) == 0 {
		return math.NaN()
	}
	return float64(vector[0].Value)
}

const errorRate = `sum(rate(http_requests_total{app="checkout",code=~"5.."}[30s])) / sum(rate(http_requests_total{app="checkout"}[30s]))`

func TestMetrics(t *testing.T) {
	t.Parallel()
	m := newMetered(t)
	m.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, "")})
	ref := m.deployed("app", "")
	m.advance(30 * time.Second)
	labels := `{app="checkout",namespace="shop",cluster="us-east",environment="prod",version="1.0.0",code="200"}`
	if got := m.query("rate(http_requests_total" + labels + "[30s])"); got < 30 || got > 50 {
		t.Errorf("a healthy workload answers about 40 requests a second, got %v", got)
	}
	if got := m.query(errorRate); got != 0 {
		t.Errorf("error rate of a good release is %v", got)
	}
	if got := m.query(`kube_deployment_status_replicas_ready{deployment="checkout"}`); got != 2 {
		t.Errorf("%v replicas ready", got)
	}
	median := `histogram_quantile(0.5, sum by (le) (rate(http_request_duration_seconds_bucket{app="checkout"}[30s])))`
	if got := m.query(median); got < 0.025 || got > 0.05 {
		t.Errorf("median latency %v s, want about 0.04", got)
	}

	bad := m.commit(map[string]string{"app/d.yaml": workload("Deployment", "2.0.0", 2, `davit.dev/sandbox-error-rate: "0.12", davit.dev/sandbox-latency: 300ms`)})
	m.sync(ref, "bad", bad, promo.SyncOptions{})
	m.advance(6 * time.Second) // a rollout of 1.5 s and a few samples
	if got := m.query(`sum(rate(http_requests_total{version="2.0.0",code="500"}[30s]))`); math.IsNaN(got) || got <= 0 {
		t.Errorf("errors show within seconds, got %v", got)
	}
	m.advance(35 * time.Second)
	if got := m.query(errorRate); math.Abs(got-0.12) > 0.01 {
		t.Errorf("error rate of the bad release is %v", got)
	}
	if got := m.query(median); got < 0.25 || got > 0.5 {
		t.Errorf("median latency %v s, want about 0.3", got)
	}
	if got := m.query(`sum(http_requests_total{version="1.0.0"})`); !math.IsNaN(got) {
		t.Errorf("the old version's series ended, got %v", got)
	}
}

func TestMetricsOfACrashAndOfADeletion(t *testing.T) {
	t.Parallel()
	m := newMetered(t)
	m.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 2, "")})
	ref := m.deployed("app", "")
	bad := m.commit(map[string]string{"app/d.yaml": workload("Deployment", "2.0.0", 2, "davit.dev/sandbox-fail: crashloop")})
	m.sync(ref, "bad", bad, promo.SyncOptions{})
	m.advance(20 * time.Second)
	if got := m.query(`sum(http_requests_total{version="2.0.0"})`); !math.IsNaN(got) {
		t.Errorf("pods that crash answer nothing, got %v", got)
	}
	if got := m.query(`kube_deployment_status_replicas_ready`); got != 2 {
		t.Errorf("the old pods stay: %v ready", got)
	}
	if err := m.EditLive(t.Context(), ref, LiveEdit{Resource: promo.ResourceRef{Group: "apps", Kind: "Deployment", Name: "checkout"}, Delete: true}); err != nil {
		t.Fatal(err)
	}
	m.advance(2 * time.Second)
	if got := m.query(`kube_deployment_status_replicas_ready`); !math.IsNaN(got) {
		t.Errorf("a deleted Deployment has no replicas, got %v", got)
	}
}

func TestWrongAnnotationsFailTheOperation(t *testing.T) {
	t.Parallel()
	for name, annotation := range map[string]string{
		"share":    `davit.dev/sandbox-error-rate: "2"`,
		"number":   `davit.dev/sandbox-error-rate: "NaN"`,
		"duration": "davit.dev/sandbox-start: soon",
		"too long": "davit.dev/sandbox-latency: 10h",
		"word":     "davit.dev/sandbox-fail: explode",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, nil)
			w.commit(map[string]string{"app/d.yaml": workload("Deployment", "1.0.0", 1, annotation)})
			ref := w.declare("app", "")
			w.sync(ref, "a", "", promo.SyncOptions{})
			w.advance(time.Second)
			last := w.get(ref).LastOperation
			key, _, _ := strings.Cut(annotation, ":")
			if last.Phase != promo.OperationFailed || !strings.Contains(last.Message, key) {
				t.Errorf("got %s, %q", last.Phase, last.Message)
			}
		})
	}
}
