package agent

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"time"

	"github.com/davit-cd/davit/internal/gateway"
	"github.com/davit-cd/davit/internal/promo"
)

const (
	// batch is how long changes are gathered: a sync makes a dozen in a second.
	batch = 200 * time.Millisecond
	// snapshotEvery bounds how long an application that is gone stays on the server's list.
	snapshotEvery = time.Minute
	// maxPart is the size of one part of a report in bytes of JSON; the gateway takes 4 MiB.
	maxPart = 1 << 20
	// rewatch is the pause before a watch that ended is opened again.
	rewatch = time.Second
)

// reporter tells the server what the engine's applications look like, for as long as one session lasts.
type reporter struct {
	o       Options
	link    *link
	epoch   string
	seq     uint64
	pending map[promo.ApplicationRef]promo.Application
	sent    map[promo.ApplicationRef][sha256.Size]byte
}

func newReporter(o Options, l *link) *reporter {
	var raw [16]byte
	_, _ = rand.Read(raw[:]) // never fails
	return &reporter{
		o: o, link: l, epoch: hex.EncodeToString(raw[:]),
		pending: map[promo.ApplicationRef]promo.Application{}, sent: map[promo.ApplicationRef][sha256.Size]byte{},
	}
}

// run reports until ctx ends or the server can't be told.
func (r *reporter) run(ctx context.Context) error {
	if err := r.snapshot(ctx); err != nil {
		return err
	}
	var events <-chan promo.Application // nil while no watch is open
	flush, whole, watch := time.NewTicker(batch), time.NewTicker(snapshotEvery), time.NewTimer(0)
	defer flush.Stop()
	defer whole.Stop()
	defer watch.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-watch.C:
			if events, err = r.o.Engine.WatchAll(ctx); err != nil {
				r.o.Logger.WarnContext(ctx, "applications can't be watched, trying again", "agent", r.o.Name, "error", err)
				events, err = nil, nil
				watch.Reset(rewatch)
			}
		case app, ok := <-events:
			if !ok {
				events = nil
				watch.Reset(rewatch)
				continue
			}
			r.pending[app.ApplicationRef] = app
		case <-flush.C:
			err = r.flush(ctx)
		case <-whole.C:
			err = r.snapshot(ctx)
		}
		if err != nil {
			return err
		}
	}
}

// flush sends the gathered changes.
func (r *reporter) flush(ctx context.Context) error {
	if len(r.pending) == 0 {
		return nil
	}
	apps := make([]promo.Application, 0, len(r.pending))
	for _, a := range r.pending {
		apps = append(apps, a)
	}
	clear(r.pending)
	for _, part := range r.parts(ctx, apps, false) {
		again, err := r.send(ctx, gateway.Report{Applications: part})
		if err != nil {
			return err
		}
		if again {
			return r.snapshot(ctx)
		}
	}
	return nil
}

// snapshot sends everything. An engine that can't list its applications is tried again at the next one.
func (r *reporter) snapshot(ctx context.Context) error {
	apps, err := r.o.Engine.Applications(ctx)
	if err != nil {
		r.o.Logger.WarnContext(ctx, "applications can't be listed, trying again", "agent", r.o.Name, "error", err)
		return nil
	}
	clear(r.sent)
	parts := r.parts(ctx, apps, true)
	for i, part := range parts {
		again, err := r.send(ctx, gateway.Report{Snapshot: true, More: i < len(parts)-1, Applications: part})
		if err != nil {
			return err
		}
		if again {
			return nil // another replica of this agent got in between; the next snapshot comes soon
		}
	}
	return nil
}

func (r *reporter) send(ctx context.Context, part gateway.Report) (sendSnapshot bool, err error) {
	r.seq++
	part.Epoch, part.Seq = r.epoch, r.seq
	reply, err := r.link.report(ctx, part)
	return reply.SendSnapshot, err
}

// parts cuts applications into parts the gateway takes. Unless all are wanted, it leaves out what the server knows.
func (r *reporter) parts(ctx context.Context, apps []promo.Application, all bool) [][]promo.Application { //nolint:revive // two callers
	parts, size := [][]promo.Application{}, 0
	for _, a := range apps {
		raw, err := json.Marshal(a)
		if err == nil && len(raw) > maxPart {
			r.o.Logger.WarnContext(ctx, "application reported without its resources: it has too many", "agent", r.o.Name, "application", a.Name)
			a.Resources, a.History = nil, nil
			raw, err = json.Marshal(a)
		}
		if err != nil || len(raw) > maxPart {
			r.o.Logger.ErrorContext(ctx, "application not reported: too big", "agent", r.o.Name, "application", a.Name, "bytes", len(raw), "error", err)
			continue
		}
		sum := sha256.Sum256(raw)
		if !all && r.sent[a.ApplicationRef] == sum {
			continue
		}
		r.sent[a.ApplicationRef] = sum
		if len(parts) == 0 || size+len(raw) > maxPart {
			parts, size = append(parts, nil), 0
		}
		parts[len(parts)-1] = append(parts[len(parts)-1], a)
		size += len(raw)
	}
	if all && len(parts) == 0 {
		parts = [][]promo.Application{nil} // an empty snapshot says something too
	}
	return parts
}
