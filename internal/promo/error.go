package promo

import (
	"errors"
	"fmt"
)

// Code says what kind of trouble an Error is. The code alone decides HTTP status, exit code, retry, log level
// and metric label, and is what failure strategies match. The list is closed (pipeline-language, "Failure
// strategy").
type Code string

// The codes of errors and, from Policy on, of verdicts.
const (
	CodeTimeout        Code = "Timeout"
	CodeConnectivity   Code = "Connectivity"
	CodeAuthentication Code = "Authentication"
	CodeAuthorization  Code = "Authorization"
	CodeConflict       Code = "Conflict"
	CodeRateLimit      Code = "RateLimit"
	CodeNotFound       Code = "NotFound"
	CodeConfiguration  Code = "Configuration"
	CodeSync           Code = "Sync"
	CodeMigration      Code = "Migration"
	CodeInternal       Code = "Internal"

	CodePolicy       Code = "Policy"
	CodeApproval     Code = "Approval"
	CodeHealth       Code = "Health"
	CodeVerification Code = "Verification"

	// CodeAll matches every code in a failure strategy; no error carries it.
	CodeAll Code = "All"
)

// Codes lists every code that a failure strategy may name, in documentation order.
func Codes() []Code {
	return []Code{
		CodeTimeout, CodeConnectivity, CodeAuthentication, CodeAuthorization, CodeConflict, CodeRateLimit,
		CodeNotFound, CodeConfiguration, CodeSync, CodeMigration, CodeInternal,
		CodePolicy, CodeApproval, CodeHealth, CodeVerification, CodeAll,
	}
}

// Retryable reports whether trying the same thing again, unchanged, can succeed.
func (c Code) Retryable() bool {
	switch c {
	case CodeTimeout, CodeConnectivity, CodeRateLimit, CodeInternal:
		return true
	case CodeAuthentication, CodeAuthorization, CodeConflict, CodeNotFound, CodeConfiguration, CodeSync,
		CodeMigration, CodePolicy, CodeApproval, CodeHealth, CodeVerification, CodeAll:
		return false
	}
	return false
}

// IsVerdict reports whether the code is a refusal rather than trouble.
func (c Code) IsVerdict() bool {
	return c == CodePolicy || c == CodeApproval || c == CodeHealth || c == CodeVerification
}

// Error is the one error type that crosses package boundaries. Msg says what happened and where; Hint says
// what would be right. Neither may hold a secret.
type Error struct {
	Code Code   `json:"code"`
	Msg  string `json:"message"`
	Hint string `json:"hint,omitempty"`
	Err  error  `json:"-"`
}

// Error returns the message, the wrapped cause and the hint on one line.
func (e *Error) Error() string {
	s := e.Msg
	if _, printed := e.Err.(silent); e.Err != nil && !printed { //nolint:errorlint // the marker itself is asked for, not a chain
		s += ": " + e.Err.Error()
	}
	if e.Hint != "" {
		s += " (" + e.Hint + ")"
	}
	return s
}

// Unwrap returns the wrapped cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error with the given code. A %w verb wraps its operand as in fmt.Errorf.
func Errorf(code Code, format string, args ...any) *Error {
	err := fmt.Errorf(format, args...)
	return &Error{Code: code, Msg: err.Error(), Err: cause(err)}
}

// cause keeps only what errors.Is and errors.As need, so that the text is not printed twice.
func cause(err error) error {
	if inner := errors.Unwrap(err); inner != nil {
		return silent{inner}
	}
	if _, several := err.(interface{ Unwrap() []error }); several {
		return silent{err}
	}
	return nil
}

// silent is an error whose text has already been printed by the message around it.
type silent struct{ error }

func (s silent) Unwrap() error { return s.error }

// WithHint returns a copy of e that says what would be right.
func (e *Error) WithHint(format string, args ...any) *Error {
	c := *e
	c.Hint = fmt.Sprintf(format, args...)
	return &c
}

// CodeOf returns the code of the first Error in err's chain, or CodeInternal when there is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return CodeInternal
}
