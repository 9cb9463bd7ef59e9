package cli

import "github.com/spf13/cobra"

// Describe returns the tree of commands for the generated reference. It is to be read, not run: Execute runs.
func Describe(p Process) *cobra.Command { return (&app{Process: p}).root() }
