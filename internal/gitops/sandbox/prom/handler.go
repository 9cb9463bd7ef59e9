package prom

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/common/model"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/promql"
)

const (
	maxBody   = 64 << 10
	maxPoints = 11000 // Prometheus's own limit of points a series
	maxSeries = 10000 // what labels and series return at most
)

// The error types of Prometheus's API.
const (
	errBadData     = "bad_data"
	errTimeout     = "timeout"
	errCanceled    = "canceled"
	errExecution   = "execution"
	errInternal    = "internal"
	errUnavailable = "unavailable"
)

// apiError is an error with the type that Prometheus's API gives it.
type apiError struct {
	kind string
	err  error
}

func (e *apiError) Error() string { return e.err.Error() }
func (e *apiError) Unwrap() error { return e.err }

func (e *apiError) status() int {
	switch e.kind {
	case errBadData:
		return http.StatusBadRequest
	case errExecution:
		return http.StatusUnprocessableEntity
	case errTimeout, errCanceled, errUnavailable:
		return http.StatusServiceUnavailable
	default:
		return http.StatusInternalServerError
	}
}

func badData(format string, args ...any) error {
	return &apiError{kind: errBadData, err: fmt.Errorf(format, args...)}
}

// reply is Prometheus's envelope.
type reply struct {
	Status    string   `json:"status"`
	Data      any      `json:"data,omitempty"`
	ErrorType string   `json:"errorType,omitempty"`
	Error     string   `json:"error,omitempty"`
	Warnings  []string `json:"warnings,omitempty"`
	Infos     []string `json:"infos,omitempty"`
}

// answer computes the data of a reply.
type answer func(ctx context.Context, r *http.Request) (reply, error)

// Handler serves /api/v1/query, query_range, series, labels and label/{name}/values, by GET or POST, as
// Prometheus does. Queries wait for one of a few slots, end after 15 s, and are bounded in size.
func (db *DB) Handler() http.Handler {
	mux := http.NewServeMux()
	for path, f := range map[string]answer{
		"/api/v1/query":               db.query,
		"/api/v1/query_range":         db.queryRange,
		"/api/v1/series":              db.series,
		"/api/v1/labels":              db.labelNames,
		"/api/v1/label/{name}/values": db.labelValues,
	} {
		mux.Handle("GET "+path, db.serve(f))
		mux.Handle("POST "+path, db.serve(f))
	}
	mux.HandleFunc("GET /-/ready", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) })
	return mux
}

func (db *DB) serve(f answer) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
		defer cancel()
		out, err := db.answer(ctx, w, r, f)
		status := http.StatusOK
		if err != nil {
			var known *apiError
			if !errors.As(err, &known) {
				known = &apiError{kind: errInternal, err: err}
			}
			out, status = reply{Status: "error", ErrorType: known.kind, Error: known.Error()}, known.status()
		}
		text, err := json.Marshal(out)
		if err != nil {
			text, status = []byte(`{"status":"error","errorType":"internal","error":"answer cannot be written"}`), http.StatusInternalServerError
		}
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(status)
		if _, err := w.Write(text); err != nil {
			db.log.DebugContext(ctx, "answer not sent", "error", err)
		}
	})
}

func (db *DB) answer(ctx context.Context, w http.ResponseWriter, r *http.Request, f answer) (reply, error) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		return reply{}, badData("error parsing form values: %w", err)
	}
	select {
	case db.slots <- struct{}{}:
		defer func() { <-db.slots }()
	case <-ctx.Done():
		return reply{}, &apiError{kind: errUnavailable, err: errors.New("too many queries at once")}
	}
	return f(ctx, r)
}

func (db *DB) query(ctx context.Context, r *http.Request) (reply, error) {
	at, err := timeParam(r, "time", db.now())
	if err != nil {
		return reply{}, err
	}
	ctx, cancel, err := withTimeout(ctx, r)
	if err != nil {
		return reply{}, err
	}
	defer cancel()
	q, err := db.engine.NewInstantQuery(ctx, db.tsdb, nil, r.FormValue("query"), at)
	if err != nil {
		return reply{}, badData("invalid parameter \"query\": %w", err)
	}
	defer q.Close()
	return result(q.Exec(ctx), r.FormValue("query"))
}

func (db *DB) queryRange(ctx context.Context, r *http.Request) (reply, error) {
	start, err := timeParam(r, "start", time.Time{})
	if err != nil {
		return reply{}, err
	}
	end, err := timeParam(r, "end", time.Time{})
	if err != nil {
		return reply{}, err
	}
	step, err := durationParam(r, "step")
	switch {
	case err != nil:
		return reply{}, err
	case start.IsZero() || end.IsZero():
		return reply{}, badData("invalid parameter \"start\" or \"end\": cannot parse \"\" to a valid timestamp")
	case end.Before(start):
		return reply{}, badData("invalid parameter \"end\": end timestamp must not be before start time")
	case step <= 0:
		return reply{}, badData("invalid parameter \"step\": zero or negative query resolution step widths are not accepted. Try a positive integer")
	case end.Sub(start)/step > maxPoints:
		return reply{}, badData("exceeded maximum resolution of 11,000 points per timeseries. Try decreasing the query resolution (?step=XX)")
	}
	ctx, cancel, err := withTimeout(ctx, r)
	if err != nil {
		return reply{}, err
	}
	defer cancel()
	q, err := db.engine.NewRangeQuery(ctx, db.tsdb, nil, r.FormValue("query"), start, end, step)
	if err != nil {
		return reply{}, badData("invalid parameter \"query\": %w", err)
	}
	defer q.Close()
	return result(q.Exec(ctx), r.FormValue("query"))
}

func withTimeout(ctx context.Context, r *http.Request) (context.Context, context.CancelFunc, error) {
	if r.FormValue("timeout") == "" {
		return ctx, func() {}, nil
	}
	d, err := durationParam(r, "timeout")
	if err != nil {
		return nil, nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, d)
	return ctx, cancel, nil
}

// result writes a query's result in Prometheus's form. The result's memory belongs to the query, so it is copied
// before the query is closed.
func result(res *promql.Result, query string) (reply, error) {
	if res.Err != nil {
		return reply{}, engineError(res.Err)
	}
	warnings, infos := res.Warnings.AsStrings(query, 10, 10) // Prometheus's own numbers
	out := reply{Status: "success", Warnings: warnings, Infos: infos}
	data := map[string]any{"resultType": res.Value.Type()}
	switch v := res.Value.(type) {
	case promql.Vector:
		list := make([]any, 0, len(v))
		for _, s := range v {
			list = append(list, map[string]any{"metric": s.Metric.Map(), "value": point(s.T, s.F)})
		}
		data["result"] = list
	case promql.Matrix:
		list := make([]any, 0, len(v))
		for _, s := range v {
			values := make([]any, 0, len(s.Floats))
			for _, p := range s.Floats {
				values = append(values, point(p.T, p.F))
			}
			list = append(list, map[string]any{"metric": s.Metric.Map(), "values": values})
		}
		data["result"] = list
	case promql.Scalar:
		data["result"] = point(v.T, v.V)
	case promql.String:
		data["result"] = [2]any{seconds(v.T), v.V}
	default:
		return reply{}, &apiError{kind: errInternal, err: fmt.Errorf("result of type %q", res.Value.Type())}
	}
	out.Data = data
	return out, nil
}

func engineError(err error) error {
	var (
		canceled promql.ErrQueryCanceled
		timeout  promql.ErrQueryTimeout
		storage  promql.ErrStorage
	)
	kind := errExecution
	switch {
	case errors.As(err, &canceled):
		kind = errCanceled
	case errors.As(err, &timeout):
		kind = errTimeout
	case errors.As(err, &storage):
		kind = errInternal
	}
	return &apiError{kind: kind, err: err}
}

func point(t int64, v float64) [2]any {
	return [2]any{seconds(t), strconv.FormatFloat(v, 'f', -1, 64)}
}

func seconds(t int64) json.Number {
	return json.Number(strconv.FormatFloat(float64(t)/1000, 'f', -1, 64))
}

func (db *DB) series(ctx context.Context, r *http.Request) (reply, error) {
	sets, err := db.matchers(r)
	if err != nil {
		return reply{}, err
	}
	if len(sets) == 0 {
		return reply{}, badData("no match[] parameter provided")
	}
	start, end, err := span(r)
	if err != nil {
		return reply{}, err
	}
	q, err := db.tsdb.Querier(start, end)
	if err != nil {
		return reply{}, err
	}
	defer q.Close() //nolint:errcheck // a reader
	out := []map[string]string{}
	seen := map[uint64]bool{}
	for _, matchers := range sets {
		found := q.Select(ctx, true, nil, matchers...)
		for found.Next() && len(out) < maxSeries {
			l := found.At().Labels()
			if !seen[l.Hash()] {
				seen[l.Hash()] = true
				out = append(out, l.Map())
			}
		}
		if found.Err() != nil {
			return reply{}, engineError(found.Err())
		}
	}
	return reply{Status: "success", Data: out}, nil
}

func (db *DB) labelNames(ctx context.Context, r *http.Request) (reply, error) {
	return db.strings(r, func(start, end int64, m []*labels.Matcher) ([]string, error) {
		q, err := db.tsdb.Querier(start, end)
		if err != nil {
			return nil, err
		}
		defer q.Close() //nolint:errcheck // a reader
		names, _, err := q.LabelNames(ctx, nil, m...)
		return names, err
	})
}

func (db *DB) labelValues(ctx context.Context, r *http.Request) (reply, error) {
	name := r.PathValue("name")
	return db.strings(r, func(start, end int64, m []*labels.Matcher) ([]string, error) {
		q, err := db.tsdb.Querier(start, end)
		if err != nil {
			return nil, err
		}
		defer q.Close() //nolint:errcheck // a reader
		values, _, err := q.LabelValues(ctx, name, nil, m...)
		return values, err
	})
}

// strings joins what read finds for each selector.
func (db *DB) strings(r *http.Request, read func(start, end int64, m []*labels.Matcher) ([]string, error)) (reply, error) {
	sets, err := db.matchers(r)
	if err != nil {
		return reply{}, err
	}
	if len(sets) == 0 {
		sets = [][]*labels.Matcher{nil}
	}
	start, end, err := span(r)
	if err != nil {
		return reply{}, err
	}
	all := map[string]bool{}
	for _, m := range sets {
		found, err := read(start, end, m)
		if err != nil {
			return reply{}, engineError(err)
		}
		for _, s := range found {
			all[s] = true
		}
	}
	return reply{Status: "success", Data: firstSorted(all)}, nil
}

func (db *DB) matchers(r *http.Request) ([][]*labels.Matcher, error) {
	var sets [][]*labels.Matcher
	for _, text := range r.Form["match[]"] {
		m, err := db.parser.ParseMetricSelector(text)
		if err != nil {
			return nil, badData("invalid parameter \"match[]\": %w", err)
		}
		sets = append(sets, m)
	}
	return sets, nil
}

func span(r *http.Request) (start, end int64, err error) {
	from, err := timeParam(r, "start", time.UnixMilli(math.MinInt64/2))
	if err != nil {
		return 0, 0, err
	}
	to, err := timeParam(r, "end", time.UnixMilli(math.MaxInt64/2))
	return from.UnixMilli(), to.UnixMilli(), err
}

func timeParam(r *http.Request, name string, otherwise time.Time) (time.Time, error) {
	text := r.FormValue(name)
	if text == "" {
		return otherwise, nil
	}
	if f, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(f) < 1e12 {
		return time.UnixMilli(int64(math.Round(f * 1000))), nil
	}
	if t, err := time.Parse(time.RFC3339Nano, text); err == nil {
		return t, nil
	}
	return time.Time{}, badData("invalid parameter %q: cannot parse %q to a valid timestamp", name, text)
}

func durationParam(r *http.Request, name string) (time.Duration, error) {
	text := r.FormValue(name)
	if f, err := strconv.ParseFloat(text, 64); err == nil && math.Abs(f) < 1e9 {
		return time.Duration(f * float64(time.Second)), nil
	}
	if d, err := model.ParseDuration(text); err == nil {
		return time.Duration(d), nil
	}
	return 0, badData("invalid parameter %q: cannot parse %q to a valid duration", name, text)
}

func firstSorted(set map[string]bool) []string {
	sorted := slices.Sorted(maps.Keys(set))
	return append([]string{}, sorted[:min(len(sorted), maxSeries)]...) // never null
}
