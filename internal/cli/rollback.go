package cli

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

// environmentFlags adds the two flags that say where, both needed.
func environmentFlags(cmd *cobra.Command, service, environment *string) {
	cmd.Flags().StringVar(service, "service", "", "the service")
	cmd.Flags().StringVar(environment, "environment", "", "the environment")
	inner := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if *service == "" || *environment == "" {
			return usagef("--service and --environment are needed")
		}
		if inner != nil {
			return inner(cmd, args)
		}
		return nil
	}
}

func (a *app) environmentPath(service, environment string, rest ...string) string {
	return a.projectPath(append([]string{"services", service, "environments", environment}, rest...)...)
}

func (a *app) rollbackCommand() *cobra.Command {
	req := api.RollbackRequest{}
	var dryRun, wait, breakGlass bool
	cmd := &cobra.Command{
		Use:   "rollback",
		Short: "Put an environment back to a known-good commit",
		Example: "  davit rollback --service checkout --environment prod --dry-run\n" +
			"  davit rollback --service checkout --environment prod --wait\n" +
			"  davit rollback --service checkout --environment prod --to 1a2b3c4d --shared paths-only",
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if !slices.Contains([]string{"", "ask", "include", "paths-only"}, req.Shared) {
				return usagef("--shared is %q, not include or paths-only", req.Shared)
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			if dryRun {
				return a.previewRollback(cmd.Context(), c, req)
			}
			verb := []string{"rollback"}
			if breakGlass {
				verb = append(verb, "break-glass")
			}
			rb, err := post[promo.Rollback](cmd.Context(), c, a.environmentPath(req.Service, req.Environment, verb...), req)
			if err != nil {
				return err
			}
			if wait {
				return a.waitRollback(cmd.Context(), c, rb.ID)
			}
			return a.show(rb, func() error {
				return a.print("started rollback %s to %s; see it with: davit get rollback %s", a.shortID(rb.ID), short(rb.To), a.shortID(rb.ID))
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&req.To, "to", "", "commit to go back to; the newest known-good one before where left out")
	f.BoolVar(&dryRun, "dry-run", false, "say what would change, change nothing")
	f.BoolVar(&wait, "wait", false, "wait until it has ended; the exit code says how")
	f.StringVar(&req.Shared, "shared", "", "what to do with shared files that differ: include or paths-only")
	f.BoolVar(&req.NoPrune, "no-prune", false, "leave objects that the undone change had added")
	f.StringVar(&req.Reason, "reason", "", "why")
	f.BoolVar(&breakGlass, "break-glass", false, "go on although a policy denies; admins only, audited")
	f.StringVar(&req.RequestID, "request-id", "", "a repeated request with the same id starts nothing new")
	a.outputFlag(cmd)
	environmentFlags(cmd, &req.Service, &req.Environment)
	return cmd
}

func (a *app) previewRollback(ctx context.Context, c *client, req api.RollbackRequest) error {
	p, err := post[promo.Preview](ctx, c, a.environmentPath(req.Service, req.Environment, "rollback", "preview"), req)
	if err != nil {
		return err
	}
	if err := a.show(p, func() error { return a.print("%s", strings.Join(previewLines(p), "\n")) }); err != nil {
		return err
	}
	if p.Refusal != "" {
		return noError{}
	}
	return nil
}

func previewLines(p promo.Preview) []string {
	var lines []string
	if p.To != "" {
		lines = append(lines, strings.TrimSpace(fmt.Sprintf("from %s back to %s %s", short(p.From), short(p.To), p.Version)))
	}
	section := func(title string, items []string) {
		if len(items) > 0 {
			lines = append(lines, title+":")
			for _, item := range items {
				lines = append(lines, "  "+item)
			}
		}
	}
	section("files", p.Files)
	section("shared files that differ (choose --shared include or paths-only; also read by "+strings.Join(p.Readers, ", ")+")", p.Shared)
	var foreign []string
	for _, c := range p.Foreign {
		foreign = append(foreign, short(c.SHA)+" "+c.Author+": "+c.Subject)
	}
	section("other people's commits that would be undone", foreign)
	var prunes []string
	for _, target := range slices.Sorted(maps.Keys(p.Prunes)) {
		prunes = append(prunes, target+": "+strings.Join(p.Prunes[target], ", "))
	}
	section("objects that the sync would delete", prunes)
	if p.Diff != "" {
		lines = append(lines, "", strings.TrimRight(p.Diff, "\n"))
	}
	if p.Refusal != "" {
		lines = append(lines, "this can't be done: "+p.Refusal)
	}
	return lines
}

func (a *app) waitRollback(ctx context.Context, c *client, id string) error {
	s := &screen{a: a}
	rb, err := follower[promo.Rollback]{
		c: c, path: rollbackPath(id), event: "rollback", say: a.say,
		final: func(r promo.Rollback) bool { return r.Phase.Final() },
		update: func(r promo.Rollback) error {
			for _, line := range s.changes(asPromotion(r)) {
				a.say("%s", line)
			}
			return nil
		},
	}.run(ctx)
	if err != nil {
		if errors.Is(err, context.Canceled) {
			a.say("it goes on; see it with: davit get rollback %s", a.shortID(id))
		}
		return err
	}
	if err := a.showRollback(rb); err != nil {
		return err
	}
	return outcome(rb.Phase)
}

func (a *app) showRollback(rb promo.Rollback) error {
	return a.show(rb, func() error { return a.print("%s", strings.Join(a.promotionTree(asPromotion(rb)), "\n")) })
}

// asPromotion lets a rollback be drawn like a promotion of one stage.
func asPromotion(r promo.Rollback) promo.Promotion {
	return promo.Promotion{
		ID: r.ID, Service: r.Service, Version: "to " + short(r.To), Phase: r.Phase, Message: r.Message, Error: r.Error,
		StartedAt: r.StartedAt, FinishedAt: r.FinishedAt,
		Stages: []promo.Stage{{Name: "rollback", Environment: r.Environment, Phase: r.Phase, Steps: r.Steps, StartedAt: r.StartedAt, FinishedAt: r.FinishedAt}},
	}
}
