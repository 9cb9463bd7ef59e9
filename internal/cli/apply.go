package cli

import (
	"net/http"
	"net/url"

	"github.com/spf13/cobra"

	"github.com/davit-cd/davit/internal/api"
)

func (a *app) applyCommand() *cobra.Command {
	var files []string
	var dryRun bool
	cmd := &cobra.Command{
		Use:     "apply -f FILE|DIR…",
		Short:   "Apply definitions as one change, all or nothing",
		Example: "  davit apply --file pipelines/\n  davit apply --file checkout.yaml --dry-run",
		Args:    usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			if len(files) == 0 {
				return usagef("nothing to apply: give --file")
			}
			content, err := a.readFiles(files)
			if err != nil {
				return err
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			res, err := post[api.ApplyResult](cmd.Context(), c, a.projectPath("apply"), api.ApplyRequest{Project: a.project, Files: content, DryRun: dryRun})
			if err != nil {
				return err
			}
			for _, w := range res.Warnings {
				a.say("warning: %s", w)
			}
			return a.show(res, func() error {
				for _, ch := range res.Changes {
					if err := a.print("%s/%s %s%s", ch.Kind, ch.Name, ch.Change, mark(dryRun, " (dry run)")); err != nil {
						return err
					}
				}
				return nil
			})
		},
	}
	cmd.Flags().StringSliceVarP(&files, "file", "f", nil, "file or directory; - for standard input")
	cmd.Flags().BoolVar(&dryRun, "dry-run", false, "say what would change, change nothing")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) deleteCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "delete KIND NAME",
		Short:   "Delete a definition",
		Example: "  davit delete Pipeline checkout",
		Args:    usage(cobra.ExactArgs(2)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var answer struct{}
			if err := c.call(cmd.Context(), http.MethodDelete, a.projectPath("definitions", args[0], args[1]), nil, nil, &answer); err != nil {
				return err
			}
			return a.print("%s/%s deleted", args[0], args[1])
		},
	}
}

// definitions answers `get` for kinds of definitions.
func (a *app) definitions(cmd *cobra.Command, kind, name string) error {
	c, err := a.client()
	if err != nil {
		return err
	}
	if name != "" {
		d, err := get[api.Definition](cmd.Context(), c, a.projectPath("definitions", kind, name), nil)
		if err != nil {
			return err
		}
		return a.show(d, func() error { return a.print("%s", d.Source) })
	}
	query := url.Values{}
	if kind != "" {
		query.Set("kind", kind)
	}
	list, err := get[[]api.Definition](cmd.Context(), c, a.projectPath("definitions"), query)
	if err != nil {
		return err
	}
	return a.show(list, func() error {
		return a.table(rowsOf([]string{"KIND", "NAME", "UPDATED", "BY"}, list, func(d api.Definition) []string {
			return []string{d.Kind, d.Name, a.age(d.UpdatedAt), d.UpdatedBy}
		}))
	})
}
