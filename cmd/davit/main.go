// Command davit is the program: server, agent and command line in one binary. It alone touches the process;
// everything else is in package cli.
package main

import (
	"context"
	"os"
	"os/signal"
	"runtime"
	"runtime/debug"
	"syscall"

	"golang.org/x/term"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/cli"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/steps"
)

func main() { os.Exit(run()) }

func run() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	p := cli.Process{
		Args: os.Args[1:], Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr, Env: os.Getenv, Version: version(),
		Language: spec.New(steps.Builtin()),
	}
	p.Up, p.RunAgent = up(os.Stderr, p.Version), runAgent(os.Stderr, p.Version)
	if dir, err := os.UserConfigDir(); err == nil {
		p.ConfigDir = dir
	}
	if fd := int(os.Stdout.Fd()); term.IsTerminal(fd) {
		if columns, rows, err := term.GetSize(fd); err == nil {
			p.Columns, p.Rows = columns, rows
		}
	}
	return cli.Execute(ctx, p)
}

func version() api.Version {
	v := api.Version{Version: "development", Go: runtime.Version()}
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return v
	}
	if info.Main.Version != "" && info.Main.Version != "(devel)" {
		v.Version = info.Main.Version
	}
	for _, s := range info.Settings {
		if s.Key == "vcs.revision" {
			v.Commit = s.Value
		}
	}
	return v
}
