package promo_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
)

func TestErrorText(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		err    error
		want   string
	}{
		"plain": {"the message alone", promo.Errorf(promo.CodeConflict, "branch %q moved", "main"), `branch "main" moved`},
		"hint":  {"the hint follows in brackets", promo.Errorf(promo.CodeNotFound, "no commit").WithHint("try %q", "HEAD"), `no commit (try "HEAD")`},
		"wrapped once": {
			"a cause in the message is not printed again", promo.Errorf(promo.CodeConnectivity, "read: %w", io.ErrUnexpectedEOF),
			"read: unexpected EOF",
		},
		"wrapped in the middle": {
			"wherever the verb stands", promo.Errorf(promo.CodeConnectivity, "read (%w) of %q", io.EOF, "x"), `read (EOF) of "x"`,
		},
		"two causes": {"both are in the message already", promo.Errorf(promo.CodeInternal, "%w, then %w", io.EOF, io.ErrClosedPipe), "EOF, then io: read/write on closed pipe"},
		"cause beside the message": {
			"a cause set by hand is printed", &promo.Error{Code: promo.CodeInternal, Msg: "save", Err: io.EOF}, "save: EOF",
		},
		"errors in errors": {
			"each level says its part once",
			promo.Errorf(promo.CodeConflict, "apply: %w", promo.Errorf(promo.CodeNotFound, "open: %w", io.EOF).WithHint("look")),
			"apply: open: EOF (look)",
		},
		"hint on a wrapping error": {
			"the cause stays silent in the copy", promo.Errorf(promo.CodeTimeout, "wait: %w", io.EOF).WithHint("later"), "wait: EOF (later)",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if diff := cmp.Diff(tc.want, tc.err.Error()); diff != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestErrorChain(t *testing.T) {
	t.Parallel()
	inner := promo.Errorf(promo.CodeNotFound, "open: %w", io.EOF)
	for name, err := range map[string]error{
		"one":       inner,
		"hinted":    inner.WithHint("h"),
		"rewrapped": promo.Errorf(promo.CodeConflict, "more: %w", inner),
		"several":   promo.Errorf(promo.CodeConflict, "%w and %w", context.Canceled, inner),
		"joined":    errors.Join(context.Canceled, inner),
	} {
		if !errors.Is(err, io.EOF) {
			t.Errorf("%s: the cause is lost from the chain of %q", name, err)
		}
	}
	if !errors.Is(promo.Errorf(promo.CodeTimeout, "call: %w", context.DeadlineExceeded), context.DeadlineExceeded) {
		t.Error("a deadline is no longer recognised")
	}
	if hinted := inner.WithHint("h"); inner.Hint != "" || hinted.Hint != "h" {
		t.Error("WithHint changed the original")
	}
}

func TestCodeOf(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		err    error
		want   promo.Code
	}{
		"own":     {"its own code", promo.Errorf(promo.CodeSync, "x"), promo.CodeSync},
		"outer":   {"the first of the chain decides", promo.Errorf(promo.CodeConflict, "x: %w", promo.Errorf(promo.CodeTimeout, "y")), promo.CodeConflict},
		"wrapped": {"fmt's wrapping keeps it", fmt.Errorf("more: %w", promo.Errorf(promo.CodePolicy, "x")), promo.CodePolicy},
		"joined":  {"so does a join", errors.Join(io.EOF, promo.Errorf(promo.CodeHealth, "x")), promo.CodeHealth},
		"foreign": {"another error is a fault of ours", io.EOF, promo.CodeInternal},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := promo.CodeOf(tc.err); got != tc.want {
				t.Errorf("%s: got %s, want %s", tc.reason, got, tc.want)
			}
		})
	}
}

// TestCodes states for each code whether a repetition helps and whether it is a refusal; a new code must be added.
func TestCodes(t *testing.T) {
	t.Parallel()
	type row struct{ Retryable, Verdict bool }
	want := map[promo.Code]row{
		promo.CodeTimeout: {Retryable: true}, promo.CodeConnectivity: {Retryable: true}, promo.CodeRateLimit: {Retryable: true},
		promo.CodeInternal: {Retryable: true}, promo.CodeAuthentication: {}, promo.CodeAuthorization: {}, promo.CodeConflict: {},
		promo.CodeNotFound: {}, promo.CodeConfiguration: {}, promo.CodeSync: {}, promo.CodeMigration: {},
		promo.CodePolicy: {Verdict: true}, promo.CodeApproval: {Verdict: true}, promo.CodeHealth: {Verdict: true},
		promo.CodeVerification: {Verdict: true}, promo.CodeAll: {},
	}
	got := map[promo.Code]row{}
	for _, c := range promo.Codes() {
		got[c] = row{c.Retryable(), c.IsVerdict()}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	if promo.Code("Made up").Retryable() {
		t.Error("an unknown code is retried")
	}
}

func TestErrorJSON(t *testing.T) {
	t.Parallel()
	raw, err := json.Marshal(promo.Errorf(promo.CodeConflict, "branch moved: %w", io.EOF).WithHint("again"))
	if err != nil {
		t.Fatal(err)
	}
	want := `{"code":"Conflict","message":"branch moved: EOF","hint":"again"}`
	if diff := cmp.Diff(want, string(raw)); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
	var back promo.Error
	if err := json.Unmarshal(raw, &back); err != nil {
		t.Fatal(err)
	}
	if strings.Count(back.Error(), "EOF") != 1 {
		t.Errorf("read back it says %q", back.Error())
	}
}
