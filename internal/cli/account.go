package cli

import (
	"bufio"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

func (a *app) loginCommand() *cobra.Command {
	return &cobra.Command{
		Use:     "login SERVER",
		Short:   "Keep a server and a token for the commands that follow",
		Long:    "Reads the token from --token, DAVIT_TOKEN or standard input and keeps both in a file that only you can read.",
		Example: "  davit login https://davit.example.com < token.txt",
		Args:    usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			if a.ConfigDir == "" {
				return promo.Errorf(promo.CodeConfiguration, "this system has no folder for configuration").WithHint("use DAVIT_SERVER and DAVIT_TOKEN")
			}
			a.server = strings.TrimRight(args[0], "/")
			if orDefault(a.token, a.env("DAVIT_TOKEN")) == "" {
				line, err := bufio.NewReader(io.LimitReader(a.Stdin, maxAccess)).ReadString('\n')
				if a.token = strings.TrimSpace(line); a.token == "" {
					return usageError{promo.Errorf(promo.CodeConfiguration, "no token on standard input: %w", err)}
				}
			}
			c, err := a.client()
			if err != nil {
				return err
			}
			me, err := get[api.Me](cmd.Context(), c, "/api/me", nil)
			if err != nil {
				return err
			}
			if err := writeAccess(a.loginFile(), c.access); err != nil {
				return err
			}
			return a.print("signed in at %s as %s", c.URL, me.Name)
		},
	}
}

func (a *app) tokenCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "token", Short: "Make, list and revoke API tokens", Example: "  davit token create ci --role developer --ttl 720h\n  davit token list",
		Args: usage(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	req := api.TokenRequest{}
	create := &cobra.Command{
		Use: "create NAME", Short: "Make a token; it is shown once", Example: "  davit token create ci --role developer --ttl 720h",
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			req.Name, req.Project = args[0], a.project
			t, err := post[api.NewToken](cmd.Context(), c, "/api/tokens", req)
			if err != nil {
				return err
			}
			return a.show(t, func() error {
				a.say("token %s ends %s; it is not shown again", t.Name, t.Expires.UTC().Format(time.RFC3339))
				return a.print("%s", t.Token)
			})
		},
	}
	create.Flags().StringVar(&req.Role, "role", "viewer", "viewer, developer, approver or admin")
	create.Flags().DurationVar(&req.TTL, "ttl", 30*24*time.Hour, "how long it is good for")
	a.outputFlag(create)
	list := &cobra.Command{
		Use: "list", Short: "List tokens", Example: "  davit token list", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			tokens, err := get[[]api.Token](cmd.Context(), c, "/api/tokens", nil)
			if err != nil {
				return err
			}
			return a.show(tokens, func() error {
				return a.table(rowsOf([]string{"NAME", "FOR", "ROLE", "PROJECT", "EXPIRES"}, tokens, func(t api.Token) []string {
					return []string{t.Name, t.Principal, t.Role, orDefault(t.Project, "(all)"), t.ExpiresAt.UTC().Format(time.RFC3339)}
				}))
			})
		},
	}
	a.outputFlag(list)
	cmd.AddCommand(create, list, a.revokeCommand("token", "tokens"), a.tokenHashCommand())
	return cmd
}

// revokeCommand revokes a thing of the account by its name.
func (a *app) revokeCommand(noun, path string) *cobra.Command {
	return &cobra.Command{
		Use: "revoke NAME", Short: "Revoke the " + noun, Example: "  davit " + noun + " revoke NAME", Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			var done struct{}
			if err := c.call(cmd.Context(), http.MethodDelete, apiPath(path, args[0]), nil, nil, &done); err != nil {
				return err
			}
			return a.print("revoked %s %s", noun, args[0])
		},
	}
}

func (a *app) agentCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "agent", Short: "Make, list and revoke agents", Example: "  davit agent create us\n  davit agent list",
		Args: usage(cobra.NoArgs), RunE: func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	req := api.AgentRequest{}
	create := &cobra.Command{
		Use: "create NAME", Short: "Make an agent; its enrolment token is shown once", Example: "  davit agent create us --projects default",
		Args: usage(cobra.ExactArgs(1)),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			req.Name = args[0]
			n, err := post[api.NewAgent](cmd.Context(), c, "/api/agents", req)
			if err != nil {
				return err
			}
			return a.show(n, func() error {
				a.say("enrol agent %s by %s with this token; it works once and is not shown again", n.Name, n.Expires.UTC().Format(time.RFC3339))
				a.say("run it with: davit agent run --name %s --gateway %s --sandbox ./%s --token-file -", n.Name, orDefault(n.Gateway, "HOST:PORT"), n.Name)
				return a.print("%s", n.EnrolmentToken)
			})
		},
	}
	create.Flags().StringSliceVar(&req.Projects, "projects", nil, "projects that may use it; all where left out")
	a.outputFlag(create)
	list := &cobra.Command{
		Use: "list", Short: "List agents", Example: "  davit agent list", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			agents, err := get[[]api.Agent](cmd.Context(), c, "/api/agents", nil)
			if err != nil {
				return err
			}
			return a.show(agents, func() error {
				return a.table(rowsOf([]string{"NAME", "STATE", "SINCE", "VERSION"}, agents, func(g api.Agent) []string {
					state := "gone"
					if g.Connected {
						state = "connected"
					}
					if g.Revoked {
						state = "revoked"
					}
					return []string{g.Name, state, a.age(g.Since), g.Version}
				}))
			})
		},
	}
	a.outputFlag(list)
	cmd.AddCommand(create, list, a.revokeCommand("agent", "agents"), a.agentRunCommand())
	return cmd
}

func (a *app) auditCommand() *cobra.Command {
	var who, action, subject string
	var limit int
	cmd := &cobra.Command{
		Use: "audit", Short: "List who did what, newest first", Example: "  davit audit --who release-manager --limit 20", Args: usage(cobra.NoArgs),
		RunE: func(cmd *cobra.Command, _ []string) error {
			c, err := a.client()
			if err != nil {
				return err
			}
			query := url.Values{"limit": {strconv.Itoa(limit)}}
			for key, v := range map[string]string{"who": who, "action": action, "subject": subject} {
				if v != "" {
					query.Set(key, v)
				}
			}
			list, err := get[[]api.AuditEntry](cmd.Context(), c, a.projectPath("audit"), query)
			if err != nil {
				return err
			}
			return a.show(list, func() error {
				return a.table(rowsOf([]string{"#", "WHEN", "WHO", "ACTION", "SUBJECT", "DETAIL"}, list, func(e api.AuditEntry) []string {
					return []string{strconv.FormatInt(e.Sequence, 10), e.At.UTC().Format(time.RFC3339), e.Who, e.Action, e.Subject, e.Detail}
				}))
			})
		},
	}
	f := cmd.Flags()
	f.StringVar(&who, "who", "", "only what this one did")
	f.StringVar(&action, "action", "", "only this action")
	f.StringVar(&subject, "subject", "", "only about this")
	f.IntVar(&limit, "limit", 50, "how many at most")
	a.outputFlag(cmd)
	return cmd
}

func (a *app) versionCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "version", Short: "Say which version this is", Example: "  davit version", Args: usage(cobra.NoArgs),
		RunE: func(*cobra.Command, []string) error {
			return a.show(a.Version, func() error {
				return a.print("davit %s%s", orDefault(a.Version.Version, "development"), mark(a.Version.Commit != "", " ("+short(a.Version.Commit)+")"))
			})
		},
	}
	a.outputFlag(cmd)
	return cmd
}

func (a *app) completionCommand() *cobra.Command {
	return &cobra.Command{
		Use: "completion bash|zsh|fish|powershell", Short: "Print completion for a shell", Example: "  davit completion bash > /etc/bash_completion.d/davit",
		Args: usage(cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs)), ValidArgs: []string{"bash", "zsh", "fish", "powershell"},
		RunE: func(cmd *cobra.Command, args []string) error {
			root := cmd.Root()
			switch args[0] {
			case "bash":
				return root.GenBashCompletionV2(a.Stdout, true)
			case "zsh":
				return root.GenZshCompletion(a.Stdout)
			case "fish":
				return root.GenFishCompletion(a.Stdout, true)
			}
			return root.GenPowerShellCompletionWithDesc(a.Stdout)
		},
	}
}
