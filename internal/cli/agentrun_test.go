package cli_test

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/cli"
	"github.com/davit-cd/davit/internal/promo"
)

func TestAgentRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	config := filepath.Join(dir, "agent.yaml")
	for file, text := range map[string]string{
		config:                      "name: moon\ngateway: davit.example.com:7400\nsandbox: state\ntokenFile: token\nprojects: [shop]\napplications: [apps.yaml]\n",
		filepath.Join(dir, "token"): "davit_agent_x\n", filepath.Join(dir, "bad.yaml"): "name: moon\n",
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	cases := map[string]struct {
		reason string
		args   []string
		code   int
		want   cli.AgentOptions
		err    string
	}{
		"config": {
			"paths are relative to the file", []string{"--config", config}, cli.ExitDone, cli.AgentOptions{
				Name: "moon", Gateway: "davit.example.com:7400", Sandbox: filepath.Join(dir, "state"), Token: "davit_agent_x", TokenFile: filepath.Join(dir, "token"),
				Projects: []string{"shop"}, Applications: []string{filepath.Join(dir, "apps.yaml")}, GitPassword: "hidden",
			}, "",
		},
		"flags": {
			"flags count instead; - is standard input", []string{"--config", config, "--name", "mars", "--token-file", "-", "--sandbox", "here"}, cli.ExitDone, cli.AgentOptions{
				Name: "mars", Gateway: "davit.example.com:7400", Sandbox: "here", Token: "from-stdin", TokenFile: "-",
				Projects: []string{"shop"}, Applications: []string{filepath.Join(dir, "apps.yaml")}, GitPassword: "hidden",
			}, "",
		},
		"environment": {
			"no files at all",
			[]string{"--name", "a", "--gateway", "127.0.0.1:1", "--sandbox", "s"},
			cli.ExitDone,
			cli.AgentOptions{Name: "a", Gateway: "127.0.0.1:1", Sandbox: "s", Token: "from-env", GitPassword: "hidden"},
			"",
		},
		"nothing": {"says what is needed and what there is", nil, cli.ExitUsage, cli.AgentOptions{}, "other engines than the sandbox are not in this version"},
		"typo":    {"unknown keys are errors", []string{"--config", filepath.Join(dir, "bad.yaml")}, cli.ExitUsage, cli.AgentOptions{}, "name"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var got cli.AgentOptions
			var out, errs bytes.Buffer
			code := cli.Execute(t.Context(), cli.Process{
				Args: append([]string{"agent", "run"}, tc.args...), Stdin: strings.NewReader("from-stdin\n"), Stdout: &out, Stderr: &errs,
				Env: func(name string) string {
					return map[string]string{"DAVIT_AGENT_TOKEN": "from-env", "DAVIT_GIT_PASSWORD": "hidden"}[name]
				},
				RunAgent: func(_ context.Context, o cli.AgentOptions) error { got = o; return nil },
			})
			if code != tc.code || !strings.Contains(errs.String(), tc.err) {
				t.Errorf("%s: exit %d: %s", tc.reason, code, errs.String())
			}
			if d := cmp.Diff(tc.want, got, cmp.Comparer(func(a, b promo.Secret) bool { return a.Reveal() == b.Reveal() })); d != "" {
				t.Errorf("%s: -want +got:\n%s", tc.reason, d)
			}
		})
	}
}

func TestTokenHash(t *testing.T) {
	t.Parallel()
	run := func(stdin string, args ...string) (int, string, string) {
		var out, errs bytes.Buffer
		code := cli.Execute(t.Context(), cli.Process{Args: append([]string{"token", "hash"}, args...), Stdin: strings.NewReader(stdin), Stdout: &out, Stderr: &errs})
		return code, out.String(), errs.String()
	}
	code, out, _ := run("", "--new")
	fields := strings.Fields(out)
	if code != cli.ExitDone || len(fields) != 4 {
		t.Fatalf("exit %d: %s", code, out)
	}
	if code, again, errs := run(fields[1] + "\n"); code != cli.ExitDone || strings.TrimSpace(again) != fields[3] {
		t.Errorf("exit %d: %s%s", code, again, errs)
	}
	if code, _, errs := run("password\n"); code != cli.ExitUsage || !strings.Contains(errs, "can be guessed") {
		t.Errorf("a word: exit %d: %s", code, errs)
	}
	if code, _, errs := run(""); code != cli.ExitUsage || !strings.Contains(errs, "no token on standard input") {
		t.Errorf("nothing: exit %d: %s", code, errs)
	}
}
