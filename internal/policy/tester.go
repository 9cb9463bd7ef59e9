package policy

import (
	"cmp"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/cover"
	"github.com/open-policy-agent/opa/v1/storage"
	"github.com/open-policy-agent/opa/v1/storage/inmem"
	"github.com/open-policy-agent/opa/v1/tester"

	"github.com/davit-cd/davit/internal/promo"
)

const (
	// testTimeout bounds one test, which may ask its policy many times.
	testTimeout = 10 * time.Second
	// maxTestFiles bounds a directory: a repository's root given by mistake ends early.
	maxTestFiles = 2000
)

// Status is the outcome of a test.
type Status string

// The outcomes. A test whose name begins with "todo_" is skipped.
const (
	StatusPass  Status = "pass"
	StatusFail  Status = "fail"
	StatusError Status = "error"
	StatusSkip  Status = "skip"
)

// Report is what the tests of a directory say, ordered by file and line.
type Report struct {
	Tests    []TestResult `json:"tests"`
	Passed   int          `json:"passed"`
	Failed   int          `json:"failed"` // errors included
	Skipped  int          `json:"skipped"`
	Coverage Coverage     `json:"coverage"`
}

// OK reports whether there was a test and none failed.
func (r Report) OK() bool { return r.Failed == 0 && r.Passed > 0 }

// TestResult is one test_ rule.
type TestResult struct {
	File    string        `json:"file"`
	Line    int           `json:"line"`
	Package string        `json:"package"`
	Name    string        `json:"name"`
	Status  Status        `json:"status"`
	Message string        `json:"message,omitempty"`
	Output  string        `json:"output,omitempty"` // of print()
	Took    time.Duration `json:"took"`
}

// Coverage says how much of the modules other than tests the tests went through.
type Coverage struct {
	Percent float64 `json:"percent"`
	// Missing are the places not reached.
	Missing []Place `json:"missing,omitempty"`
}

// Place is a range of lines of a file.
type Place struct {
	File string `json:"file"`
	From int    `json:"from"`
	To   int    `json:"to"`
}

// Test runs the test_ rules of every .rego file below dir, in either dialect, as `davit policy test` does. The
// modules see each other as in OPA's own tester, and only the builtins that Compile allows.
func Test(ctx context.Context, dir string) (Report, error) {
	info, err := os.Stat(dir)
	if err != nil {
		return Report{}, fileError(dir, err)
	}
	if !info.IsDir() {
		return Report{}, promo.Errorf(promo.CodeConfiguration, "%q is not a directory", dir)
	}
	return TestFS(ctx, os.DirFS(dir), dir)
}

// TestFS is Test over any file system; prefix is put before the names in messages.
func TestFS(ctx context.Context, files fs.FS, prefix string) (Report, error) {
	modules, err := readModules(files, prefix)
	if err != nil {
		return Report{}, err
	}
	if len(modules) == 0 {
		return Report{}, promo.Errorf(promo.CodeNotFound, "no .rego file below %q", prefix)
	}
	compiler := ast.NewCompiler().WithCapabilities(capabilities(ast.RegoV1)).WithEnablePrintStatements(true)
	tracer := cover.New()
	var results []*tester.Result
	store := inmem.New()
	err = storage.Txn(ctx, store, storage.TransactionParams{}, func(txn storage.Transaction) error {
		ch, err := tester.NewRunner().SetCompiler(compiler).SetStore(store).SetModules(modules).
			SetTimeout(testTimeout).CapturePrintOutput(true).RaiseBuiltinErrors(true).
			SetCoverageQueryTracer(tracer).SetCoverageRuns(nil).RunTests(ctx, txn)
		if err != nil {
			return err
		}
		for r := range ch {
			results = append(results, r)
		}
		return nil
	})
	if list, ok := errors.AsType[ast.Errors](err); ok {
		return Report{}, promo.Errorf(promo.CodeConfiguration, "%w", compileError(Source{Name: prefix}, list))
	}
	if err != nil {
		return Report{}, promo.Errorf(promo.CodeInternal, "policy tests: %w", err)
	}
	if ctx.Err() != nil {
		return Report{}, promo.Errorf(promo.CodeTimeout, "policy tests: %w", context.Cause(ctx))
	}
	return report(results, tracer.Report(subjects(modules))), nil
}

// readModules parses each file in its own dialect; every problem of every file is reported at once.
func readModules(files fs.FS, prefix string) (map[string]*ast.Module, error) {
	modules := map[string]*ast.Module{}
	var problems []error
	err := fs.WalkDir(files, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || !strings.HasSuffix(path, ".rego") { // no symlink is followed
			return err
		}
		if len(modules) == maxTestFiles {
			return promo.Errorf(promo.CodeConfiguration, "more than %d .rego files below %q", maxTestFiles, prefix)
		}
		name := filepath.Join(prefix, filepath.FromSlash(path))
		m, err := readModule(files, path, name)
		if err != nil {
			problems = append(problems, err)
			return nil
		}
		modules[name] = m
		return nil
	})
	if err != nil {
		return nil, fileError(prefix, err)
	}
	if len(problems) > 0 {
		return nil, promo.Errorf(promo.CodeConfiguration, "%w", errors.Join(problems...))
	}
	return modules, nil
}

func readModule(files fs.FS, path, name string) (*ast.Module, error) {
	info, err := fs.Stat(files, path)
	if err != nil {
		return nil, fileError(name, err)
	}
	if info.Size() > MaxModuleBytes {
		return nil, promo.Errorf(promo.CodeConfiguration, "%s has more than %d bytes", name, MaxModuleBytes)
	}
	raw, err := fs.ReadFile(files, path)
	if err != nil {
		return nil, fileError(name, err)
	}
	src := Source{Name: name, Rego: string(raw)}
	dialects, err := candidates(src)
	if err != nil {
		return nil, err
	}
	var failures []*CompileError
	for _, d := range dialects {
		m, failure := parseAs(src, d)
		if failure == nil {
			return m, nil
		}
		failures = append(failures, failure)
	}
	return nil, refuse(src, furthest(failures))
}

// subjects are the modules that tests are about.
func subjects(modules map[string]*ast.Module) map[string]*ast.Module {
	out := map[string]*ast.Module{}
	for name, m := range modules {
		if !strings.HasSuffix(name, "_test.rego") {
			out[name] = m
		}
	}
	return out
}

func report(results []*tester.Result, c cover.Report) Report {
	r := Report{Tests: make([]TestResult, 0, len(results))}
	for _, t := range results {
		res := testResult(t)
		switch res.Status {
		case StatusPass:
			r.Passed++
		case StatusSkip:
			r.Skipped++
		case StatusFail, StatusError:
			r.Failed++
		}
		r.Tests = append(r.Tests, res)
	}
	slices.SortFunc(r.Tests, func(a, b TestResult) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Name, b.Name))
	})
	r.Coverage = coverage(c)
	return r
}

func testResult(t *tester.Result) TestResult {
	res := TestResult{
		Package: strings.TrimPrefix(t.Package, "data."), Name: t.Name, Status: StatusPass, Took: t.Duration, Output: string(t.Output),
	}
	if t.Location != nil {
		res.File, res.Line = t.Location.File, t.Location.Row
	}
	switch {
	case t.Skip:
		res.Status = StatusSkip
	case t.Error != nil:
		res.Status, res.Message = StatusError, reason(t.Error)
	case t.Fail:
		res.Status, res.Message = StatusFail, "the rule is not true"
		if failed := failedCases(t.SubResults); len(failed) > 0 {
			res.Message = "cases failed: " + strings.Join(failed, ", ")
		}
	}
	return res
}

// failedCases lists the failed cases of a test with cases: test_x[name] if ….
func failedCases(cases tester.SubResultMap) []string {
	var failed []string
	for path, c := range cases.Iter {
		if c.Fail && len(c.SubResults) == 0 {
			failed = append(failed, strings.Join(path, "/"))
		}
	}
	slices.Sort(failed)
	return failed
}

func coverage(c cover.Report) Coverage {
	out := Coverage{}
	covered, missed := 0, 0
	for file, f := range c.Files {
		if strings.HasSuffix(file, "_test.rego") {
			continue
		}
		covered, missed = covered+f.CoveredLines, missed+f.NotCoveredLines
		for _, r := range f.NotCovered {
			out.Missing = append(out.Missing, Place{File: file, From: r.Start.Row, To: r.End.Row})
		}
	}
	slices.SortFunc(out.Missing, func(a, b Place) int { return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.From, b.From)) })
	out.Missing = slices.Compact(out.Missing)
	if covered+missed > 0 {
		out.Percent = 100 * float64(covered) / float64(covered+missed)
	}
	return out
}
