package local

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

const (
	// MaxDiff bounds a diff in bytes; a person reads less, and a page stays quick.
	MaxDiff = 1 << 20
	// maxCommits bounds the commits of a pull request that are listed or rebased.
	maxCommits = 250
)

// Diff returns what the pull request's head adds to its base, unified; beyond MaxDiff it is cut off with a note.
func (f *Forge) Diff(ctx context.Context, repository string, number int) (string, error) {
	unlock := f.lock(repository)
	_, r, _, err := f.load(ctx, repository, number)
	unlock()
	if err != nil {
		return "", err
	}
	cmd := f.git.command(ctx, f.path(repository), nil, "diff", "--no-color", "--no-ext-diff", "--no-textconv", "--find-renames", r.BaseSHA, r.HeadSHA)
	out, stderr := &capped{limit: MaxDiff}, &capped{limit: maxComplaint}
	cmd.Stdout, cmd.Stderr = out, stderr
	if err := cmd.Run(); err != nil {
		return "", promo.Errorf(promo.CodeInternal, "diff of pull request %s/%d: %w: %s", repository, number, err, strings.TrimSpace(stderr.String()))
	}
	if out.cut {
		return out.String() + fmt.Sprintf("\n[cut off after %d bytes]\n", MaxDiff), nil
	}
	return out.String(), nil
}

// Commits lists the pull request's commits, oldest first, at most 250.
func (f *Forge) Commits(ctx context.Context, repository string, number int) ([]promo.Commit, error) {
	unlock := f.lock(repository)
	_, r, _, err := f.load(ctx, repository, number)
	unlock()
	if err != nil {
		return nil, err
	}
	list, err := f.rawCommits(ctx, repository, r.BaseSHA, r.HeadSHA)
	if err != nil {
		return nil, err
	}
	out := make([]promo.Commit, len(list))
	for i, c := range list {
		subject, _, _ := strings.Cut(c.message, "\n")
		out[i] = promo.Commit{SHA: c.sha, Author: c.author.Name, Subject: subject, At: c.at, Operation: operation(c.message)}
	}
	return out, nil
}

// operation returns the operation id that Davit wrote into a commit, "" for other people's.
func operation(message string) string {
	for line := range strings.Lines(message) {
		if id, found := strings.CutPrefix(strings.TrimSpace(line), "Davit-Operation: "); found {
			return id
		}
	}
	return ""
}

// rawCommits returns the commits of base..head, oldest first.
func (f *Forge) rawCommits(ctx context.Context, repository, base, head string) ([]rawCommit, error) {
	const fields = 6
	spec := base + ".." + head
	if base == "" {
		spec = head
	}
	out, err := f.git.run(ctx, f.path(repository), nil, "log", "--topo-order", "--reverse", "-z", "--max-count="+strconv.Itoa(maxCommits),
		"--date=raw", "--format=%H%x1f%P%x1f%an%x1f%ae%x1f%ad%x1f%B", spec)
	if err != nil {
		return nil, err
	}
	var list []rawCommit
	for entry := range strings.SplitSeq(out, "\x00") {
		p := strings.SplitN(entry, "\x1f", fields)
		if len(p) != fields {
			continue
		}
		seconds, _, _ := strings.Cut(p[4], " ")
		unix, err := strconv.ParseInt(seconds, 10, 64)
		if err != nil {
			return nil, promo.Errorf(promo.CodeInternal, "date of commit %s: %w", p[0], err)
		}
		list = append(list, rawCommit{
			sha: p[0], parents: strings.Fields(p[1]), author: promo.Principal{Name: p[2], Email: p[3]}, authored: p[4],
			at: time.Unix(unix, 0).UTC(), message: p[5],
		})
	}
	return list, nil
}
