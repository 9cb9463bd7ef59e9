package cli

import (
	"context"
	"errors"

	"github.com/davit-cd/davit/internal/promo"
)

// Exit codes.
const (
	ExitDone    = 0 // done; the answer is yes
	ExitNo      = 1 // the answer is no: failed, denied, refused
	ExitUsage   = 2 // bad usage or input
	ExitUnknown = 3 // could not find out
)

// noError ends a command whose answer, printed already, is no.
type noError struct{ why string }

func (e noError) Error() string { return e.why }

// usageError marks what is wrong with the command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

func usagef(format string, args ...any) error {
	return usageError{promo.Errorf(promo.CodeConfiguration, format, args...)}
}

// exitOf is the one table from errors to exit codes.
func exitOf(err error) int {
	var no noError
	var usage usageError
	var e *promo.Error
	switch {
	case err == nil:
		return ExitDone
	case errors.As(err, &no):
		return ExitNo
	case errors.As(err, &usage):
		return ExitUsage
	case errors.Is(err, context.Canceled):
		return ExitUnknown
	case errors.As(err, &e):
		return exitOfCode(e.Code)
	}
	return ExitUnknown
}

func exitOfCode(code promo.Code) int {
	switch code {
	case promo.CodePolicy, promo.CodeApproval, promo.CodeHealth, promo.CodeVerification, promo.CodeAuthorization,
		promo.CodeConflict, promo.CodeSync, promo.CodeMigration:
		return ExitNo
	case promo.CodeConfiguration, promo.CodeNotFound:
		return ExitUsage
	case promo.CodeTimeout, promo.CodeConnectivity, promo.CodeAuthentication, promo.CodeRateLimit, promo.CodeInternal,
		promo.CodeAll:
		return ExitUnknown
	}
	return ExitUnknown
}
