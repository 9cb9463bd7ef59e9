// Package providers fetches metrics from where they are kept. A provider answers with series of points and tells
// its own trouble apart from what the points say; it does not judge.
//
// It must not know steps, windows or thresholds. Start reading at Prometheus.
package providers

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/davit-cd/davit/internal/promo"
)

// Limits of one query.
const (
	maxBody   = 64 << 20 // a body beyond this is a query without its aggregation
	maxPoints = 11_000   // Prometheus refuses more per series
	maxSeries = 1_000    // a judge of so many series judges noise
)

// Series is one series of points, in order of time.
type Series struct {
	Labels map[string]string
	Points []Point
}

// Point is one value; NaN and infinities have Valid false.
type Point struct {
	T     time.Time
	V     float64
	Valid bool
}

// PrometheusOptions say where a Prometheus is. Thanos, Mimir and VictoriaMetrics speak the same.
type PrometheusOptions struct {
	URL string
	// Client makes the requests; it decides which addresses may be dialled.
	Client *http.Client
	// Bearer is sent as a token, where set.
	Bearer promo.Secret
	// Tenant is sent as X-Scope-OrgID, where set.
	Tenant string
	// Timeout bounds a query; 30 s by default, as Prometheus' own clients have it.
	Timeout time.Duration
}

// Prometheus queries a Prometheus server.
type Prometheus struct {
	api     v1.API
	timeout time.Duration
}

// NewPrometheus checks the options; it does not dial.
func NewPrometheus(o PrometheusOptions) (*Prometheus, error) {
	u, err := url.Parse(o.URL)
	if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" {
		return nil, promo.Errorf(promo.CodeConfiguration, "%q is no address of a Prometheus", redacted(o.URL)).
			WithHint("write it as http://host:9090")
	}
	next := http.DefaultTransport
	if o.Client != nil && o.Client.Transport != nil {
		next = o.Client.Transport
	}
	client := &http.Client{Transport: &transport{next: next, bearer: o.Bearer, tenant: o.Tenant}}
	if o.Client != nil {
		client.CheckRedirect = o.Client.CheckRedirect
	}
	c, err := api.NewClient(api.Config{Address: o.URL, Client: client})
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "address of a Prometheus: %w", err)
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	return &Prometheus{api: v1.NewAPI(c), timeout: o.Timeout}, nil
}

func redacted(s string) string {
	if u, err := url.Parse(s); err == nil {
		return u.Redacted()
	}
	return "the address"
}

// Range evaluates the query at start, start+step, … up to end. No series is an empty result, not an error. A
// partial answer is a Connectivity error: judging it could let a bad release pass.
func (p *Prometheus) Range(ctx context.Context, query string, start, end time.Time, step time.Duration) ([]Series, error) {
	if step <= 0 || end.Before(start) || end.Sub(start)/step >= maxPoints {
		return nil, promo.Errorf(promo.CodeConfiguration, "%s at steps of %s has too many points", end.Sub(start), step).
			WithHint("at most %d", maxPoints)
	}
	ctx, cancel := context.WithTimeout(ctx, p.timeout)
	defer cancel()
	value, warnings, _, err := p.api.QueryRange(ctx, query, v1.Range{Start: start, End: end, Step: step}, v1.WithTimeout(p.timeout))
	if err != nil {
		return nil, trouble(ctx, query, err)
	}
	for _, w := range warnings {
		// Notes on the query itself say nothing about missing data.
		if !strings.HasPrefix(w, "PromQL info:") && !strings.HasPrefix(w, "PromQL warning:") {
			return nil, promo.Errorf(promo.CodeConnectivity, "the answer may be partial: %s", clip(w))
		}
	}
	matrix, ok := value.(model.Matrix)
	if !ok {
		return nil, promo.Errorf(promo.CodeConfiguration, "query %q has no series of numbers but %s", clip(query), value.Type())
	}
	if len(matrix) > maxSeries {
		return nil, promo.Errorf(promo.CodeConfiguration, "query %q has %d series", clip(query), len(matrix)).
			WithHint("aggregate it, for instance with sum(…)")
	}
	return convert(matrix), nil
}

func convert(matrix model.Matrix) []Series {
	out := make([]Series, 0, len(matrix))
	for _, s := range matrix {
		c := Series{Labels: make(map[string]string, len(s.Metric)), Points: make([]Point, 0, len(s.Values))}
		for k, v := range s.Metric {
			c.Labels[string(k)] = string(v)
		}
		for _, v := range s.Values {
			f := float64(v.Value)
			valid := !math.IsNaN(f) && !math.IsInf(f, 0)
			if !valid {
				f = 0 // JSON has no word for it; Valid says it
			}
			c.Points = append(c.Points, Point{T: v.Timestamp.Time(), V: f, Valid: valid})
		}
		out = append(out, c)
	}
	return out
}

// trouble turns the client's errors into ours: who can mend it decides the code.
func trouble(ctx context.Context, query string, err error) error {
	var ours *promo.Error
	var theirs *v1.Error
	switch {
	case errors.As(err, &ours):
		return ours
	case ctx.Err() != nil:
		return promo.Errorf(promo.CodeTimeout, "query %q was not answered in time", clip(query))
	case !errors.As(err, &theirs):
		return promo.Errorf(promo.CodeConnectivity, "prometheus: %s", clip(err.Error()))
	}
	switch theirs.Type {
	case v1.ErrBadData, v1.ErrExec:
		return promo.Errorf(promo.CodeConfiguration, "query %q is refused: %s", clip(query), clip(theirs.Msg))
	case v1.ErrTimeout, v1.ErrCanceled:
		return promo.Errorf(promo.CodeTimeout, "query %q took too long: %s", clip(query), clip(theirs.Msg))
	}
	return promo.Errorf(promo.CodeConnectivity, "prometheus: %s", clip(theirs.Msg))
}

// clip keeps what others wrote short enough for a message.
func clip(s string) string {
	const most = 300
	if len(s) > most {
		s = strings.ToValidUTF8(s[:most], "") + "…"
	}
	return s
}

// transport adds what authorises a request, bounds the answer, and names the statuses that the client library
// does not tell apart.
type transport struct {
	next   http.RoundTripper
	bearer promo.Secret
	tenant string
}

func (t *transport) RoundTrip(req *http.Request) (*http.Response, error) {
	r := req.Clone(req.Context())
	if token := t.bearer.Reveal(); token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	if t.tenant != "" {
		r.Header.Set("X-Scope-OrgID", t.tenant)
	}
	resp, err := t.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	if code, ok := statusCodes(resp.StatusCode); ok {
		_ = resp.Body.Close()
		e := promo.Errorf(code, "prometheus answers %d", resp.StatusCode)
		if after := resp.Header.Get("Retry-After"); after != "" && code == promo.CodeRateLimit {
			e = e.WithHint("it asks to wait %s", clip(after))
		}
		return nil, e
	}
	resp.Body = &bounded{Closer: resp.Body, r: io.LimitReader(resp.Body, maxBody+1)}
	return resp, nil
}

func statusCodes(status int) (promo.Code, bool) {
	switch status {
	case http.StatusUnauthorized:
		return promo.CodeAuthentication, true
	case http.StatusForbidden:
		return promo.CodeAuthorization, true
	case http.StatusTooManyRequests:
		return promo.CodeRateLimit, true
	}
	return "", false
}

// bounded refuses to read more than maxBody.
type bounded struct {
	io.Closer
	r    io.Reader
	read int64
}

func (b *bounded) Read(p []byte) (int, error) {
	n, err := b.r.Read(p)
	if b.read += int64(n); b.read > maxBody {
		return n, promo.Errorf(promo.CodeConfiguration, "the answer has more than %s", fmt.Sprintf("%d MiB", maxBody>>20))
	}
	return n, err
}
