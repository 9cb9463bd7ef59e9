package cli

import (
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

func (a *app) historyCommand() *cobra.Command {
	var service, environment string
	var limit int
	cmd := &cobra.Command{
		Use:     "history",
		Short:   "List what an environment was, with known-good marks",
		Example: "  davit history --service checkout --environment prod\n  davit history --service checkout --environment prod --output json",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := get[[]promo.KnownGood](cmd.Context(), c, a.environmentPath(service, environment, "history"), url.Values{"limit": {strconv.Itoa(limit)}})
			if err != nil {
				return err
			}
			return a.show(list, func() error {
				return a.table(rowsOf([]string{"COMMIT", "VERSION", "PROMOTION", "AGE", "KNOWN-GOOD"}, list, func(k promo.KnownGood) []string {
					return []string{short(k.Commit), k.Version, orDefault(a.shortID(k.Promotion), "(baseline)"), a.age(k.At), mark(k.KnownGood, "✓") + mark(k.Pinned, " pinned")}
				}))
			})
		},
	}
	cmd.Flags().IntVar(&limit, "limit", 50, "how many at most")
	a.outputFlag(cmd)
	environmentFlags(cmd, &service, &environment)
	return cmd
}

func (a *app) pinCommand() *cobra.Command {
	req := api.PinRequest{}
	var off bool
	cmd := &cobra.Command{
		Use:     "pin COMMIT",
		Short:   "Mark a commit as known-good by hand",
		Example: "  davit pin 1a2b3c4d --service checkout --environment prod\n  davit pin 1a2b3c4d --off --service checkout --environment prod",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			req.Commit, req.Pinned = args[0], !off
			if _, err := post[struct{}](cmd.Context(), c, a.environmentPath(req.Service, req.Environment, "pin"), req); err != nil {
				return err
			}
			if off {
				return a.print("unpinned %s", short(req.Commit))
			}
			return a.print("pinned %s", short(req.Commit))
		},
	}
	cmd.Flags().BoolVar(&off, "off", false, "take the mark away")
	environmentFlags(cmd, &req.Service, &req.Environment)
	return cmd
}

func (a *app) holdCommand() *cobra.Command {
	req := api.HoldRequest{}
	var release bool
	cmd := &cobra.Command{
		Use:     "hold",
		Short:   "Keep automatic promotions out of an environment, or let them in again",
		Example: "  davit hold --service checkout --environment prod --reason incident\n  davit hold --release --service checkout --environment prod",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			path := a.environmentPath(req.Service, req.Environment, "hold")
			if release {
				query := url.Values{}
				if req.Reason != "" {
					query.Set("reason", req.Reason)
				}
				var done struct{}
				if err := c.call(cmd.Context(), http.MethodDelete, path, query, nil, &done); err != nil {
					return err
				}
				return a.print("released %s in %s", req.Service, req.Environment)
			}
			var h promo.Hold
			if err := c.call(cmd.Context(), http.MethodPut, path, nil, req, &h); err != nil {
				return err
			}
			return a.show(h, func() error { return a.print("held %s in %s", req.Service, req.Environment) })
		},
	}
	cmd.Flags().StringVar(&req.Reason, "reason", "", "why")
	cmd.Flags().BoolVar(&release, "release", false, "let them in again")
	a.outputFlag(cmd)
	environmentFlags(cmd, &req.Service, &req.Environment)
	return cmd
}

func (a *app) fleetCommand() *cobra.Command {
	var service, environment string
	cmd := &cobra.Command{
		Use:     "fleet",
		Short:   "List applications on every target",
		Example: "  davit fleet\n  davit fleet --environment prod --output json",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := get[[]api.FleetEntry](cmd.Context(), c, a.projectPath("fleet"), whereQuery(service, environment))
			if err != nil {
				return err
			}
			return a.show(list, func() error {
				return a.table(rowsOf([]string{"AGENT", "TARGET", "ENVIRONMENT", "APPLICATION", "REVISION", "SYNC", "HEALTH", "IMAGES"}, list, func(e api.FleetEntry) []string {
					return []string{e.Agent, e.Target, e.Environment, e.Application, short(e.Revision), string(e.Sync), string(e.Health), strings.Join(e.Images, ",")}
				}))
			})
		},
	}
	cmd.Flags().StringVar(&service, "service", "", "only of this service")
	cmd.Flags().StringVar(&environment, "environment", "", "only in this environment")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) lanesCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "lanes",
		Short:   "List lanes: who changes which environment, and who waits",
		Example: "  davit lanes",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			list, err := get[[]api.Lane](cmd.Context(), c, a.projectPath("lanes"), nil)
			if err != nil {
				return err
			}
			return a.show(list, func() error {
				return a.table(rowsOf([]string{"SERVICE", "ENVIRONMENT", "HOLDER", "QUEUE"}, list, func(l api.Lane) []string {
					return []string{l.Service, l.Environment, orDefault(l.Holder, "-"), strings.Join(l.Queue, ", ")}
				}))
			})
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func whereQuery(service, environment string) url.Values {
	query := url.Values{}
	if service != "" {
		query.Set("service", service)
	}
	if environment != "" {
		query.Set("environment", environment)
	}
	return query
}
