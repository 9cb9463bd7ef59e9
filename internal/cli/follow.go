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
	gone := outage{say: f.say}
	for {
		got, n, err := f.stream(ctx)
		if n > 0 {
			last, gone.since, gone.streams = got, time.Time{}, 0
		}
		switch {
		case ctx.Err() != nil:
			return last, ctx.Err()
		case err != nil && !transient(err):
			return last, err
		case n > 0 && f.final(last):
			return last, nil
		case n == 0:
			if err := gone.over(err); err != nil {
				return last, err
			}
		}
		if gone.streams > 3 { // streams don't come through
			if state, done, err := f.poll(ctx); err != nil || done {
				return state, err
			}
		}
		if err := pause(ctx, retryPause); err != nil {
			return last, err
		}
	}
}

// outage counts streams that brought nothing.
type outage struct {
	since   time.Time
	streams int
	say     func(string, ...any)
}

// over returns the error once the server has been away for too long.
func (o *outage) over(err error) error {
	o.streams++
	if o.since.IsZero() {
		o.since = time.Now()
		if err != nil {
			o.say("lost the server; trying again …")
		}
	}
	if time.Since(o.since) > maxOutage {
		return err // nil where streams end without a state: then the poll goes on
	}
	return nil
}

// transient is trouble on the way, which may pass.
func transient(err error) bool {
	var e *promo.Error
	return errors.As(err, &e) && (e.Code == promo.CodeConnectivity || e.Code == promo.CodeTimeout || e.Code == promo.CodeRateLimit)
}

// poll reads the state once, after a while.
func (f follower[T]) poll(ctx context.Context) (state T, done bool, err error) {
	if err := pause(ctx, slowPoll); err != nil {
		return state, false, err
	}
	state, err = get[T](ctx, f.c, f.path, nil)
	if err != nil {
		if transient(err) {
			err = nil
		}
		return state, false, err
	}
	return state, f.final(state), f.update(state)
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
