package cli

import (
	"context"
	"errors"
	"strings"

	"github.com/spf13/cobra"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

func (a *app) runCommand() *cobra.Command {
	var inputs, only []string
	var wait, watch, automatic bool
	var requestID string
	cmd := &cobra.Command{
		Use:     "run PIPELINE",
		Short:   "Start a promotion",
		Example: "  davit run checkout --input version=v1.2.3\n  davit run checkout --input version=v1.2.3 --wait --output json",
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
			p, err := post[promo.Promotion](cmd.Context(), c, a.projectPath("pipelines", args[0], "run"),
				api.RunRequest{Project: a.project, Pipeline: args[0], Inputs: values, Only: only, Automatic: automatic, RequestID: requestID})
			if err != nil {
				return err
			}
			switch {
			case watch:
				return a.watch(cmd.Context(), c, p.ID)
			case wait:
				a.say("started %s", a.shortID(p.ID))
				return a.wait(cmd.Context(), c, p.ID)
			}
			return a.show(p, func() error {
				return a.print("started %s; watch it with: davit watch %s", a.shortID(p.ID), a.shortID(p.ID))
			})
		},
	}
	f := cmd.Flags()
	f.StringArrayVarP(&inputs, "input", "i", nil, "input as name=value; may be repeated")
	f.StringSliceVar(&only, "only", nil, "only these targets; such a run proves nothing known-good")
	f.BoolVar(&wait, "wait", false, "wait until it has ended; the exit code says how")
	f.BoolVar(&watch, "watch", false, "watch it live until it has ended")
	f.BoolVar(&automatic, "automatic", false, "started by a machine: wait where automatic promotions are held")
	f.StringVar(&requestID, "request-id", "", "a repeated request with the same id starts nothing new")
	a.outputFlag(cmd)
	return cmd
}

func inputValues(pairs []string) (map[string]any, error) {
	values := map[string]any{}
	for _, pair := range pairs {
		name, value, ok := strings.Cut(pair, "=")
		if !ok || name == "" {
			return nil, usagef("input %q is not name=value", pair)
		}
		values[name] = value
	}
	return values, nil
}

func (a *app) watchCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "watch ID",
		Short:   "Watch a promotion live until it has ended",
		Example: "  davit watch checkout/7",
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
			return a.watch(cmd.Context(), c, id)
		},
	}
	return cmd
}

// watch shows a promotion on standard output: a tree redrawn in place on a terminal, a line a change elsewhere.
func (a *app) watch(ctx context.Context, c *client, id string) error {
	s := &screen{a: a}
	p, err := a.follow(ctx, c, id, func(p promo.Promotion) error {
		if a.Columns > 0 {
			return s.tree(a.promotionTree(p))
		}
		for _, line := range s.changes(p) {
			if err := a.print("%s", line); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	return outcome(p.Phase)
}

// wait shows progress on standard error and the promotion, once it has ended, as the answer.
func (a *app) wait(ctx context.Context, c *client, id string) error {
	s := &screen{a: a}
	p, err := a.follow(ctx, c, id, func(p promo.Promotion) error {
		for _, line := range s.changes(p) {
			a.say("%s", line)
		}
		return nil
	})
	if err != nil {
		return err
	}
	if err := a.showPromotion(p); err != nil {
		return err
	}
	return outcome(p.Phase)
}

func (a *app) follow(ctx context.Context, c *client, id string, update func(promo.Promotion) error) (promo.Promotion, error) {
	p, err := follower[promo.Promotion]{
		c: c, path: promotionPath(id), event: "promotion", say: a.say, update: update,
		final: func(p promo.Promotion) bool { return p.Phase.Final() },
	}.run(ctx)
	if errors.Is(err, context.Canceled) {
		a.say("it goes on; watch it with: davit watch %s", a.shortID(id))
	}
	return p, err
}

// outcome is the exit of a command that waited for an end.
func outcome(p promo.Phase) error {
	if p == promo.PhaseSucceeded {
		return nil
	}
	return noError{} // the state, printed already, says why
}
