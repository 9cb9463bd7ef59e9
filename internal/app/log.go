package app

import (
	"context"
	"log/slog"
	"strings"
)

// quiet demotes the log lines of Temporal's client by two levels. It reports as an error what is a result here: a
// step that failed, a worker that lost its connection for a moment. Both are seen on the promotion's page.
func quiet(log *slog.Logger) *slog.Logger { return slog.New(demoted{log.Handler()}) }

type demoted struct{ slog.Handler }

const twoLevels = slog.LevelError - slog.LevelInfo

func (d demoted) Enabled(ctx context.Context, l slog.Level) bool { return d.Handler.Enabled(ctx, l) }

func (d demoted) Handle(ctx context.Context, r slog.Record) error {
	if strings.Contains(strings.ToLower(r.Message), "panic") { // a workflow that can't go on: a person is needed
		return d.Handler.Handle(ctx, r)
	}
	r.Level -= twoLevels
	if !d.Handler.Enabled(ctx, r.Level) {
		return nil
	}
	return d.Handler.Handle(ctx, r)
}

func (d demoted) WithAttrs(attrs []slog.Attr) slog.Handler {
	return demoted{d.Handler.WithAttrs(attrs)}
}

func (d demoted) WithGroup(name string) slog.Handler { return demoted{d.Handler.WithGroup(name)} }
