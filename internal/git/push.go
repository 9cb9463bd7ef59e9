package git

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/davit-cd/davit/internal/promo"
)

// refUpdate moves one reference from exactly old to new; the zero hash creates or deletes.
type refUpdate struct {
	ref      string
	old, new plumbing.Hash
}

// maxReport bounds the answer to a push, hooks' chatter included.
const maxReport = 1 << 20

// push sends the update and its pack. errRace says that the reference was not at old; other refusals carry the
// server's own words.
func (c *client) push(ctx context.Context, up refUpdate, pack []byte) error {
	caps, err := c.receiveCaps(ctx)
	if err != nil {
		return err
	}
	flags := []string{"report-status", "agent=" + agent}
	for _, f := range []string{"side-band-64k", "quiet"} {
		if caps.has(f) {
			flags = append(flags, f)
		}
	}
	if up.new.IsZero() && !caps.has("delete-refs") {
		return promo.Errorf(promo.CodeAuthorization, "%s lets nobody delete branches", c.url)
	}
	body := make([]byte, 0, len(pack)+512)
	line := up.old.String() + " " + up.new.String() + " " + up.ref + "\x00 " + strings.Join(flags, " ")
	body = fmt.Appendf(body, "%04x%s%s", len(line)+4, line, flushPkt)
	body = append(body, pack...)
	answer, err := c.t.call(ctx, receivePack, body)
	if err != nil {
		return err
	}
	defer func() { _ = answer.Close() }()
	var said capped
	report := io.LimitReader(answer, maxReport)
	if caps.has("side-band-64k") {
		report = &sideband{p: newPktReader(report), say: func(b []byte) { _, _ = said.Write(b) }}
	}
	err = parseReport(newPktReader(report), up, &said)
	return wireError(ctx, c.url, unexpected(err))
}

// parseReport reads "unpack ok" and the verdict on the one reference.
func parseReport(p *pktReader, up refUpdate, said *capped) error {
	unpacked, verdict := "", ""
	for {
		kind, line, err := p.text()
		if errors.Is(err, io.EOF) && verdict != "" {
			break
		}
		if err != nil {
			return err
		}
		if kind != pktData {
			break
		}
		if rest, ok := strings.CutPrefix(line, "unpack "); ok {
			unpacked = rest
		} else if strings.HasPrefix(line, "ok ") || strings.HasPrefix(line, "ng ") {
			verdict = line
		}
	}
	if verdict == "ok "+up.ref && unpacked == "ok" {
		return nil
	}
	reason := strings.TrimPrefix(verdict, "ng "+up.ref+" ")
	if unpacked != "ok" {
		reason = strings.TrimSpace("unpack " + unpacked + " " + reason)
	}
	return refused(up, reason, said.String())
}

// refused tells a lost race from a refusal. Servers have only words for it.
func refused(up refUpdate, reason, said string) error {
	low := strings.ToLower(reason + " " + said)
	has := func(parts ...string) bool {
		for _, part := range parts {
			if strings.Contains(low, part) {
				return true
			}
		}
		return false
	}
	branch := strings.TrimPrefix(up.ref, "refs/heads/")
	text := serverText(strings.ReplaceAll(said, "remote: ", ""))
	if reason = serverText(reason); text != "" {
		text = reason + ": " + text
	} else {
		text = reason
	}
	switch {
	case has("hook declined", "protected", "gh006", "gh013", "not allowed", "denied", "permission", "prohibited", "declined"):
		return promo.Errorf(promo.CodeAuthorization, "server refused the push to %q: %s", branch, text).
			WithHint("the branch is protected or a hook said no; a pull request may be allowed where a push is not")
	case has("failed to update ref", "cannot lock ref", "failed to lock", "stale info", "fetch first", "non-fast-forward",
		"already exists", "reference changed", "incorrect old value", "is at "):
		return errors.Join(errRace, errors.New(text))
	case has("missing necessary objects"):
		return errors.Join(errForgotten, promo.Errorf(promo.CodeConfiguration, "server refused the push to %q: %s", branch, text))
	case has("funny refname", "hidden ref", "shallow update", "bad pack", "fsck", "currently checked out"):
		return promo.Errorf(promo.CodeConfiguration, "server refused the push to %q: %s", branch, text)
	}
	return promo.Errorf(promo.CodeConnectivity, "push to %q did not succeed: %s", branch, text)
}
