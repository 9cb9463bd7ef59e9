package script

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// shellBlock is a block of commands on a page.
var shellBlock = regexp.MustCompile("(?s)```sh\n(.*?)```")

// TestShownCommandsAreRun demands that each davit command of a hand-written page is in a script, and that each make
// target exists.
func TestShownCommandsAreRun(t *testing.T) {
	t.Parallel()
	run := map[string]bool{}
	for _, line := range linesOf(t, "*.txtar") {
		line = strings.TrimPrefix(line, "! ")
		if _, cmd, found := strings.Cut(line, "davit "); found {
			run[canonical("davit "+cmd)] = true
		}
	}
	targets := strings.Join(linesOf(t, "../../Makefile"), "\n")
	for _, page := range []string{"README.md", "CONTRIBUTING.md", "docs/concepts.md", "docs/policies.md", "docs/operations.md", "docs/local-forge-and-sandbox.md"} {
		text, err := os.ReadFile(filepath.Join(root, page))
		if err != nil {
			t.Fatal(err)
		}
		for _, block := range shellBlock.FindAllStringSubmatch(string(text), -1) {
			for line := range strings.Lines(block[1]) {
				line = strings.TrimSpace(line)
				target, isMake := strings.CutPrefix(line, "make ")
				switch {
				case isMake && !strings.Contains(targets, "\n"+target+":"):
					t.Errorf("%s: no target %q", page, line)
				case strings.HasPrefix(line, "davit ") && !run[canonical(line)]:
					t.Errorf("%s: no script runs %q", page, line)
				}
			}
		}
	}
}

// canonical is a command without the quotes that the two shells need differently.
func canonical(cmd string) string { return strings.NewReplacer(`"`, "", `'`, "").Replace(cmd) }

func linesOf(t *testing.T, pattern string) []string {
	t.Helper()
	files, err := filepath.Glob(pattern)
	if err != nil || len(files) == 0 {
		t.Fatalf("%s: %v, no file", pattern, err)
	}
	var lines []string
	for _, f := range files {
		text, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		lines = append(lines, strings.Split(string(text), "\n")...)
	}
	return lines
}
