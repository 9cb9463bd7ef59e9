package cli

import (
	"net/url"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
)

func (a *app) getCommand() *cobra.Command {
	var pipeline, service, environment, phase string
	var active bool
	var limit int
	cmd := &cobra.Command{
		Use:   "get promotions|rollbacks|holds|definitions|KIND [NAME|ID]",
		Short: "List things, or show one",
		Example: "  davit get promotions --service checkout --active\n  davit get promotion checkout/7 --output json\n" +
			"  davit get pipelines\n  davit get pipeline checkout",
		Args:      usage(cobra.RangeArgs(1, 2)),
		ValidArgs: []string{"promotions", "rollbacks", "holds", "definitions"},
		RunE: func(cmd *cobra.Command, args []string) error {
			name := ""
			if len(args) == 2 {
				name = args[1]
			}
			query := url.Values{}
			for key, v := range map[string]string{"service": service, "environment": environment} {
				if v != "" {
					query.Set(key, v)
				}
			}
			switch noun := strings.ToLower(args[0]); noun {
			case "promotion", "promotions":
				if name != "" {
					return a.getPromotion(cmd, name)
				}
				for key, v := range map[string]string{"pipeline": pipeline, "phase": phase, "active": mark(active, "true")} {
					if v != "" {
						query.Set(key, v)
					}
				}
				query.Set("limit", strconv.Itoa(limit))
				return a.getPromotions(cmd, query)
			case "rollback", "rollbacks":
				query.Set("limit", strconv.Itoa(limit))
				return a.getRollbacks(cmd, name, query)
			case "hold", "holds":
				return a.getHolds(cmd)
			case "definition", "definitions":
				return a.definitions(cmd, "", name)
			default:
				kind, ok := kindOf(noun)
				if !ok {
					return errUsage{promo.Errorf(promo.CodeConfiguration, "there is nothing called %q", args[0]).
						WithHint("there are promotions, rollbacks, holds, definitions and the kinds %s", strings.Join(spec.Kinds(), ", "))}
				}
				return a.definitions(cmd, kind, name)
			}
		},
	}
	f := cmd.Flags()
	f.StringVar(&pipeline, "pipeline", "", "only of this pipeline")
	f.StringVar(&service, "service", "", "only of this service")
	f.StringVar(&environment, "environment", "", "only into this environment")
	f.StringVar(&phase, "phase", "", "only in this phase")
	f.BoolVar(&active, "active", false, "only those under way")
	f.IntVar(&limit, "limit", 50, "how many at most")
	a.outputFlag(cmd)
	return cmd
}

// kindOf finds a kind as people write it: any case, singular or plural.
func kindOf(noun string) (string, bool) {
	for _, kind := range spec.Kinds() {
		one := strings.ToLower(kind)
		if noun == one || noun == one+"s" || noun == strings.TrimSuffix(one, "y")+"ies" {
			return kind, true
		}
	}
	return "", false
}

func (a *app) getPromotion(cmd *cobra.Command, name string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	id, err := a.promotionID(cmd.Context(), c, name)
	if err != nil {
		return err
	}
	p, err := get[promo.Promotion](cmd.Context(), c, promotionPath(id), nil)
	if err != nil {
		return err
	}
	return a.showPromotion(p)
}

func (a *app) showPromotion(p promo.Promotion) error {
	return a.show(p, func() error { return a.print("%s", strings.Join(a.promotionTree(p), "\n")) })
}

func (a *app) getPromotions(cmd *cobra.Command, query url.Values) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	list, err := get[[]promo.Promotion](cmd.Context(), c, a.projectPath("promotions"), query)
	if err != nil {
		return err
	}
	return a.show(list, func() error {
		return a.table(rowsOf([]string{"ID", "SERVICE", "VERSION", "PHASE", "STAGES", "BY", "AGE"}, list, func(p promo.Promotion) []string {
			stages := make([]string, len(p.Stages))
			for i, st := range p.Stages {
				stages[i] = sign(st.Phase) + " " + st.Name
			}
			return []string{a.shortID(p.ID), p.Service, p.Version, string(p.Phase), strings.Join(stages, "  "), p.TriggeredBy, a.age(p.StartedAt)}
		}))
	})
}

func (a *app) getRollbacks(cmd *cobra.Command, name string, query url.Values) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if name != "" {
		if strings.Count(name, "/") == 2 {
			name = a.project + "/" + name
		}
		if strings.Count(name, "/") != 3 {
			return errUsage{promo.Errorf(promo.CodeConfiguration, "%q is no id of a rollback", name).WithHint("like checkout/prod/3")}
		}
		rb, err := get[promo.Rollback](cmd.Context(), c, rollbackPath(name), nil)
		if err != nil {
			return err
		}
		return a.showRollback(rb)
	}
	list, err := get[[]promo.Rollback](cmd.Context(), c, a.projectPath("rollbacks"), query)
	if err != nil {
		return err
	}
	return a.show(list, func() error {
		return a.table(rowsOf([]string{"ID", "TO", "PHASE", "BY", "REASON", "AGE"}, list, func(r promo.Rollback) []string {
			return []string{a.shortID(r.ID), short(r.To), string(r.Phase), r.StartedBy, r.Reason, a.age(r.StartedAt)}
		}))
	})
}

func (a *app) getHolds(cmd *cobra.Command) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	list, err := get[[]promo.Hold](cmd.Context(), c, a.projectPath("holds"), nil)
	if err != nil {
		return err
	}
	return a.show(list, func() error {
		return a.table(rowsOf([]string{"SERVICE", "ENVIRONMENT", "REASON", "BY", "AGE"}, list, func(h promo.Hold) []string {
			return []string{h.Service, h.Environment, h.Reason, h.By, a.age(h.At)}
		}))
	})
}
