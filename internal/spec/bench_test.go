package spec_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/steps"
)

func BenchmarkLint(b *testing.B) {
	l := spec.New(steps.Builtin())
	src := readB(b, "testdata/ok/quickstart.yaml")
	for b.Loop() {
		if _, diags := l.Lint([]spec.Source{src}, nil); len(diags) > 0 {
			b.Fatal(diags.Strings())
		}
	}
}

func BenchmarkCompile(b *testing.B) {
	l := spec.New(steps.Builtin())
	files, _ := l.Lint([]spec.Source{readB(b, "testdata/ok/quickstart.yaml")}, nil)
	defs := spec.NewDefinitions(files...)
	for b.Loop() {
		if _, err := l.Compile(defs, "checkout", spec.Request{Inputs: map[string]any{"version": "v1.2.3"}}); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkLintLarge is a pipeline of a hundred stages of twenty steps, each with an expression.
func BenchmarkLintLarge(b *testing.B) {
	l := spec.New(steps.Builtin())
	src := readB(b, "testdata/ok/quickstart.yaml")
	var out strings.Builder
	out.Write(src.Text)
	out.WriteString("---\napiVersion: davit.dev/v1alpha1\nkind: Pipeline\nmetadata: {name: large}\nspec:\n  service: checkout\n  stages:\n")
	for i := range 100 {
		fmt.Fprintf(&out, "    - name: s%d\n      type: Custom\n      steps:\n", i)
		for j := range 20 {
			fmt.Fprintf(&out, "        - {name: step%d, type: Http, spec: {url: 'https://example.com/${{ run.id }}'}}\n", j)
		}
	}
	for b.Loop() {
		if _, diags := l.Lint([]spec.Source{{Name: "large.yaml", Text: []byte(out.String())}}, nil); len(diags) > 0 {
			b.Fatal(diags.Strings())
		}
	}
}

func readB(b *testing.B, path string) spec.Source {
	b.Helper()
	src, err := readFile(path)
	if err != nil {
		b.Fatal(err)
	}
	return src
}
