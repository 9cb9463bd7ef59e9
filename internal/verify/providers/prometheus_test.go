package providers

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
)

var (
	start = time.Unix(1435781430, 0)
	end   = time.Unix(1435781460, 0)
)

// answer is a server that gives one recorded answer.
func answer(t *testing.T, status int, body string) *Prometheus {
	t.Helper()
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if err := r.ParseForm(); err != nil || r.Form.Get("query") == "" || r.Form.Get("step") == "" {
			http.Error(w, "not a range query", http.StatusTeapot)
			return
		}
		if got := r.Header.Get("Authorization"); got != "Bearer t0ken" || r.Header.Get("X-Scope-OrgID") != "acme" {
			http.Error(w, "who are you", http.StatusTeapot)
			return
		}
		w.Header().Set("Content-Type", "application/json")
		w.Header().Set("Retry-After", "7")
		w.WriteHeader(status)
		_, _ = fmt.Fprint(w, body)
	}))
	t.Cleanup(s.Close)
	p, err := NewPrometheus(PrometheusOptions{URL: s.URL, Client: s.Client(), Bearer: "t0ken", Tenant: "acme", Timeout: 5 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func TestPrometheusRange(t *testing.T) {
	t.Parallel()
	p := answer(t, 200, `{"status":"success","data":{"resultType":"matrix","result":[
		{"metric":{"__name__":"up","pod":"a"},"values":[[1435781430,"1"],[1435781445,"NaN"],[1435781460,"+Inf"]]},
		{"metric":{},"values":[[1435781460,"-0.25"]]}]},"warnings":["PromQL warning: metric might not be a counter"]}`)
	got, err := p.Range(t.Context(), "up", start, end, 15*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	want := []Series{
		{Labels: map[string]string{"__name__": "up", "pod": "a"}, Points: []Point{{start, 1, true}, {start.Add(15 * time.Second), 0, false}, {end, 0, false}}},
		{Labels: map[string]string{}, Points: []Point{{end, -0.25, true}}},
	}
	if d := cmp.Diff(want, got, cmp.Comparer(func(a, b time.Time) bool { return a.Equal(b) })); d != "" {
		t.Errorf("-want +got:\n%s", d)
	}
}

func TestPrometheusTrouble(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		status int
		body   string
		code   promo.Code
		says   string
	}{
		"BadQuery":  {400, `{"status":"error","errorType":"bad_data","error":"parse error: unclosed"}`, promo.CodeConfiguration, "unclosed"},
		"Exec":      {422, `{"status":"error","errorType":"execution","error":"many-to-many"}`, promo.CodeConfiguration, "many-to-many"},
		"Timeout":   {503, `{"status":"error","errorType":"timeout","error":"query timed out"}`, promo.CodeConnectivity, "503"},
		"Down":      {502, `bad gateway`, promo.CodeConnectivity, "prometheus"},
		"Auth":      {401, ``, promo.CodeAuthentication, "401"},
		"Forbidden": {403, ``, promo.CodeAuthorization, "403"},
		"Rate":      {429, ``, promo.CodeRateLimit, "wait 7"},
		"Partial":   {200, `{"status":"success","data":{"resultType":"matrix","result":[]},"warnings":["store x unavailable"]}`, promo.CodeConnectivity, "partial"},
		"Scalar":    {200, `{"status":"success","data":{"resultType":"scalar","result":[1435781460,"1"]}}`, promo.CodeConfiguration, "scalar"},
		"Nonsense":  {200, `<html>`, promo.CodeConnectivity, "prometheus"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := answer(t, tc.status, tc.body).Range(t.Context(), "up", start, end, 15*time.Second)
			if promo.CodeOf(err) != tc.code || err == nil || !strings.Contains(err.Error(), tc.says) {
				t.Errorf("got %v (%s), want %s with %q", err, promo.CodeOf(err), tc.code, tc.says)
			}
			if err != nil && strings.Contains(err.Error(), "t0ken") {
				t.Errorf("the token is in the message: %v", err)
			}
		})
	}
}

func TestPrometheusGone(t *testing.T) {
	t.Parallel()
	s := httptest.NewServer(http.NotFoundHandler())
	s.Close()
	p, err := NewPrometheus(PrometheusOptions{URL: s.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err = p.Range(t.Context(), "up", start, end, time.Second); promo.CodeOf(err) != promo.CodeConnectivity {
		t.Errorf("a server that is gone: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = p.Range(ctx, "up", start, end, time.Second); promo.CodeOf(err) != promo.CodeTimeout {
		t.Errorf("a cancelled query: %v", err)
	}
	if _, err = p.Range(t.Context(), "up", start, end, time.Millisecond); promo.CodeOf(err) != promo.CodeConfiguration {
		t.Errorf("too many points: %v", err)
	}
	for _, u := range []string{"", "prom:9090", "ftp://x", "http://"} {
		if _, err := NewPrometheus(PrometheusOptions{URL: u}); promo.CodeOf(err) != promo.CodeConfiguration {
			t.Errorf("address %q: %v", u, err)
		}
	}
}
