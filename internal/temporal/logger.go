package temporal

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"sync"

	"go.temporal.io/server/common/log/tag"
)

// logger gives the server's log lines to slog and keeps its fatal ones from ending the process.
type logger struct {
	to    *slog.Logger
	level slog.Level
	fatal *fatal
}

// attributes turns Temporal's tags into slog's pairs.
func attributes(tags []tag.Tag) []any {
	out := make([]any, 0, 2*len(tags))
	for _, t := range tags {
		out = append(out, t.Key(), t.Value())
	}
	return out
}

// Debug implements Temporal's logger, as do the other methods.
func (l logger) Debug(msg string, tags ...tag.Tag) {
	if l.level <= slog.LevelDebug {
		l.to.Debug(msg, attributes(tags)...) //nolint:sloglint // the text is Temporal's
	}
}

// Info logs at Info.
func (l logger) Info(msg string, tags ...tag.Tag) {
	if l.level <= slog.LevelInfo {
		l.to.Info(msg, attributes(tags)...) //nolint:sloglint // the text is Temporal's
	}
}

// Warn logs at Warn.
func (l logger) Warn(msg string, tags ...tag.Tag) {
	if l.level <= slog.LevelWarn {
		l.to.Warn(msg, attributes(tags)...) //nolint:sloglint // the text is Temporal's
	}
}

// Error logs at Error.
func (l logger) Error(msg string, tags ...tag.Tag) {
	l.to.Error(msg, attributes(tags)...) //nolint:sloglint // the text is Temporal's
}

// DPanic logs at Error: only development builds of Temporal panic here.
func (l logger) DPanic(msg string, tags ...tag.Tag) { l.Error(msg, tags...) }

// Panic logs at Error and panics, as its callers rely on; Temporal recovers where it means to go on.
func (l logger) Panic(msg string, tags ...tag.Tag) {
	l.Error(msg, tags...)
	panic(msg)
}

// Fatal logs at Error, marks the server as failed and ends only the calling goroutine: the callers rely on
// not returning, and the process has more to do than Temporal.
func (l logger) Fatal(msg string, tags ...tag.Tag) {
	l.Error(msg, tags...)
	l.fatal.record(msg, tags)
	runtime.Goexit()
}

// fatal remembers the first fatal log line of a server.
type fatal struct {
	failed chan struct{}
	once   sync.Once
	why    error // written once, before failed is closed
}

func newFatal() *fatal { return &fatal{failed: make(chan struct{})} }

func (f *fatal) record(msg string, tags []tag.Tag) {
	f.once.Do(func() {
		why := errors.New(strings.ToLower(msg))
		for _, t := range tags {
			if t.Key() == "error" {
				why = fmt.Errorf("%w: %v", why, t.Value())
			}
		}
		if strings.Contains(msg, "gRPC listener") {
			why = fmt.Errorf("%w: %w", errPortTaken, why)
		}
		f.why = why
		close(f.failed)
	})
}

func (f *fatal) err() error {
	select {
	case <-f.failed:
		return f.why
	default:
		return nil
	}
}
