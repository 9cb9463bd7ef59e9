package main

import (
	"context"
	"io"
	"log/slog"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/app"
	"github.com/davit-cd/davit/internal/cli"
)

// up runs everything in one process until ctx ends. Logs go to stderr, answers to stdout.
func up(stderr io.Writer, v api.Version) func(context.Context, cli.UpOptions) error {
	return func(ctx context.Context, o cli.UpOptions) error {
		log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		a, err := app.New(ctx, app.Options{
			Listen: o.Listen, AgentListen: o.AgentListen, DataDir: o.DataDir, Demo: o.Demo, Version: v,
			Users: o.Users, TLSCert: o.TLSCert, TLSKey: o.TLSKey, URL: o.URL, Log: log,
		})
		if err != nil {
			return err
		}
		defer a.Stop()
		return a.Run(ctx, func(i app.Info) error {
			return o.Ready(cli.UpInfo{URL: i.URL, Token: i.Token, Lines: i.Lines})
		})
	}
}
