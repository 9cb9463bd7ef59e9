package activities

import (
	"context"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"go.temporal.io/sdk/activity"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
)

const (
	// beat is well below every heartbeat timeout in contract.Options.
	beat = 5 * time.Second
	// maxOutputs and maxState bound what travels through histories (architecture, "Workflows").
	maxOutputs = 16 << 10
	maxState   = 4 << 10
	maxMessage = 2 << 10
)

// RegisterStep offers one step type: it beats the heart, hands the step its ports, bounds what it answers and turns
// a panic into an error. The server and the agent both use it.
func RegisterStep(r contract.Registry, t steps.Type, ports func(project string) steps.Ports, log *slog.Logger) {
	contract.Step(t.Kind, t.Class).Register(r, wired(func(ctx context.Context, call plan.Call) (res plan.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				log.ErrorContext(ctx, "step panicked", "step", t.Kind, "operation", call.Operation, "panic", fmt.Sprint(p))
				err = promo.Errorf(promo.CodeInternal, "step type %s broke: a bug in Davit, see the server's log for operation %s", t.Kind, call.Operation)
			}
		}()
		stop := keepBeating(ctx)
		defer stop()
		in := steps.In{
			Call: call, Ports: ports(call.Run.Project),
			Log: log.With("promotion", call.Run.ID, "stage", call.Stage.Name, "step", call.Stage.Step, "operation", call.Operation),
		}
		in.Ports.Heartbeat = func() { activity.RecordHeartbeat(ctx) }
		res, err = t.Run(ctx, in)
		if err != nil {
			return plan.Result{}, err
		}
		res.Message = short(res.Message)
		if err := bounded(t, res); err != nil {
			return plan.Result{}, err
		}
		return res, nil
	}))
}

// short cuts a message for people where it is longer than anybody reads.
func short(s string) string {
	if len(s) <= maxMessage {
		return s
	}
	return strings.ToValidUTF8(s[:maxMessage], "") + "…"
}

// bounded refuses answers that are too large. Asking again would give the same, so the code is one that is not retried.
func bounded(t steps.Type, res plan.Result) error {
	if len(res.Outputs) > maxOutputs {
		return promo.Errorf(promo.CodeConfiguration, "step type %s answered %d bytes of outputs, %d are allowed", t.Kind, len(res.Outputs), maxOutputs)
	}
	if res.Again != nil && len(res.Again.State) > maxState {
		return promo.Errorf(promo.CodeConfiguration, "step type %s keeps %d bytes of state, %d are allowed", t.Kind, len(res.Again.State), maxState)
	}
	return nil
}

// keepBeating sends heartbeats until stop is called. Only they carry a cancellation to the activity.
func keepBeating(ctx context.Context) (stop func()) {
	if activity.GetInfo(ctx).HeartbeatTimeout == 0 {
		return func() {}
	}
	done := make(chan struct{})
	go func() {
		t := time.NewTicker(beat)
		defer t.Stop()
		for {
			select {
			case <-t.C:
				activity.RecordHeartbeat(ctx)
			case <-ctx.Done():
				return
			case <-done:
				return
			}
		}
	}()
	return func() { close(done) }
}
