package cli

import (
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

func TestEveryCommandIsExplained(t *testing.T) {
	t.Parallel()
	var walk func(c *cobra.Command)
	walk = func(c *cobra.Command) {
		if c.Short == "" || strings.HasSuffix(c.Short, ".") || strings.Contains(c.Short, "\n") {
			t.Errorf("%s: short is %q", c.CommandPath(), c.Short)
		}
		if !strings.Contains(c.Example, "davit ") {
			t.Errorf("%s has no example", c.CommandPath())
		}
		if c.RunE == nil {
			t.Errorf("%s does nothing", c.CommandPath())
		}
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk((&app{}).root())
}

func TestTheTreeIsRedrawnInPlace(t *testing.T) {
	t.Parallel()
	var out strings.Builder
	s := &screen{a: &app{Process: Process{Stdout: &out, Columns: 24, Rows: 5}}}
	for _, lines := range [][]string{
		{"first"},
		{"first", "a line that is wider than the terminal"},
		{"1", "2", "3", "4", "5", "6"},
		{"an \x1b[31mevil\x07 line"},
	} {
		if err := s.tree(lines); err != nil {
			t.Fatal(err)
		}
	}
	want := "first\n" +
		"\x1b[1A\x1b[Jfirst\na line that is wider t…\n" +
		"\x1b[2A\x1b[J1\n…\n5\n6\n" +
		"\x1b[4A\x1b[Jan \uFFFD[31mevil\uFFFD line\n"
	if out.String() != want {
		t.Errorf("%q", out.String())
	}
}
