package contract_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"go.temporal.io/sdk/temporal"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

func TestWireRoundTrip(t *testing.T) {
	t.Parallel()
	for _, code := range promo.Codes() {
		in := promo.Errorf(code, "what happened: %w", errors.New("cause")).WithHint("what would be right")
		wired := contract.Wire(fmt.Errorf("around: %w", in))
		var app *temporal.ApplicationError
		if !errors.As(wired, &app) || app.Type() != string(code) || app.NonRetryable() == code.Retryable() {
			t.Errorf("%s: on the wire it is %v", code, wired)
		}
		out := contract.Unwire(wired)
		if out.Code != code || out.Msg != in.Msg || out.Hint != in.Hint {
			t.Errorf("%s: got %+v, want %+v", code, out, in)
		}
	}
}

func TestWireOther(t *testing.T) {
	t.Parallel()
	if contract.Wire(nil) != nil || contract.Unwire(nil) != nil {
		t.Error("no error is none")
	}
	if err := contract.Wire(temporal.NewCanceledError()); !temporal.IsCanceledError(err) || contract.Unwire(err) != nil {
		t.Errorf("a cancellation passes: %v", err)
	}
	if got := contract.Unwire(contract.Wire(errors.New("odd"))); got.Code != promo.CodeInternal || got.Msg != "odd" {
		t.Errorf("an unknown error: %+v", got)
	}
	if got := contract.Unwire(contract.Wire(fmt.Errorf("read: %w", context.DeadlineExceeded))); got.Code != promo.CodeTimeout {
		t.Errorf("a time that is over: %+v", got)
	}
	if err := contract.Wire(fmt.Errorf("read: %w", context.Canceled)); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context passes: %v", err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	known := promo.Errorf(promo.CodeConnectivity, "push: %w", context.Canceled)
	if got := contract.Unwire(contract.WireFrom(ctx, known)); got.Code != promo.CodeConnectivity {
		t.Errorf("somebody else's cancellation keeps its code: %+v", got)
	}
	cancel()
	if err := contract.WireFrom(ctx, known); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled activity is cancelled under any name: %v", err)
	}
	if err := contract.WireFrom(ctx, nil); err != nil {
		t.Errorf("what was done is done: %v", err)
	}
}

func TestOptionsBoundEveryClass(t *testing.T) {
	t.Parallel()
	for _, c := range []plan.Class{plan.ClassQuick, plan.ClassNetwork, plan.ClassChange, plan.ClassSync, ""} {
		o := contract.Options(c)
		if o.StartToCloseTimeout <= 0 || (c != plan.ClassSync && o.ScheduleToCloseTimeout < o.StartToCloseTimeout) {
			t.Errorf("class %q: %s, %s", c, o.StartToCloseTimeout, o.ScheduleToCloseTimeout)
		}
		for _, code := range promo.Codes() {
			never := false
			for _, name := range o.RetryPolicy.NonRetryableErrorTypes {
				never = never || name == string(code)
			}
			if never == code.Retryable() {
				t.Errorf("class %q: %s is retried: %t", c, code, !never)
			}
		}
	}
}
