package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/davit-cd/davit/internal/api"
)

func (a *app) planCommand() *cobra.Command {
	var inputs, only []string
	cmd := &cobra.Command{
		Use:     "plan PIPELINE",
		Short:   "Say what a run would change, and change nothing",
		Example: "  davit plan checkout --input version=v1.2.3",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			values, err := inputValues(inputs)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			res, err := post[api.PlanResult](cmd.Context(), c, a.projectPath("pipelines", args[0], "plan"), api.RunRequest{Project: a.project, Pipeline: args[0], Inputs: values, Only: only})
			if err != nil {
				return err
			}
			if err := a.show(res, func() error { return a.print("%s", strings.Join(planLines(res), "\n")) }); err != nil {
				return err
			}
			for _, st := range res.Stages {
				for _, w := range st.Waves {
					if w.Problem != "" {
						return noError{}
					}
				}
			}
			return nil
		},
	}
	cmd.Flags().StringArrayVarP(&inputs, "input", "i", nil, "input as name=value; may be repeated")
	cmd.Flags().StringSliceVar(&only, "only", nil, "only these targets")
	a.outputFlag(cmd)
	return cmd
}

func planLines(res api.PlanResult) []string {
	lines := []string{"plan " + short(res.Hash)}
	for _, st := range res.Stages {
		head := "stage " + st.Name
		if st.Environment != "" {
			head += " (" + st.Environment + ")"
		}
		lines = append(lines, head+": "+strings.Join(st.Steps, " → "))
		for _, note := range st.Notes {
			lines = append(lines, "  note: "+note)
		}
		for _, w := range st.Waves {
			for _, t := range w.Targets {
				lines = append(lines, "  "+t.Name+" by agent "+t.Agent+": "+orDefault(strings.Join(t.Applications, ", "), "no application"))
			}
			for line := range strings.SplitSeq(strings.TrimRight(w.Diff, "\n"), "\n") {
				if w.Diff != "" {
					lines = append(lines, "    "+line)
				}
			}
			if w.Problem != "" {
				lines = append(lines, "  problem: "+w.Problem)
			}
		}
	}
	return lines
}
