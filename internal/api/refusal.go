package api

import (
	"strings"

	"github.com/davit-cd/davit/internal/promo"
)

// Refused is a policy's refusal as an error: REST answers it with 403 and {"deny": reasons}.
func Refused(reasons []string) error {
	return promo.Errorf(promo.CodePolicy, "denied by policy: %w", &refusal{reasons: reasons})
}

// Diagnosed is an error about applied files that carries every problem, one a line, formatted for people.
func Diagnosed(err *promo.Error, diagnostics []string) error {
	e := *err
	e.Err = &diagnosis{cause: err.Err, lines: diagnostics}
	return &e
}

type refusal struct{ reasons []string }

func (r *refusal) Error() string     { return strings.Join(r.reasons, "; ") }
func (r *refusal) Denials() []string { return r.reasons }

type diagnosis struct {
	cause error
	lines []string
}

func (d *diagnosis) Error() string         { return strings.Join(d.lines, "\n") }
func (d *diagnosis) Unwrap() error         { return d.cause }
func (d *diagnosis) Diagnostics() []string { return d.lines }
