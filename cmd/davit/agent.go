package main

import (
	"context"
	"io"
	"log/slog"

	"github.com/davit-cd/davit/internal/agentrun"
	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/cli"
)

// runAgent runs an agent until ctx ends. Logs go to stderr.
func runAgent(stderr io.Writer, v api.Version) func(context.Context, cli.AgentOptions) error {
	return func(ctx context.Context, o cli.AgentOptions) error {
		return agentrun.Run(ctx, agentrun.Options{
			Name: o.Name, Gateway: o.Gateway, Token: o.Token, Dir: o.Sandbox, CAFile: o.CAFile, Projects: o.Projects, Applications: o.Applications,
			GitUser: o.GitUser, GitPassword: o.GitPassword, Version: v.Version, Log: slog.New(slog.NewTextHandler(stderr, nil)),
		})
	}
}
