package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"
)

// commandPage writes a command and then those under it.
func commandPage(b *strings.Builder, cmd *cobra.Command) {
	if cmd.Hidden || cmd.Name() == "help" {
		return
	}
	text := cmd.Long
	if text == "" {
		text = cmd.Short + "."
	}
	level := "##"
	if cmd.HasParent() && cmd.Parent().HasParent() {
		level = "###"
	}
	fmt.Fprintf(b, "%s %s\n\n%s\n\n```text\n%s\n```\n\n", level, cmd.CommandPath(), text, cmd.UseLine())
	if cmd.Example != "" {
		fmt.Fprintf(b, "```sh\n%s\n```\n\n", unindent(cmd.Example))
	}
	if flags := strings.TrimRight(cmd.NonInheritedFlags().FlagUsages(), "\n"); flags != "" {
		fmt.Fprintf(b, "```text\n%s\n```\n\n", flags)
	}
	for _, c := range cmd.Commands() {
		commandPage(b, c)
	}
}

func unindent(s string) string {
	lines := strings.Split(s, "\n")
	for i, l := range lines {
		lines[i] = strings.TrimPrefix(l, "  ")
	}
	return strings.Join(lines, "\n")
}
