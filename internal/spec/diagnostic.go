package spec

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/davit-cd/davit/internal/promo"
)

// Diagnostic is one problem in a file. Lines and columns count from 1; columns count characters.
type Diagnostic struct {
	File      string `json:"file"`
	Line      int    `json:"line"`
	Column    int    `json:"column"`
	EndColumn int    `json:"endColumn"`
	// Rule is the short name under which the rule is documented.
	Rule string `json:"rule"`
	// Msg says what is wrong, Hint what would be right.
	Msg  string `json:"message"`
	Hint string `json:"hint,omitempty"`
	// Source is the line of the file.
	Source string `json:"source,omitempty"`
	// Warning is true for what may be meant: it doesn't keep a file from being applied.
	Warning bool `json:"warning,omitempty"`
}

// String returns "file:line:column: what is wrong: what would be right".
func (d Diagnostic) String() string {
	s := fmt.Sprintf("%s:%d:%d: %s%s", d.File, d.Line, d.Column, d.severity(), d.Msg)
	if d.Hint != "" {
		s += ": " + d.Hint
	}
	return s
}

func (d Diagnostic) severity() string {
	if d.Warning {
		return "warning: "
	}
	return ""
}

// Format writes the problem for people: with its rule, the source line, a caret and the hint.
func (d Diagnostic) Format(w io.Writer) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%s:%d:%d: %s%s [%s]\n", d.File, d.Line, d.Column, d.severity(), d.Msg, d.Rule)
	if d.Source != "" {
		source := strings.Map(printable, d.Source)
		fmt.Fprintf(&b, "  | %s\n  | %s^%s\n", source, strings.Repeat(" ", max(0, d.Column-1)),
			strings.Repeat("~", max(0, min(d.EndColumn, utf8.RuneCountInString(source)+1)-d.Column-1)))
	}
	if d.Hint != "" {
		fmt.Fprintf(&b, "  hint: %s\n", d.Hint)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// Diagnostics are the problems of one or more files, in the order of files and lines.
type Diagnostics []Diagnostic

// HasErrors reports whether one of them is more than a warning.
func (ds Diagnostics) HasErrors() bool {
	return slices.ContainsFunc(ds, func(d Diagnostic) bool { return !d.Warning })
}

// Strings lists them as people read them, one a line.
func (ds Diagnostics) Strings() []string {
	out := make([]string, len(ds))
	for i, d := range ds {
		out[i] = d.String()
	}
	return out
}

// Format writes all of them.
func (ds Diagnostics) Format(w io.Writer) error {
	for _, d := range ds {
		if err := d.Format(w); err != nil {
			return err
		}
	}
	return nil
}

// Err returns a Configuration error that names the first problem and counts the rest, nil where only warnings are.
func (ds Diagnostics) Err() error {
	var first *Diagnostic
	n := 0
	for i := range ds {
		if ds[i].Warning {
			continue
		}
		if n++; first == nil {
			first = &ds[i]
		}
	}
	switch {
	case first == nil:
		return nil
	case n == 1:
		return promo.Errorf(promo.CodeConfiguration, "%s", first)
	}
	return promo.Errorf(promo.CodeConfiguration, "%s (and %d more problems)", first, n-1)
}

// sorted returns them by place, each once.
func (ds Diagnostics) sorted() Diagnostics {
	slices.SortStableFunc(ds, func(a, b Diagnostic) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Rule, b.Rule), cmp.Compare(a.Msg, b.Msg))
	})
	return slices.CompactFunc(ds, func(a, b Diagnostic) bool {
		return a.File == b.File && a.Line == b.Line && a.Column == b.Column && a.Rule == b.Rule && a.Msg == b.Msg
	})
}

// printable keeps control characters of a file from the terminal; each stays one column wide.
func printable(r rune) rune {
	switch {
	case r == '\t':
		return ' '
	case unicode.IsPrint(r):
		return r
	default:
		return '·'
	}
}
