package prom_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/api"
	v1 "github.com/prometheus/client_golang/api/prometheus/v1"
	"github.com/prometheus/common/model"

	"github.com/davit-cd/davit/internal/gitops/sandbox/prom"
)

var start = time.Date(2026, 5, 4, 12, 0, 0, 0, time.UTC)

func open(t *testing.T, dir string) *prom.DB {
	t.Helper()
	db, err := prom.Open(prom.Options{Dir: dir, Now: func() time.Time { return start.Add(time.Minute) }})
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// fill stores a counter that grows by 10 a second for a minute and a gauge that ends after 30 s.
func fill(t *testing.T, db *prom.DB) {
	t.Helper()
	for i := range 61 {
		at := start.Add(time.Duration(i) * time.Second)
		samples := []prom.Sample{{Name: "requests_total", Labels: map[string]string{"app": "a", "empty": ""}, Value: float64(10 * i)}}
		if i <= 30 {
			samples = append(samples, prom.Sample{Name: "up", Labels: map[string]string{"app": "b"}, Value: 1, Gone: i == 30})
		}
		if err := db.Append(t.Context(), at, samples); err != nil {
			t.Fatal(err)
		}
	}
}

// client is the real Prometheus client on a served database.
func client(t *testing.T, db *prom.DB) (v1.API, string) {
	t.Helper()
	server := httptest.NewServer(db.Handler())
	t.Cleanup(server.Close)
	c, err := api.NewClient(api.Config{Address: server.URL})
	if err != nil {
		t.Fatal(err)
	}
	return v1.NewAPI(c), server.URL
}

func TestRealClient(t *testing.T) {
	t.Parallel()
	db := open(t, t.TempDir())
	t.Cleanup(func() { _ = db.Close() })
	fill(t, db)
	c, _ := client(t, db)
	end := start.Add(time.Minute)

	for query, want := range map[string]string{
		`rate(requests_total[30s])`:   `{app="a"} => 10 @[` + end.Format("1.000") + `]`,
		`sum(requests_total) / 2`:     "{} => 300",
		`absent(up{app="b"})`:         `{app="b"} => 1`, // it ended
		`up{app="b"} offset 40s`:      `up{app="b"} => 1`,
		`scalar(requests_total)`:      "scalar: 600",
		`requests_total @ 1777896005`: `requests_total{app="a"} => 50`, // start + 5 s
		`nothing`:                     "",
	} {
		value, warnings, infos, err := c.Query(t.Context(), query, end)
		want, _, _ = strings.Cut(want, " @[")
		if err != nil || len(warnings)+len(infos) > 0 || !strings.HasPrefix(value.String(), want) {
			t.Errorf("%s = %q, %v, %v; want %q", query, value, warnings, err, want)
		}
	}
	value, _, _, err := c.QueryRange(t.Context(), `rate(requests_total[10s])`, v1.Range{Start: start.Add(20 * time.Second), End: end, Step: 10 * time.Second})
	matrix, ok := value.(model.Matrix)
	if err != nil || !ok || len(matrix) != 1 || len(matrix[0].Values) != 5 || matrix[0].Values[4].Value != 10 {
		t.Errorf("range: %v, %v", value, err)
	}
	series, _, _, err := c.Series(t.Context(), []string{`{app=~".+"}`}, start, end)
	if err != nil || len(series) != 2 {
		t.Errorf("series: %v, %v", series, err)
	}
	names, _, _, err := c.LabelNames(t.Context(), nil, start, end)
	if diff := cmp.Diff(model.LabelNames{"__name__", "app"}, names); err != nil || diff != "" {
		t.Errorf("label names: %v %s", err, diff)
	}
	values, _, _, err := c.LabelValues(t.Context(), "app", []string{"up"}, start, end)
	if diff := cmp.Diff(model.LabelValues{"b"}, values); err != nil || diff != "" {
		t.Errorf("label values: %v %s", err, diff)
	}
}

func TestClientErrors(t *testing.T) {
	t.Parallel()
	db := open(t, t.TempDir())
	t.Cleanup(func() { _ = db.Close() })
	fill(t, db)
	c, _ := client(t, db)
	cases := map[string]struct {
		query string
		kind  v1.ErrorType
		want  string
	}{
		"syntax":        {"sum(", v1.ErrBadData, "parse error"},
		"unknown":       {"nope(x)", v1.ErrBadData, "unknown function"},
		"empty":         {"", v1.ErrBadData, "parse error"},
		"many to many":  {`{app=~".+"} * on() {app=~".+"}`, v1.ErrExec, "many-to-many"},
		"too big a one": {`count_over_time(vector(1)[2h:1ms])`, v1.ErrExec, "too many samples"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, _, _, err := c.Query(t.Context(), tc.query, start.Add(25*time.Second))
			var got *v1.Error
			if !errors.As(err, &got) || got.Type != tc.kind || !strings.Contains(got.Msg, tc.want) {
				t.Errorf("got %v, want %s: %s", err, tc.kind, tc.want)
			}
		})
	}
	_, _, _, err := c.QueryRange(t.Context(), "up", v1.Range{Start: start, End: start.Add(24 * time.Hour), Step: time.Second})
	if err == nil || !strings.Contains(err.Error(), "11,000 points") {
		t.Errorf("resolution: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, _, err := c.Query(ctx, "up", start); !errors.Is(err, context.Canceled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestForms asks as other clients do: GET, POST with a form, no time, RFC 3339 times, durations as steps.
func TestForms(t *testing.T) {
	t.Parallel()
	db := open(t, t.TempDir())
	t.Cleanup(func() { _ = db.Close() })
	fill(t, db)
	_, address := client(t, db)
	params := func(pairs ...string) url.Values {
		v := url.Values{}
		for i := 0; i < len(pairs); i += 2 {
			v.Add(pairs[i], pairs[i+1])
		}
		return v
	}
	at := func(s int) string { return start.Add(time.Duration(s) * time.Second).Format(time.RFC3339) }
	cases := map[string]struct {
		path   string
		params url.Values
		status int
		want   string
	}{
		"no time":       {"query", params("query", "requests_total"), 200, `"value":[1777896060,"600"]`},
		"rfc 3339":      {"query", params("query", "requests_total", "time", at(1)), 200, `"value":[1777896001,"10"]`},
		"timeout":       {"query", params("query", "1", "timeout", "5s"), 200, `"resultType":"scalar","result"`},
		"empty result":  {"query", params("query", "nothing"), 200, `"result":[]`},
		"infinity":      {"query", params("query", "1/0"), 200, `"+Inf"`},
		"range":         {"query_range", params("query", "up", "start", at(0), "end", at(2), "step", "1s"), 200, `"values":[[1777896000,"1"]`},
		"bad time":      {"query", params("query", "1", "time", "now"), 400, `"errorType":"bad_data"`},
		"bad timeout":   {"query", params("query", "1", "timeout", "soon"), 400, `"errorType":"bad_data"`},
		"no start":      {"query_range", params("query", "up", "end", at(2), "step", "1s"), 400, `invalid parameter`},
		"end first":     {"query_range", params("query", "up", "start", at(2), "end", at(1), "step", "1s"), 400, `before start`},
		"step zero":     {"query_range", params("query", "up", "start", at(1), "end", at(2), "step", "0"), 400, `zero or negative`},
		"no match":      {"series", params(), 400, `no match[]`},
		"bad match":     {"labels", params("match[]", "{"), 400, `match[]`},
		"no such label": {"label/a-b/values", params(), 200, `"data":[]`},
		"text":          {"query", params("query", `"hi"`), 200, `"hi"]`},
		"too long":      {"query", params("query", strings.Repeat("1+", 40000)+"1"), 400, "too large"},
	}
	for name, tc := range cases {
		for _, method := range []string{http.MethodGet, http.MethodPost} {
			if name == "too long" && method == http.MethodGet {
				continue // the server's header limit is the one that counts there
			}
			t.Run(fmt.Sprint(name, " ", method), func(t *testing.T) {
				t.Parallel()
				status, body := ask(t, method, address+"/api/v1/"+tc.path, tc.params)
				var envelope struct{ Status string }
				if err := json.Unmarshal([]byte(body), &envelope); err != nil || (envelope.Status == "success") != (tc.status == 200) {
					t.Errorf("%v in %s", err, body)
				}
				want := strings.ReplaceAll(tc.want, `"resultType":"scalar","result"`, `"resultType":"scalar"`)
				if status != tc.status || !strings.Contains(body, want) {
					t.Errorf("got %d %s, want %d %s", status, body, tc.status, want)
				}
			})
		}
	}
}

func ask(t *testing.T, method, address string, params url.Values) (int, string) {
	t.Helper()
	var (
		req *http.Request
		err error
	)
	if method == http.MethodGet {
		req, err = http.NewRequestWithContext(t.Context(), method, address+"?"+params.Encode(), nil)
	} else {
		req, err = http.NewRequestWithContext(t.Context(), method, address, strings.NewReader(params.Encode()))
	}
	if err != nil {
		t.Fatal(err)
	}
	if method == http.MethodPost {
		req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	}
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	var body strings.Builder
	if err := res.Write(&body); err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(body.String(), "\r\n\r\n")
	return res.StatusCode, text
}

func TestSamplesSurviveARestart(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := open(t, dir)
	fill(t, db)
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	db = open(t, dir)
	t.Cleanup(func() { _ = db.Close() })
	c, _ := client(t, db)
	value, _, _, err := c.Query(t.Context(), "requests_total", start.Add(time.Minute))
	if err != nil || !strings.Contains(value.String(), "=> 600") {
		t.Errorf("got %v, %v", value, err)
	}
}

func TestTimeThatStandsStillOrGoesBackIsNoError(t *testing.T) {
	t.Parallel()
	db := open(t, t.TempDir())
	t.Cleanup(func() { _ = db.Close() })
	fill(t, db)
	for _, at := range []time.Duration{time.Minute, 10 * time.Second, -48 * time.Hour} {
		if err := db.Append(t.Context(), start.Add(at), []prom.Sample{{Name: "requests_total", Labels: map[string]string{"app": "a"}, Value: 7}}); err != nil {
			t.Errorf("%s: %v", at, err)
		}
	}
}

func TestALockedDirectoryIsRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	db := open(t, dir)
	t.Cleanup(func() { _ = db.Close() })
	if second, err := prom.Open(prom.Options{Dir: dir}); err == nil {
		_ = second.Close()
		t.Error("two processes would write the same files")
	}
}
