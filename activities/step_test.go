package activities_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/converter"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/testsuite"

	"github.com/davit-cd/davit/activities"
	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
)

// run runs a step type as a worker does.
func run(t *testing.T, fn func(context.Context, steps.In) (steps.Out, error), setUp func(*testsuite.TestActivityEnvironment)) (plan.Result, string, error) {
	t.Helper()
	var suite testsuite.WorkflowTestSuite
	suite.SetLogger(sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)))
	env := suite.NewTestActivityEnvironment()
	var logged bytes.Buffer
	typ := steps.Type{Kind: "Probe", Class: plan.ClassNetwork, Run: fn}
	activities.RegisterStep(env, typ, func(string) steps.Ports { return steps.Ports{} }, slog.New(slog.NewTextHandler(&logged, nil)))
	if setUp != nil {
		setUp(env)
	}
	v, err := env.ExecuteActivity("Probe", plan.Call{Operation: "op-1", Run: plan.RunInfo{ID: "p/x/1", Project: "p"}})
	if err != nil {
		return plan.Result{}, logged.String(), err
	}
	var res plan.Result
	if err := v.Get(&res); err != nil {
		t.Fatal(err)
	}
	return res, logged.String(), nil
}

func TestStepPanics(t *testing.T) {
	t.Parallel()
	_, logged, err := run(t, func(context.Context, steps.In) (steps.Out, error) { panic("token hunter2") }, nil)
	got := contract.Unwire(err)
	if got == nil || got.Code != promo.CodeInternal || !strings.Contains(got.Msg, "op-1") {
		t.Fatalf("got %+v", got)
	}
	for _, secret := range []string{"hunter2", "goroutine", ".go:"} {
		if strings.Contains(err.Error(), secret) {
			t.Errorf("people are shown %q: %v", secret, err)
		}
	}
	if !strings.Contains(logged, "hunter2") || !strings.Contains(logged, "op-1") {
		t.Errorf("the log doesn't say what happened: %s", logged)
	}
}

func TestStepBounds(t *testing.T) {
	t.Parallel()
	long := func(n int) []byte { return []byte(`"` + strings.Repeat("x", n-2) + `"`) }
	for name, tc := range map[string]struct {
		reason string
		out    steps.Out
		code   promo.Code
	}{
		"outputs fit":     {reason: "16 KiB are allowed", out: steps.Out{Outputs: long(16 << 10)}},
		"outputs too big": {reason: "a byte more is not, and trying again can't help", out: steps.Out{Outputs: long(16<<10 + 1)}, code: promo.CodeConfiguration},
		"state fits":      {reason: "4 KiB are allowed", out: steps.Out{Again: &steps.Again{State: long(4 << 10)}}},
		"state too big":   {reason: "a byte more is not", out: steps.Out{Again: &steps.Again{State: long(4<<10 + 1)}}, code: promo.CodeConfiguration},
		"long message":    {reason: "a message is cut", out: steps.Out{Message: strings.Repeat("ä", 5000)}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			res, _, err := run(t, func(context.Context, steps.In) (steps.Out, error) { return tc.out, nil }, nil)
			if tc.code == "" {
				if err != nil || len(res.Outputs) != len(tc.out.Outputs) || len(res.Message) > 3000 {
					t.Errorf("%s: got %d bytes, a message of %d, %v", tc.reason, len(res.Outputs), len(res.Message), err)
				}
				return
			}
			var app *temporal.ApplicationError
			if !errors.As(err, &app) || app.Type() != string(tc.code) || !app.NonRetryable() {
				t.Errorf("%s: got %v", tc.reason, err)
			}
		})
	}
}

func TestStepErrors(t *testing.T) {
	t.Parallel()
	_, _, err := run(t, func(context.Context, steps.In) (steps.Out, error) {
		return steps.Out{Message: "half"}, promo.Errorf(promo.CodeNotFound, "no such file").WithHint("make it")
	}, nil)
	if got := contract.Unwire(err); got.Code != promo.CodeNotFound || got.Msg != "no such file" || got.Hint != "make it" {
		t.Errorf("got %+v", got)
	}
}

func TestCancelledStep(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	_, _, err := run(t, func(ctx context.Context, _ steps.In) (steps.Out, error) {
		cancel()
		<-ctx.Done()
		return steps.Out{}, promo.Errorf(promo.CodeConnectivity, "git push: %w", ctx.Err())
	}, func(env *testsuite.TestActivityEnvironment) {
		env.SetWorkerOptions(workerOptions(ctx))
	})
	// A worker tells the server of a cancellation where the error is the context's own, and of a failure otherwise.
	if err == nil || !strings.HasSuffix(err.Error(), context.Canceled.Error()) || strings.Contains(err.Error(), "git push") {
		t.Errorf("a cancelled step that calls it a lost connection is cancelled: got %v", err)
	}
}

func TestHeartbeat(t *testing.T) {
	t.Parallel()
	beats := 0
	_, _, err := run(t, func(_ context.Context, in steps.In) (steps.Out, error) {
		in.Ports.Heartbeat()
		return steps.Out{}, nil
	}, func(env *testsuite.TestActivityEnvironment) {
		env.SetOnActivityHeartbeatListener(func(*activity.Info, converter.EncodedValues) { beats++ })
	})
	if err != nil || beats == 0 {
		t.Errorf("%d heartbeats, %v: only they carry a cancellation to the step", beats, err)
	}
}

// limited is an error of a forge that says when to come back.
type limited struct{ error }

func (limited) RetryAfter() time.Duration { return 42 * time.Second }

func (l limited) Unwrap() error { return l.error }

func TestRetryAfter(t *testing.T) {
	t.Parallel()
	_, _, err := run(t, func(context.Context, steps.In) (steps.Out, error) {
		return steps.Out{}, limited{promo.Errorf(promo.CodeRateLimit, "slow down")}
	}, nil)
	var app *temporal.ApplicationError
	if !errors.As(err, &app) || app.NextRetryDelay() != 42*time.Second || app.NonRetryable() || app.Type() != string(promo.CodeRateLimit) {
		t.Errorf("got %v, next try in %v", err, app.NextRetryDelay())
	}
}
