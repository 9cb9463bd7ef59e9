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
	filter := map[string]*string{}
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
			query := url.Values{"limit": {strconv.Itoa(limit)}}
			for key, v := range filter {
				if *v != "" {
					query.Set(key, *v)
				}
			}
			if active {
				query.Set("active", "true")
			}
			return a.getNoun(cmd, strings.ToLower(args[0]), strings.Join(args[1:], ""), query)
		},
	}
	f := cmd.Flags()
	for key, help := range map[string]string{
		"pipeline": "only of this pipeline (promotions)", "service": "only of this service",
		"environment": "only into this environment", "phase": "only in this phase (promotions)",
	} {
		filter[key] = f.String(key, "", help)
	}
	f.BoolVar(&active, "active", false, "only those under way (promotions)")
	f.IntVar(&limit, "limit", 50, "how many at most")
	a.outputFlag(cmd)
	return cmd
}

// getNoun lists a noun, or shows the one of that name.
func (a *app) getNoun(cmd *cobra.Command, noun, name string, query url.Values) error {
	switch noun {
	case "promotion", "promotions":
		if name != "" {
			return a.getPromotion(cmd, name)
		}
		return a.getPromotions(cmd, query)
	case "rollback", "rollbacks":
		for _, other := range []string{"pipeline", "phase", "active"} {
			if query.Has(other) {
				return usagef("--%s is for promotions only", other)
			}
		}
		return a.getRollbacks(cmd, name, query)
	case "hold", "holds":
		return a.getHolds(cmd)
	case "definition", "definitions":
		if name != "" {
			return usagef("definition %q of which kind? like: davit get pipeline %s", name, name)
		}
		return a.definitions(cmd, "", "")
	}
	kind, ok := kindOf(noun)
	if !ok {
		return usageError{promo.Errorf(promo.CodeConfiguration, "there is nothing called %q", noun).
			WithHint("there are promotions, rollbacks, holds, definitions and the kinds %s", strings.Join(spec.Kinds(), ", "))}
	}
	return a.definitions(cmd, kind, name)
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
			return usageError{promo.Errorf(promo.CodeConfiguration, "%q is no id of a rollback", name).WithHint("like checkout/prod/3")}
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
