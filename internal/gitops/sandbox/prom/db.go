// Package prom keeps the metrics of sandbox clusters in an embedded Prometheus time series database and answers
// PromQL over Prometheus's HTTP query API, so that whatever reads a real Prometheus reads this one. It knows
// nothing of clusters. Start reading at DB, then at Handler.
package prom

import (
	"context"
	"errors"
	"log/slog"
	"math"
	"time"

	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/promql"
	"github.com/prometheus/prometheus/promql/parser"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/davit-cd/davit/internal/promo"
)

// Options describe a database. Only Dir is needed.
type Options struct {
	// Dir holds the samples; it survives restarts and is locked while the database is open.
	Dir string
	// Retention is how long samples are kept, 24 h by default; MaxBytes bounds the blocks, 256 MiB by default.
	Retention time.Duration
	MaxBytes  int64
	Logger    *slog.Logger
	// Now is the time of queries that name none; time.Now by default.
	Now func() time.Time
}

// Sample is one value of a series at the time of the append. Name is the metric's name.
type Sample struct {
	Name   string
	Labels map[string]string
	Value  float64
	// Gone ends the series, so that it doesn't linger in instant queries; Value is ignored.
	Gone bool
}

// DB is the database. Its methods may be called from any goroutine.
type DB struct {
	tsdb   *tsdb.DB
	engine *promql.Engine
	parser parser.Parser
	now    func() time.Time
	log    *slog.Logger
	slots  chan struct{}
}

const (
	queryTimeout = 15 * time.Second
	// maxQuerySamples is what one query may load: 16 bytes each.
	maxQuerySamples = 5_000_000
	lookback        = 5 * time.Minute // Prometheus's default
	maxConcurrent   = 4               // queries at once; the others wait
)

// Open opens or makes a database.
func Open(o Options) (*DB, error) {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Retention <= 0 {
		o.Retention = 24 * time.Hour
	}
	if o.MaxBytes <= 0 {
		o.MaxBytes = 256 << 20
	}
	options := tsdb.DefaultOptions()
	options.RetentionDuration, options.MaxBytes = o.Retention.Milliseconds(), o.MaxBytes
	options.StripeSize = 1 << 8      // few series: the default reserves a map for millions
	options.WALSegmentSize = 4 << 20 // a fresh cluster should not reserve 128 MiB
	options.HeadChunksWriteQueueSize = 0
	db, err := tsdb.Open(o.Dir, o.Logger, nil, options, nil)
	if err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "open the metrics in %q: %w", o.Dir, err).
			WithHint("another process may have it open; or move the directory away to start without metrics")
	}
	p := parser.NewParser(parser.Options{})
	return &DB{
		tsdb: db, now: o.Now, log: o.Logger, slots: make(chan struct{}, maxConcurrent), parser: p,
		engine: promql.NewEngine(promql.EngineOpts{
			Logger: o.Logger, MaxSamples: maxQuerySamples, Timeout: queryTimeout, LookbackDelta: lookback,
			EnableAtModifier: true, EnableNegativeOffset: true, Parser: p,
			NoStepSubqueryIntervalFn: func(int64) int64 { return time.Second.Milliseconds() }, // the distance of samples
		}),
	}, nil
}

// Append stores samples of one moment. Samples older than those stored are left out: a clock that was set back
// must not stop a cluster.
func (db *DB) Append(ctx context.Context, at time.Time, samples []Sample) error {
	app := db.tsdb.Appender(ctx)
	for _, s := range samples {
		builder := labels.NewScratchBuilder(len(s.Labels) + 1)
		builder.Add(labels.MetricName, s.Name) //nolint:staticcheck // the constant is the one that stored series have
		for name, v := range s.Labels {
			if v != "" { // an empty label is no label
				builder.Add(name, v)
			}
		}
		builder.Sort()
		v := s.Value
		if s.Gone {
			v = math.Float64frombits(value.StaleNaN)
		}
		_, err := app.Append(0, builder.Labels(), at.UnixMilli(), v)
		switch {
		case errors.Is(err, storage.ErrOutOfOrderSample), errors.Is(err, storage.ErrOutOfBounds),
			errors.Is(err, storage.ErrTooOldSample), errors.Is(err, storage.ErrDuplicateSampleForTimestamp):
		case err != nil:
			return errors.Join(promo.Errorf(promo.CodeInternal, "store a sample of %q: %w", s.Name, err), app.Rollback())
		}
	}
	if err := app.Commit(); err != nil {
		return promo.Errorf(promo.CodeInternal, "store samples: %w", err)
	}
	return nil
}

// Close writes out what is in memory and unlocks the directory. Nothing may be appended any more.
func (db *DB) Close() error {
	if err := errors.Join(db.engine.Close(), db.tsdb.Close()); err != nil {
		return promo.Errorf(promo.CodeInternal, "close the metrics: %w", err)
	}
	return nil
}
