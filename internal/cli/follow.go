package cli

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

const (
	// quietLimit ends a stream that is silent for three of the server's heartbeats: it is dead.
	quietLimit = 45 * time.Second
	// retryPause is between two attempts to follow; the server may be restarting.
	retryPause = time.Second
	// slowPoll is how often state is read where streams don't come through (some proxies hold them back).
	slowPoll = 10 * time.Second
	// maxOutage is how long a server may be away before following it ends.
	maxOutage = 2 * time.Minute
)

// follower follows a thing to its end: by server-sent events, and by a slow poll where those fail.
type follower[T any] struct {
	c      *client
	path   string // of the thing; its stream is path/events
	event  string
	final  func(T) bool
	update func(T) error
	say    func(string, ...any)
}

// run returns the last state. Every state, the last too, goes through update.
func (f follower[T]) run(ctx context.Context) (T, error) {
	var last T
	lost, streams := time.Time{}, 0
	for {
		got, n, err := f.stream(ctx)
		if n > 0 {
			last, lost, streams = got, time.Time{}, 0
			if f.final(last) {
				return last, nil
			}
		}
		if ctx.Err() != nil {
			return last, ctx.Err()
		}
		var e *promo.Error
		if errors.As(err, &e) && e.Code != promo.CodeConnectivity && e.Code != promo.CodeTimeout {
			return last, err
		}
		if n == 0 {
			if lost.IsZero() {
				lost = time.Now()
				if err != nil {
					f.say("lost the server; trying again …")
				}
			} else if time.Since(lost) > maxOutage {
				return last, err
			}
			if streams++; streams > 3 {
				if done, state, err := f.poll(ctx); err != nil || done {
					return state, err
				}
			}
		}
		if err := pause(ctx, retryPause); err != nil {
			return last, err
		}
	}
}

// poll reads the state once, after a while.
func (f follower[T]) poll(ctx context.Context) (done bool, state T, err error) {
	if err := pause(ctx, slowPoll); err != nil {
		return false, state, err
	}
	state, err = get[T](ctx, f.c, f.path, nil)
	if err != nil {
		if promo.CodeOf(err).Retryable() {
			return false, state, nil
		}
		return false, state, err
	}
	if err := f.update(state); err != nil {
		return false, state, err
	}
	return f.final(state), state, nil
}

func pause(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-ctx.Done():
		return ctx.Err()
	case <-t.C:
		return nil
	}
}

// stream reads one stream to its end and returns the last state and how many came.
func (f follower[T]) stream(ctx context.Context) (last T, n int, err error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	silence := time.AfterFunc(quietLimit, cancel)
	defer silence.Stop()
	req, err := f.c.request(ctx, http.MethodGet, f.path+"/events", nil, nil)
	if err != nil {
		return last, 0, err
	}
	res, err := f.c.http.Do(req)
	if err != nil {
		return last, 0, promo.Errorf(promo.CodeConnectivity, "no answer from %s: %w", f.c.URL, err).WithHint("is the server running?")
	}
	defer func() { _ = res.Body.Close() }()
	if res.StatusCode != http.StatusOK {
		b, _ := io.ReadAll(io.LimitReader(res.Body, 1<<20)) // the status says enough where the body is cut
		return last, 0, refusalOf(res, b)
	}
	lines := bufio.NewScanner(res.Body)
	lines.Buffer(nil, maxAnswer)
	event := ""
	for lines.Scan() {
		silence.Reset(quietLimit)
		line := lines.Text()
		if name, ok := strings.CutPrefix(line, "event: "); ok {
			event = name
			continue
		}
		data, ok := strings.CutPrefix(line, "data: ")
		if !ok || event != f.event {
			continue
		}
		var state T
		if err := json.Unmarshal([]byte(data), &state); err != nil {
			return last, n, promo.Errorf(promo.CodeInternal, "the server's stream can't be read: %w", err)
		}
		last, n = state, n+1
		if err := f.update(state); err != nil {
			return last, n, err
		}
		if f.final(state) {
			return last, n, nil
		}
	}
	return last, n, nil
}
