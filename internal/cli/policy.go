package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/davit-cd/davit/internal/policy"
)

func (a *app) policyCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "policy",
		Short:   "Test and try policies without a server",
		Example: "  davit policy test policies/\n  davit policy eval no_http.rego --input run.json --output json",
		Args:    usage(cobra.NoArgs),
		RunE:    func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	cmd.AddCommand(a.policyTestCommand(), a.policyEvalCommand())
	return cmd
}

func (a *app) policyTestCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "test DIR",
		Short:   "Run the tests of the policies in a directory",
		Example: "  davit policy test policies/",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			report, err := policy.Test(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			err = a.show(report, func() error {
				for _, t := range report.Tests {
					if err := a.print("%s:%d: %s %s%s", t.File, t.Line, t.Name, t.Status, mark(t.Message != "", ": "+t.Message)); err != nil {
						return err
					}
				}
				for _, m := range report.Coverage.Missing {
					a.say("not covered: %s:%d-%d", m.File, m.From, m.To)
				}
				return a.print("%d passed, %d failed, %d skipped, %.1f %% covered", report.Passed, report.Failed, report.Skipped, report.Coverage.Percent)
			})
			if err == nil && !report.OK() {
				err = noError{}
			}
			return err
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) policyEvalCommand() *cobra.Command {
	var input string
	cmd := &cobra.Command{
		Use:     "eval MODULE.rego --input FILE",
		Short:   "Ask a policy about an input; the exit code is 1 where it denies",
		Example: "  davit policy eval no_http.rego --input run.json\n  davit policy eval no_http.rego --input run.json --output json",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if input == "" {
				return usagef("--input is needed: the document that the policy sees")
			}
			res, err := policy.EvalFile(cmd.Context(), args[0], input)
			if err != nil {
				return err
			}
			err = a.show(res, func() error { return a.print("%s", strings.Join(verdictLines(res), "\n")) })
			if err == nil && len(res.Deny) > 0 {
				err = noError{}
			}
			return err
		},
	}
	cmd.Flags().StringVar(&input, "input", "", "JSON file that the policy sees as input")
	a.outputFlag(cmd)
	return cmd
}

func verdictLines(res policy.Result) []string {
	var lines []string
	for _, reason := range res.Deny {
		lines = append(lines, "deny: "+reason)
	}
	for _, reason := range res.Warn {
		lines = append(lines, "warn: "+reason)
	}
	if len(res.Deny) == 0 {
		lines = append(lines, "allowed")
	}
	return lines
}
