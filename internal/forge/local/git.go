package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os/exec"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// maxOutput bounds what is read of a git command's answer: lists of refs and commits, one capped diff.
const maxOutput = 8 << 20

// maxComplaint bounds what is kept of git's complaints.
const maxComplaint = 4 << 10

// grace is how long a git process has to end once its caller is gone.
const grace = 5 * time.Second

// git runs the git program, cut off from the configuration, hooks and prompts of whoever started the server.
type git struct {
	program string
	home    string
}

// exitError is a git command that ended with a code other than 0.
type exitError struct {
	code   int
	stderr string
}

func (e *exitError) Error() string { return fmt.Sprintf("git ended with %d: %s", e.code, e.stderr) }

// command prepares git in a bare repository.
func (g git) command(ctx context.Context, dir string, env []string, args ...string) *exec.Cmd {
	fixed := []string{"-c", "core.hooksPath=/dev/null", "-c", "safe.directory=*", "-c", "gc.auto=0", "-c", "core.quotePath=false"}
	cmd := exec.CommandContext(ctx, g.program, append(fixed, args...)...) //nolint:gosec // the operator's git; arguments are checked names
	cmd.Dir = dir
	cmd.WaitDelay = grace
	for _, kv := range cmd.Environ() {
		if strings.HasPrefix(kv, "PATH=") {
			cmd.Env = append(cmd.Env, kv)
		}
	}
	cmd.Env = append(cmd.Env, "HOME="+g.home, "LC_ALL=C", "TZ=UTC", "GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null",
		"GIT_TERMINAL_PROMPT=0", "GIT_NO_REPLACE_OBJECTS=1")
	cmd.Env = append(cmd.Env, env...)
	return cmd
}

// run runs git and returns its answer without the line's end.
func (g git) run(ctx context.Context, dir string, stdin io.Reader, args ...string) (string, error) {
	return g.runEnv(ctx, dir, nil, stdin, args...)
}

func (g git) runEnv(ctx context.Context, dir string, env []string, stdin io.Reader, args ...string) (string, error) {
	cmd := g.command(ctx, dir, env, args...)
	stdout, stderr := &capped{limit: maxOutput}, &capped{limit: maxComplaint}
	cmd.Stdin, cmd.Stdout, cmd.Stderr = stdin, stdout, stderr
	err := cmd.Run()
	if err == nil && stdout.cut {
		return "", promo.Errorf(promo.CodeInternal, "git %s answered more than %d bytes", args[0], maxOutput)
	}
	out := strings.TrimRight(stdout.String(), "\n")
	if err == nil {
		return out, nil
	}
	if ctx.Err() != nil {
		return "", ctx.Err()
	}
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		return out, promo.Errorf(promo.CodeInternal, "git %s: %w", args[0], &exitError{exit.ExitCode(), strings.TrimSpace(stderr.String())})
	}
	return "", promo.Errorf(promo.CodeInternal, "git %s: %w", args[0], err)
}

// exitCode returns the code with which git ended, -1 if it never ran.
func exitCode(err error) int {
	if e, ok := errors.AsType[*exitError](err); ok {
		return e.code
	}
	return -1
}

// capped keeps the first limit bytes that are written and drops the rest. It embeds no bytes.Buffer: io.Copy would
// find its ReadFrom and pass the limit by.
type capped struct {
	buf   bytes.Buffer
	limit int
	cut   bool
}

func (c *capped) Write(p []byte) (int, error) {
	room := c.limit - c.buf.Len()
	if len(p) > room {
		c.cut = true
		c.buf.Write(p[:max(room, 0)])
		return len(p), nil
	}
	return c.buf.Write(p)
}

func (c *capped) String() string { return c.buf.String() }

// refs returns the branches of a repository, or those named.
func (f *Forge) refs(ctx context.Context, repository string, branches ...string) (map[string]string, error) {
	args := []string{"for-each-ref", "--format=%(objectname) %(refname)"}
	for _, b := range branches {
		args = append(args, "refs/heads/"+b)
	}
	if len(branches) == 0 {
		args = append(args, "refs/heads")
	}
	out, err := f.git.run(ctx, f.path(repository), nil, args...)
	if err != nil {
		return nil, err
	}
	heads := map[string]string{}
	for line := range strings.Lines(out) {
		sha, ref, _ := strings.Cut(strings.TrimSpace(line), " ")
		heads[strings.TrimPrefix(ref, "refs/heads/")] = sha
	}
	return heads, nil
}

// setRef moves a ref from one value to another, forge.ZeroSHA for none; it reports false if it had another value.
func (f *Forge) setRef(ctx context.Context, repository, ref, to, from string) (bool, error) {
	_, err := f.git.run(ctx, f.path(repository), nil, "update-ref", ref, to, from)
	var exit *exitError
	if errors.As(err, &exit) && (strings.Contains(exit.stderr, "cannot lock ref") || strings.Contains(exit.stderr, "unable to resolve")) {
		return false, nil
	}
	return err == nil, err
}

// contains reports whether commit is in the history of head.
func (f *Forge) contains(ctx context.Context, repository, head, commit string) (bool, error) {
	_, err := f.git.run(ctx, f.path(repository), nil, "merge-base", "--is-ancestor", commit, head)
	if exitCode(err) == 1 {
		return false, nil
	}
	return err == nil, err
}

// mergeBase returns the best common ancestor, "" for unrelated histories.
func (f *Forge) mergeBase(ctx context.Context, repository, a, b string) (string, error) {
	out, err := f.git.run(ctx, f.path(repository), nil, "merge-base", a, b)
	if exitCode(err) == 1 {
		return "", nil
	}
	return out, err
}

// mergeTree merges two commits and returns the tree, or "" where they conflict.
func (f *Forge) mergeTree(ctx context.Context, repository, ours, theirs string) (string, error) {
	out, err := f.git.run(ctx, f.path(repository), nil, "merge-tree", "--write-tree", "--no-messages", ours, theirs)
	if exitCode(err) == 1 {
		return "", nil
	}
	return out, err
}
