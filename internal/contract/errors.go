package contract

import (
	"context"
	"errors"
	"time"

	"go.temporal.io/sdk/temporal"

	"github.com/davit-cd/davit/internal/promo"
)

// Fault is what an error looks like on the wire.
type Fault struct {
	Code promo.Code `json:"code"`
	Msg  string     `json:"message"`
	Hint string     `json:"hint,omitempty"`
}

// Wire turns an error into Temporal's form at the activity's boundary: its type is the code, which says whether
// to retry. A cancellation passes through untouched.
func Wire(err error) error {
	var known *promo.Error
	isKnown := errors.As(err, &known)
	if err == nil || temporal.IsCanceledError(err) || (errors.Is(err, context.Canceled) && !isKnown) {
		return err
	}
	code := promo.CodeOf(err)
	if errors.Is(err, context.DeadlineExceeded) && !isKnown {
		code = promo.CodeTimeout
	}
	f := Fault{Code: code, Msg: err.Error()}
	if isKnown {
		f.Msg, f.Hint = known.Msg, known.Hint
	}
	o := temporal.ApplicationErrorOptions{NonRetryable: !code.Retryable(), Details: []any{f}}
	var after interface{ RetryAfter() time.Duration }
	if errors.As(err, &after) {
		o.NextRetryDelay = after.RetryAfter()
	}
	return temporal.NewApplicationErrorWithOptions(f.Msg, string(code), o)
}

// WireFrom is Wire for an activity that was given ctx: once that is cancelled, whatever the work says is the
// cancellation, under any name.
func WireFrom(ctx context.Context, err error) error {
	if err != nil && errors.Is(ctx.Err(), context.Canceled) {
		return ctx.Err()
	}
	return Wire(err)
}

// Unwire turns what an activity or child workflow call returned back into the domain's error. It returns nil for
// nil, and for a cancellation, which is the caller's own doing.
func Unwire(err error) *promo.Error {
	if err == nil || temporal.IsCanceledError(err) {
		return nil
	}
	if pe, ok := errors.AsType[*promo.Error](err); ok {
		return pe
	}
	// Where the time for retries ran out, what went wrong each time (the timeout's cause) says more than "timeout".
	if app, ok := errors.AsType[*temporal.ApplicationError](err); ok {
		var f Fault
		if app.HasDetails() && app.Details(&f) == nil && f.Code != "" {
			return &promo.Error{Code: f.Code, Msg: f.Msg, Hint: f.Hint}
		}
		return &promo.Error{Code: promo.CodeInternal, Msg: app.Message()}
	}
	if to, ok := errors.AsType[*temporal.TimeoutError](err); ok {
		return &promo.Error{Code: promo.CodeTimeout, Msg: "timed out: " + to.Message()}
	}
	return &promo.Error{Code: promo.CodeInternal, Msg: err.Error()}
}
