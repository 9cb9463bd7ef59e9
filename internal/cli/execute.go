package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
)

// Process is all that a command sees of the process it runs in.
type Process struct {
	Args   []string // without the program's name
	Stdin  io.Reader
	Stdout io.Writer
	Stderr io.Writer
	Env    func(string) string
	// ConfigDir is the person's folder for configuration; "" where there is none.
	ConfigDir string
	// Columns and Rows are the size of the terminal on Stdout, 0 where Stdout is none.
	Columns, Rows int
	Now           func() time.Time
	Version       api.Version
	// Language reads definitions without a server.
	Language Language
	// Up runs everything in one process until ctx ends; nil where this binary can't.
	Up func(ctx context.Context, o UpOptions) error
	// RunAgent runs an agent until ctx ends; nil where this binary can't.
	RunAgent func(ctx context.Context, o AgentOptions) error
}

// Language checks definitions and explains itself. *spec.Language is one.
type Language interface {
	Lint(sources []spec.Source, existing *spec.Definitions) ([]*spec.File, spec.Diagnostics)
	// Schema is the JSON Schema of every kind.
	Schema() []byte
	// Explain describes a step type or a kind of document.
	Explain(kind string) (string, bool)
	StepKinds() []string
}

// app is one run of the program.
type app struct {
	Process
	server, token, as string
	project           string
	output            string
}

// Execute runs the command line and returns the exit code.
func Execute(ctx context.Context, p Process) int {
	if p.Now == nil {
		p.Now = time.Now
	}
	a := &app{Process: p}
	root := a.root() //nolint:contextcheck // each command takes its context from cobra, which ExecuteContext gave it
	root.SetArgs(p.Args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	err := root.ExecuteContext(ctx)
	a.complain(err)
	return exitOf(err)
}

// complain prints what went wrong to standard error.
func (a *app) complain(err error) {
	if err == nil {
		return
	}
	if no, ok := errors.AsType[noError](err); ok {
		if no.why != "" {
			a.say("davit: %s", no.why)
		}
		return
	}
	var e *promo.Error
	if !errors.As(err, &e) {
		a.say("davit: %v", err)
		return
	}
	a.say("davit: %s", e.Msg)
	var denied interface{ Denials() []string }
	if errors.As(err, &denied) {
		for _, reason := range denied.Denials() {
			a.say("  deny: %s", reason)
		}
	}
	var diagnosed interface{ Diagnostics() []string }
	if errors.As(err, &diagnosed) {
		for _, d := range diagnosed.Diagnostics() {
			a.say("  %s", d)
		}
	}
	if e.Hint != "" {
		a.say("hint: %s", e.Hint)
	}
}

// say writes a line to standard error.
func (a *app) say(format string, args ...any) {
	_, _ = io.WriteString(a.Stderr, clean(fmt.Sprintf(format, args...))+"\n") // nowhere to report it
}

// print writes a line of the answer.
func (a *app) print(format string, args ...any) error {
	_, err := io.WriteString(a.Stdout, clean(fmt.Sprintf(format, args...))+"\n")
	return err
}

// clean keeps text of others (messages, comments, commits) from steering the terminal.
func clean(text string) string {
	return strings.Map(func(r rune) rune {
		if r != '\n' && r != '\t' && unicode.IsControl(r) {
			return '\uFFFD'
		}
		return r
	}, text)
}

func (a *app) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "davit",
		Short: "Promote releases through environments, by Git",
		Long: "davit moves releases through environments by changing Git, and back again.\n\n" +
			"The server is that of --server or DAVIT_SERVER, else the `davit up` running on this machine.\n" +
			"Exit codes: 0 done, 1 the answer is no, 2 bad usage or input, 3 could not find out.",
		Example:       "  davit up --demo\n  davit run checkout --input version=v1.2.3 --wait\n  davit get promotions",
		SilenceErrors: true, SilenceUsage: true,
		Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	root.CompletionOptions.DisableDefaultCmd = true
	root.SetFlagErrorFunc(func(cmd *cobra.Command, err error) error {
		return usageError{promo.Errorf(promo.CodeConfiguration, "%w", err).WithHint("see davit %s --help", cmd.Name())}
	})
	f := root.PersistentFlags()
	f.StringVar(&a.server, "server", a.env("DAVIT_SERVER"), "address of the server (DAVIT_SERVER)")
	f.StringVar(&a.token, "token", "", "token to sign in with (DAVIT_TOKEN)")
	f.StringVar(&a.as, "as", a.env("DAVIT_AS"), "act as this demo user (DAVIT_AS)")
	f.StringVar(&a.project, "project", orDefault(a.env("DAVIT_PROJECT"), "default"), "project (DAVIT_PROJECT)")
	root.AddCommand(
		a.upCommand(), a.applyCommand(), a.deleteCommand(), a.getCommand(), a.lintCommand(), a.planCommand(), a.explainCommand(), a.schemaCommand(),
		a.runCommand(), a.watchCommand(), a.approveCommand(), a.rejectCommand(), a.abortCommand(), a.retryCommand(),
		a.rollbackCommand(), a.historyCommand(), a.pinCommand(), a.holdCommand(), a.fleetCommand(), a.lanesCommand(),
		a.sandboxCommand(), a.policyCommand(), a.loginCommand(), a.tokenCommand(), a.agentCommand(), a.auditCommand(), a.versionCommand(), a.completionCommand(),
	)
	return root
}

func (a *app) env(name string) string {
	if a.Env == nil {
		return ""
	}
	return a.Env(name)
}

func orDefault(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}

// usage makes a mistake in the arguments exit with ExitUsage and show how it is done.
func usage(check cobra.PositionalArgs) cobra.PositionalArgs {
	return func(cmd *cobra.Command, args []string) error {
		if err := check(cmd, args); err != nil {
			return usageError{promo.Errorf(promo.CodeConfiguration, "%w", err).WithHint("usage: %s", cmd.UseLine())}
		}
		return nil
	}
}

// outputFlag adds -o to a command that answers with data.
func (a *app) outputFlag(cmd *cobra.Command) {
	cmd.Flags().StringVarP(&a.output, "output", "o", "", "json or yaml; for people where left out")
	inner := cmd.PreRunE
	cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
		if a.output != "" && a.output != "json" && a.output != "yaml" {
			return usagef("%q is no output format", a.output)
		}
		if inner != nil {
			return inner(cmd, args)
		}
		return nil
	}
}
