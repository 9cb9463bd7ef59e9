package cli_test

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/cli"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/steps"
)

const goodFile = `apiVersion: davit.dev/v1alpha1
kind: Repository
metadata: {name: deploy}
spec: {provider: local, url: "http://127.0.0.1/git/deploy.git"}
---
apiVersion: davit.dev/v1alpha1
kind: Service
metadata: {name: checkout}
spec:
  repository: deploy
  branch: main
  path: services/checkout
  environments: {dev: {paths: [dev]}}
---
apiVersion: davit.dev/v1alpha1
kind: Environment
metadata: {name: dev}
spec: {type: PreProduction, targets: [{name: dev, agent: dev}]}
`

func offline(t *testing.T, args ...string) result {
	t.Helper()
	var out, errs bytes.Buffer
	code := cli.Execute(t.Context(), cli.Process{Args: args, Stdin: strings.NewReader(goodFile), Stdout: &out, Stderr: &errs, Language: spec.New(steps.Builtin())})
	return result{code, out.String(), errs.String()}
}

func TestLint(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for name, text := range map[string]string{
		"good.yaml":          goodFile,
		"bad/b.yaml":         "apiVersion: davit.dev/v1alpha1\nkind: Pipelin\nmetadata: {name: x}\n",
		"bad/a.yaml":         strings.Replace(goodFile, "branch: main", "brnch: main", 1),
		"bad/.hidden.yaml":   "kind: [",
		"bad/notes.txt":      "kind: [",
		"bad/.git/conf.yaml": "kind: [",
	} {
		file := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tc := range map[string]struct {
		reason string
		args   []string
		code   int
		out    []string
	}{
		"good":    {"", []string{"lint", filepath.Join(dir, "good.yaml")}, cli.ExitDone, nil},
		"stdin":   {"", []string{"lint", "-"}, cli.ExitDone, nil},
		"bad":     {"every problem of every file", []string{"lint", filepath.Join(dir, "bad")}, cli.ExitNo, []string{"a.yaml:", "brnch", "b.yaml:", "Pipelin"}},
		"nothing": {"", []string{"lint", filepath.Join(dir, "gone")}, cli.ExitUsage, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := offline(t, tc.args...)
			if r.code != tc.code {
				t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
			}
			for _, want := range tc.out {
				if !strings.Contains(r.out, want) {
					t.Errorf("%s: %q is missing in %s", tc.reason, want, r.out)
				}
			}
			if strings.Contains(r.out, "hidden") || strings.Contains(r.out, ".git") {
				t.Errorf("hidden files are read: %s", r.out)
			}
		})
	}
}

func TestLintAnswersWithData(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{"diagnostics": {"lint", "-", "-o", "json"}, "schema": {"schema"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := offline(t, args...)
			if r.code != cli.ExitDone || !json.Valid([]byte(r.out)) {
				t.Errorf("exit %d: %.200s %s", r.code, r.out, r.err)
			}
		})
	}
}

func TestExplain(t *testing.T) {
	t.Parallel()
	for arg, want := range map[string]string{"": "UpdateReleaseRepo", "Sync": "Sync (step type)", "Service": "Service (kind of document)"} {
		t.Run(arg, func(t *testing.T) {
			t.Parallel()
			args := []string{"explain"}
			if arg != "" {
				args = append(args, arg)
			}
			if r := offline(t, args...); r.code != cli.ExitDone || !strings.Contains(r.out, want) {
				t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
			}
		})
	}
	if r := offline(t, "explain", "Snyc"); r.code != cli.ExitUsage {
		t.Errorf("exit %d", r.code)
	}
}
