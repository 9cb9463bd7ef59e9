package local

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/promo"
)

// Bounds of the list of refs that one push may move.
const (
	maxCommandBytes = 1 << 20
	maxCommands     = 1000
)

// command asks to move a ref.
type command struct{ before, after, ref string }

// receive answers a push. What the branches' protection refuses is refused before git sees it; what git took is
// noticed before the client hears of it.
func (f *Forge) receive(w http.ResponseWriter, r *http.Request, c call) error {
	in, err := body(w, r, f.o.MaxPush)
	if err != nil {
		return err
	}
	head, commands, caps, err := readCommands(in)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-"+c.service+"-result")
	repo, err := f.Repository(r.Context(), c.repository)
	if err != nil {
		return err
	}
	if reason := refusal(repo, c.access.User.Name, commands); reason != "" {
		// The client sends all of its pack before it listens.
		if _, err := io.Copy(io.Discard, in); err != nil {
			return err
		}
		return refuse(w, commands, caps, reason)
	}
	cmd := f.service(r.Context(), r, c, strict(repo, commands)...)
	cmd.Stdin = io.MultiReader(bytes.NewReader(head), in)
	answer, stderr := &capped{limit: maxOutput}, &capped{limit: maxComplaint}
	cmd.Stdout, cmd.Stderr = answer, stderr
	if err := cmd.Run(); err != nil {
		f.o.Log.DebugContext(r.Context(), "push ended early", "repository", c.repository, "error", err, "stderr", strings.TrimSpace(stderr.String()))
	}
	// The push is done: that its client has gone must not keep it from being noticed.
	if err := f.noticed(context.WithoutCancel(r.Context()), c, commands, answer.buf.Bytes()); err != nil {
		return err
	}
	_, _ = w.Write(answer.buf.Bytes()) // a client that is gone asks again
	return nil
}

// strict makes git refuse to rewrite or delete where a protected branch is among the pushed.
func strict(repo forge.Repository, commands []command) []string {
	for _, c := range commands {
		if _, protected := repo.Protection[strings.TrimPrefix(c.ref, "refs/heads/")]; protected {
			return []string{"-c", "receive.denyNonFastForwards=true", "-c", "receive.denyDeletes=true"}
		}
	}
	return nil
}

// refusal says why a push may not be, "" if it may.
func refusal(repo forge.Repository, user string, commands []command) string {
	for _, c := range commands {
		branch, isBranch := strings.CutPrefix(c.ref, "refs/heads/")
		if !isBranch && !strings.HasPrefix(c.ref, "refs/tags/") {
			return fmt.Sprintf("only branches and tags may be pushed, not %s", c.ref)
		}
		if !isBranch {
			continue
		}
		if c.after == forge.ZeroSHA && branch == repo.DefaultBranch {
			return fmt.Sprintf("the default branch %s may not be deleted", branch)
		}
		rule, protected := repo.Protection[branch]
		if protected && !slices.Contains(rule.AllowPush, user) {
			return fmt.Sprintf("branch %s is protected: open a pull request", branch)
		}
	}
	return ""
}

// refuse answers in git's own words that no ref was moved.
func refuse(w io.Writer, commands []command, caps []string, reason string) error {
	if !slices.Contains(caps, "report-status") && !slices.Contains(caps, "report-status-v2") {
		return promo.Errorf(promo.CodeConflict, "%s", reason)
	}
	var report strings.Builder
	report.WriteString(pkt("unpack ok\n"))
	for _, c := range commands {
		report.WriteString(pkt("ng " + c.ref + " " + reason + "\n"))
	}
	report.WriteString("0000")
	answer := report.String()
	if slices.Contains(caps, "side-band-64k") {
		const chunk = 60000 // a packet holds 65,515 bytes
		whole := answer
		answer = ""
		for part := range slices.Chunk([]byte(whole), chunk) {
			answer += pkt("\x01" + string(part))
		}
		answer += "0000"
	}
	_, _ = io.WriteString(w, answer) // a client that is gone asks again
	return nil
}

// noticed tells of the refs that git moved and settles the pull requests that they touch.
func (f *Forge) noticed(ctx context.Context, c call, commands []command, answer []byte) error {
	var all error
	for _, cmd := range commands {
		if !bytes.Contains(answer, []byte("ok "+cmd.ref+"\n")) {
			continue
		}
		f.emit(forge.Event{
			Type: forge.EventPush, Repository: c.repository, Ref: cmd.ref, Before: cmd.before, After: cmd.after,
			By: c.access.User.Name, At: f.o.Now().UTC(),
		})
		if branch, isBranch := strings.CutPrefix(cmd.ref, "refs/heads/"); isBranch {
			all = errors.Join(all, f.settleBranch(ctx, c.repository, branch))
		}
	}
	return all
}

// readCommands reads the list at the head of a push and returns its bytes too, for git to read again.
func readCommands(in io.Reader) (head []byte, commands []command, caps []string, err error) {
	for {
		line, raw, err := readPkt(in)
		head = append(head, raw...)
		switch {
		case err != nil:
			return nil, nil, nil, err
		case len(head) > maxCommandBytes || len(commands) > maxCommands:
			return nil, nil, nil, promo.Errorf(promo.CodeConflict, "a push of more than %d refs", maxCommands)
		case line == "":
			return head, commands, caps, nil
		case strings.HasPrefix(line, "shallow "):
			continue
		}
		line, list, _ := strings.Cut(strings.TrimSuffix(line, "\n"), "\x00")
		if list != "" {
			caps = strings.Fields(list)
		}
		p := strings.SplitN(line, " ", 3)
		if len(p) != 3 || len(p[0]) != len(forge.ZeroSHA) || len(p[1]) != len(forge.ZeroSHA) {
			return nil, nil, nil, promo.Errorf(promo.CodeConflict, "no command of a push: %q", line)
		}
		commands = append(commands, command{before: p[0], after: p[1], ref: p[2]})
	}
}

// readPkt reads one line of the protocol, "" at the end of a list, and returns its raw bytes too.
func readPkt(in io.Reader) (line string, raw []byte, err error) {
	const prefix = 4
	raw = make([]byte, prefix)
	if _, err := io.ReadFull(in, raw); err != nil {
		return "", nil, broken(err)
	}
	n, err := strconv.ParseUint(string(raw), 16, 16)
	if err != nil || n != 0 && n <= prefix {
		return "", nil, promo.Errorf(promo.CodeConflict, "no line of git's protocol: %q", raw)
	}
	if n == 0 {
		return "", raw, nil
	}
	raw = append(raw, make([]byte, n-prefix)...) //nolint:makezero // the length was set on purpose
	if _, err := io.ReadFull(in, raw[prefix:]); err != nil {
		return "", nil, broken(err)
	}
	return string(raw[prefix:]), raw, nil
}

// broken is a request that ended too early; one that is too large stays what it is.
func broken(err error) error {
	return promo.Errorf(promo.CodeConflict, "the request can't be read: %w", err)
}
