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
// to retry. A cancellation (Temporal's own) passes through untouched.
func Wire(err error) error {
	if err == nil || temporal.IsCanceledError(err) {
		return err
	}
	code := promo.CodeOf(err)
	var known *promo.Error
	if errors.Is(err, context.DeadlineExceeded) && !errors.As(err, &known) {
		code = promo.CodeTimeout
	}
	f := Fault{Code: code, Msg: err.Error()}
	var pe *promo.Error
	if errors.As(err, &pe) {
		f.Msg, f.Hint = pe.Msg, pe.Hint
	}
	o := temporal.ApplicationErrorOptions{NonRetryable: !code.Retryable(), Details: []any{f}}
	var after interface{ RetryAfter() time.Duration }
	if errors.As(err, &after) {
		o.NextRetryDelay = after.RetryAfter()
	}
	return temporal.NewApplicationErrorWithOptions(f.Msg, string(code), o)
}

// Unwire turns what an activity or child workflow call returned back into the domain's error. It returns nil for
// nil, and for a cancellation, which is the caller's own doing.
func Unwire(err error) *promo.Error {
	if err == nil || temporal.IsCanceledError(err) {
		return nil
	}
	var pe *promo.Error
	if errors.As(err, &pe) {
		return pe
	}
	// Where the time for retries ran out, what went wrong each time (the timeout's cause) says more than "timeout".
	var app *temporal.ApplicationError
	if errors.As(err, &app) {
		var f Fault
		if app.HasDetails() && app.Details(&f) == nil && f.Code != "" {
			return &promo.Error{Code: f.Code, Msg: f.Msg, Hint: f.Hint}
		}
		return &promo.Error{Code: promo.CodeInternal, Msg: app.Message()}
	}
	var to *temporal.TimeoutError
	if errors.As(err, &to) {
		return &promo.Error{Code: promo.CodeTimeout, Msg: "timed out: " + to.Message()}
	}
	return &promo.Error{Code: promo.CodeInternal, Msg: err.Error()}
}
