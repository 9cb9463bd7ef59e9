package policy

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/davit-cd/davit/internal/promo"
)

// MaxModuleBytes bounds a module's source; the largest policies known are a tenth of it.
const MaxModuleBytes = 256 << 10

// Dialect is the version of the Rego language that a module is written in.
type Dialect string

// The dialects. In v1 a rule's body follows "if" and a set's element follows "contains"; in v0 neither.
const (
	DialectV0 Dialect = "v0"
	DialectV1 Dialect = "v1"
)

// Source is a module as a person wrote it. Name is what messages call it: a path, or "<set>/<index>" inline.
type Source struct {
	Name string `json:"name"`
	Rego string `json:"rego"`
}

// Problem is one mistake in a module's source. Line and Column count from 1.
type Problem struct {
	File    string `json:"file"`
	Line    int    `json:"line"`
	Column  int    `json:"column"`
	Message string `json:"message"`
}

// String returns "file:line:column: message".
func (p Problem) String() string {
	return fmt.Sprintf("%s:%d:%d: %s", p.File, p.Line, p.Column, p.Message)
}

// CompileError lists everything that is wrong with a module, in the order of the source. It is wrapped by the
// promo.Error (Configuration) that Compile returns.
type CompileError struct{ Problems []Problem }

// Error joins the problems by "; ".
func (e *CompileError) Error() string {
	texts := make([]string, len(e.Problems))
	for i, p := range e.Problems {
		texts[i] = p.String()
	}
	return strings.Join(texts, "; ")
}

// Module is a compiled module, safe for concurrent use.
type Module struct {
	Name    string
	Dialect Dialect
	// Package is the module's package without "data.".
	Package string

	deny, warn *rego.PreparedEvalQuery // nil where the module has no such rule
}

// Decides reports whether the module has a deny or a warn rule; one without can never refuse anything.
func (m *Module) Decides() bool { return m.deny != nil || m.warn != nil }

// Compile compiles one module by itself. The dialect is that of a first-line comment "# rego: v0" or
// "# rego: v1" where there is one; otherwise the first of v1 and v0 in which the module compiles. Errors are
// promo.CodeConfiguration and wrap a *CompileError.
func Compile(ctx context.Context, src Source) (*Module, error) {
	if len(src.Rego) > MaxModuleBytes {
		return nil, promo.Errorf(promo.CodeConfiguration, "policy %q has %d bytes", src.Name, len(src.Rego)).
			WithHint("a module has at most %d bytes", MaxModuleBytes)
	}
	dialects, err := candidates(src)
	if err != nil {
		return nil, err
	}
	var failures []*CompileError
	for _, d := range dialects {
		parsed, compiler, failure := compileAs(src, d)
		if failure == nil {
			return prepare(ctx, src, d, parsed, compiler)
		}
		failures = append(failures, failure)
	}
	return nil, refuse(src, furthest(failures))
}

// CompileAll compiles each module by itself and reports the problems of all of them at once.
func CompileAll(ctx context.Context, sources []Source) ([]*Module, error) {
	modules := make([]*Module, 0, len(sources))
	var problems []error
	for _, s := range sources {
		m, err := Compile(ctx, s)
		if err != nil {
			problems = append(problems, err)
			continue
		}
		modules = append(modules, m)
	}
	if len(problems) == 1 {
		return nil, problems[0]
	}
	if len(problems) > 0 {
		return nil, promo.Errorf(promo.CodeConfiguration, "%w", errors.Join(problems...))
	}
	return modules, nil
}

// candidates lists the dialects to try. v1 goes first: a module that both accept means the same in both.
func candidates(src Source) ([]Dialect, error) {
	first, _, _ := strings.Cut(src.Rego, "\n")
	rest, isComment := strings.CutPrefix(strings.TrimSpace(first), "#")
	name, isMark := strings.CutPrefix(strings.TrimSpace(rest), "rego:")
	if !isComment || !isMark {
		return []Dialect{DialectV1, DialectV0}, nil
	}
	switch d := Dialect(strings.TrimSpace(name)); d {
	case DialectV0, DialectV1:
		return []Dialect{d}, nil
	default:
		return nil, promo.Errorf(promo.CodeConfiguration, "%s:1:1: unknown Rego dialect %q", src.Name, d).
			WithHint("write # rego: v0 or # rego: v1")
	}
}

func (d Dialect) version() ast.RegoVersion {
	if d == DialectV0 {
		return ast.RegoV0
	}
	return ast.RegoV1
}

// parseAs parses without compiling; comments are not needed after that.
func parseAs(src Source, d Dialect) (*ast.Module, *CompileError) {
	opts := ast.ParserOptions{RegoVersion: d.version(), Capabilities: capabilities(d.version()), AllFutureKeywords: false}
	parsed, err := ast.ParseModuleWithOpts(src.Name, src.Rego, opts)
	if err != nil {
		return nil, compileError(src, err)
	}
	if parsed == nil {
		return nil, &CompileError{Problems: []Problem{{File: src.Name, Line: 1, Column: 1, Message: "the module is empty"}}}
	}
	return parsed, nil
}

func compileAs(src Source, d Dialect) (*ast.Module, *ast.Compiler, *CompileError) {
	parsed, failure := parseAs(src, d)
	if failure != nil {
		return nil, nil, failure
	}
	compiler := ast.NewCompiler().WithCapabilities(capabilities(d.version())).WithDefaultRegoVersion(d.version())
	compiler.Compile(map[string]*ast.Module{src.Name: parsed})
	if compiler.Failed() {
		return nil, nil, compileError(src, compiler.Errors)
	}
	return parsed, compiler, nil
}

// prepare plans the two questions that a module is asked. Nothing else of its package is evaluated.
func prepare(ctx context.Context, src Source, d Dialect, parsed *ast.Module, compiler *ast.Compiler) (*Module, error) {
	m := &Module{
		Name: src.Name, Dialect: d,
		Package: strings.TrimPrefix(parsed.Package.Path.String(), "data."),
	}
	for name, slot := range map[string]**rego.PreparedEvalQuery{"deny": &m.deny, "warn": &m.warn} {
		i := slices.IndexFunc(parsed.Rules, func(r *ast.Rule) bool { return r.Head.Ref()[0].Value.String() == name })
		if i < 0 {
			continue
		}
		if rule := parsed.Rules[i]; len(rule.Head.Args) > 0 {
			at := Problem{File: src.Name, Line: rule.Loc().Row, Column: rule.Loc().Col, Message: name + " is a function"}
			return nil, refuse(src, &CompileError{Problems: []Problem{at}}).
				WithHint("a rule without arguments decides; give the function another name")
		}
		q, err := rego.New(
			rego.Query(parsed.Package.Path.String()+"."+name),
			rego.Compiler(compiler),
			rego.SetRegoVersion(d.version()),
			rego.StrictBuiltinErrors(true), // otherwise a division by zero in a condition would read as "allowed"
		).PrepareForEval(ctx)
		if err != nil {
			return nil, promo.Errorf(promo.CodeConfiguration, "policy %q: %w", src.Name, err)
		}
		*slot = &q
	}
	return m, nil
}

// furthest picks the failure of the dialect that understood more of the source: most likely the one meant.
func furthest(failures []*CompileError) *CompileError {
	return slices.MaxFunc(failures, func(a, b *CompileError) int {
		p, q := a.Problems[0], b.Problems[0]
		if p.Line != q.Line {
			return p.Line - q.Line
		}
		return p.Column - q.Column
	})
}

// maxProblems bounds how many mistakes of a module are shown: the rest follow from the first ones.
const maxProblems = 20

func compileError(src Source, err error) *CompileError {
	var list ast.Errors
	if !errors.As(err, &list) || len(list) == 0 {
		return &CompileError{Problems: []Problem{{File: src.Name, Line: 1, Column: 1, Message: err.Error()}}}
	}
	problems := make([]Problem, 0, len(list))
	for _, e := range list {
		p := Problem{File: src.Name, Line: 1, Column: 1, Message: e.Message}
		if e.Location != nil {
			p.Line, p.Column = max(e.Location.Row, 1), max(e.Location.Col, 1)
			p.File = cmp.Or(e.Location.File, src.Name) // several modules compile together in tests
		}
		problems = append(problems, p)
	}
	slices.SortStableFunc(problems, func(a, b Problem) int {
		if a.Line != b.Line {
			return a.Line - b.Line
		}
		return a.Column - b.Column
	})
	problems = slices.Compact(problems)
	return &CompileError{Problems: problems[:min(len(problems), maxProblems)]}
}

// refuse wraps the problems into the error of package borders and says what would be right where that is known.
func refuse(src Source, failure *CompileError) *promo.Error {
	err := promo.Errorf(promo.CodeConfiguration, "%w", failure)
	line := sourceLine(src.Rego, failure.Problems[0].Line)
	text := failure.Problems[0].Message
	switch {
	case strings.ContainsAny(line, "“”‘’"):
		return err.WithHint("the line has curly quotes; Rego strings take straight double quotes")
	case strings.Contains(text, "illegal token") && strings.Contains(line, "'"):
		return err.WithHint("Rego strings take double quotes, not single ones")
	case strings.Contains(text, "is unsafe"):
		return err.WithHint("give the variable a value in the rule's body, for example msg := \"the reason\"")
	case strings.Contains(text, "undefined function"):
		return err.WithHint("policies may not call builtins that reach the network, the environment or a random source")
	}
	return err
}

func sourceLine(source string, n int) string {
	lines := strings.Split(source, "\n")
	if n < 1 || n > len(lines) {
		return ""
	}
	return lines[n-1]
}
