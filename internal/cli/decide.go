package cli

import (
	"github.com/spf13/cobra"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

func (a *app) approveCommand() *cobra.Command {
	return a.decideCommand(true, &cobra.Command{
		Use:   "approve ID",
		Short: "Approve the step that waits",
		Example: "  davit approve checkout/7 --comment \"looks good\"\n  davit approve checkout/7 --stage prod --step sign-off\n" +
			"  davit approve default/checkout/prod/checkout-8.1.2 --input shared=paths-only",
	})
}

func (a *app) rejectCommand() *cobra.Command {
	return a.decideCommand(false, &cobra.Command{
		Use:     "reject ID",
		Short:   "Reject the step that waits",
		Example: "  davit reject checkout/7 --comment \"not on a friday\"",
	})
}

func (a *app) decideCommand(approve bool, cmd *cobra.Command) *cobra.Command {
	req := api.DecideRequest{Approve: approve}
	var inputs []string
	cmd.Args = usage(cobra.ExactArgs(1))
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		given, err := inputValues(inputs)
		if err != nil {
			return err
		}
		for name, v := range given {
			if req.Inputs == nil {
				req.Inputs = map[string]string{}
			}
			req.Inputs[name], _ = v.(string)
		}
		c, err := a.client()
		if err != nil {
			return err
		}
		path, id, err := a.runPath(cmd.Context(), c, args[0], "decide")
		if err != nil {
			return err
		}
		res, err := post[api.DecideResult](cmd.Context(), c, path, req)
		if err != nil {
			return err
		}
		return a.show(res, func() error {
			where := a.shortID(id) + " " + res.Stage + "/" + res.Step
			switch {
			case !approve:
				return a.print("rejected %s", where)
			case res.Done:
				return a.print("approved %s", where)
			}
			return a.print("approved %s: %d of %d approvals", where, res.Approved, res.Minimum)
		})
	}
	f := cmd.Flags()
	f.StringVar(&req.Stage, "stage", "", "the stage, where several wait")
	f.StringVar(&req.Step, "step", "", "the step, where several wait")
	f.IntVar(&req.Wave, "wave", 0, "the wave, where each is asked about")
	f.StringVar(&req.Comment, "comment", "", "why")
	f.StringVar(&req.Digest, "digest", "", "decide only about this change")
	f.StringVar(&req.RequestID, "request-id", "", "a repeated request with the same id decides once")
	f.StringArrayVarP(&inputs, "input", "i", nil, "value that the step asks for, as name=value; may be repeated")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) abortCommand() *cobra.Command {
	req := api.AbortRequest{}
	cmd := &cobra.Command{
		Use:     "abort ID",
		Short:   "Abort a promotion; it cleans up after itself",
		Example: "  davit abort checkout/7 --reason \"wrong version\"",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			path, id, err := a.runPath(cmd.Context(), c, args[0], "abort")
			if err != nil {
				return err
			}
			if _, err := post[struct{}](cmd.Context(), c, path, req); err != nil {
				return err
			}
			return a.print("aborting %s", a.shortID(id))
		},
	}
	cmd.Flags().StringVar(&req.Reason, "reason", "", "why")
	return cmd
}

func (a *app) retryCommand() *cobra.Command {
	var wait bool
	cmd := &cobra.Command{
		Use:     "retry ID",
		Short:   "Go on with a failed promotion from its failed stages",
		Example: "  davit retry checkout/7 --wait",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			id, err := a.promotionID(cmd.Context(), c, args[0])
			if err != nil {
				return err
			}
			p, err := post[promo.Promotion](cmd.Context(), c, promotionPath(id, "retry"), api.RetryRequest{})
			if err != nil {
				return err
			}
			if wait {
				return a.wait(cmd.Context(), c, p.ID)
			}
			return a.show(p, func() error {
				return a.print("retrying %s, attempt %d; watch it with: davit watch %s", a.shortID(p.ID), p.Attempt, a.shortID(p.ID))
			})
		},
	}
	cmd.Flags().BoolVar(&wait, "wait", false, "wait until it has ended; the exit code says how")
	a.outputFlag(cmd)
	return cmd
}
