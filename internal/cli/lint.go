package cli

import (
	"strings"

	"github.com/spf13/cobra"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
)

func (a *app) language() (Language, error) {
	if a.Language == nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "this binary does not know the language")
	}
	return a.Language, nil
}

func (a *app) lintCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use:     "lint FILE|DIR…",
		Short:   "Check definitions without a server; every problem at once",
		Example: "  davit lint pipelines/\n  davit lint checkout.yaml --output json",
		Args:    usage(cobra.MinimumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := a.language()
			if err != nil {
				return err
			}
			files, err := a.readFiles(args)
			if err != nil {
				return err
			}
			var sources []spec.Source
			for _, f := range files {
				if !strings.HasSuffix(f.Path, ".rego") {
					sources = append(sources, spec.Source{Name: f.Path, Text: []byte(f.Content)})
				}
			}
			_, problems := l.Lint(sources, nil)
			if problems == nil {
				problems = spec.Diagnostics{}
			}
			if err := a.show(problems, func() error { return problems.Format(a.Stdout) }); err != nil {
				return err
			}
			if problems.HasErrors() {
				return noError{}
			}
			if a.output == "" {
				a.say("%d files, %d problems", len(sources), len(problems))
			}
			return nil
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "explain [STEP|KIND]",
		Short:   "Describe a step type or a kind of document, or list them all",
		Example: "  davit explain\n  davit explain Sync\n  davit explain Service",
		Args:    usage(cobra.MaximumNArgs(1)),
		RunE: func(_ *cobra.Command, args []string) error {
			l, err := a.language()
			if err != nil {
				return err
			}
			if len(args) == 0 {
				return a.print("step types: %s\nkinds: %s", strings.Join(l.StepKinds(), ", "), strings.Join(spec.Kinds(), ", "))
			}
			text, ok := l.Explain(args[0])
			if !ok {
				return usageError{promo.Errorf(promo.CodeNotFound, "%q is neither a step type nor a kind", args[0]).
					WithHint("`davit explain` lists them")}
			}
			return a.print("%s", strings.TrimRight(text, "\n"))
		},
	}
}

func (a *app) schemaCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "schema",
		Short:   "Print the JSON Schema of definitions, for editors",
		Example: "  davit schema > davit.schema.json",
		Args:    usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			l, err := a.language()
			if err != nil {
				return err
			}
			return a.print("%s", strings.TrimRight(string(l.Schema()), "\n"))
		},
	}
}
