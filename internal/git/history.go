package git

import (
	"context"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/davit-cd/davit/internal/promo"
)

// maxWalk bounds every walk of history: beyond it the answer is "unrelated", or the list ends.
const maxWalk = 20_000

// RelationKind says how a commit stands to the wanted one.
type RelationKind string

// The kinds of relations.
const (
	// Same: it is the wanted commit.
	Same RelationKind = "same"
	// DescendantEqual: it comes after the wanted one, and the paths are equal byte for byte.
	DescendantEqual RelationKind = "descendant-equal"
	// DescendantDiffers: it comes after the wanted one, and the paths differ.
	DescendantDiffers RelationKind = "descendant-differs"
	// Ancestor: it comes before the wanted one.
	Ancestor RelationKind = "ancestor"
	// Unrelated: neither comes before the other.
	Unrelated RelationKind = "unrelated"
)

// Relation is how a commit stands to the wanted one, as far as some paths go.
type Relation struct {
	Kind RelationKind
	// By is the first commit after the wanted one that touched the paths; set for DescendantDiffers.
	By Commit
}

// Relation compares got with wanted. No paths means all.
func (r *Repo) Relation(ctx context.Context, wanted, got string, paths []string) (Relation, error) {
	w, err := commitID(wanted)
	if err != nil {
		return Relation{}, err
	}
	g, err := commitID(got)
	if err != nil {
		return Relation{}, err
	}
	for _, p := range paths {
		if _, err := splitPath(p); err != nil {
			return Relation{}, err
		}
	}
	if w == g {
		return Relation{Kind: Same}, nil
	}
	how, err := r.paint(ctx, w, g)
	switch {
	case err != nil:
		return Relation{}, err
	case how.base == g:
		return Relation{Kind: Ancestor}, nil
	case how.base != w:
		return Relation{Kind: Unrelated}, nil
	}
	return r.descendant(ctx, w, g, paths)
}

func (r *Repo) descendant(ctx context.Context, w, g plumbing.Hash, paths []string) (Relation, error) {
	at, err := r.pathsAt(ctx, w, paths)
	if err != nil {
		return Relation{}, err
	}
	now, err := r.pathsAt(ctx, g, paths)
	if err != nil {
		return Relation{}, err
	}
	if slices.Equal(at, now) {
		return Relation{Kind: DescendantEqual}, nil
	}
	touched, err := r.log(ctx, w, g, paths)
	if err != nil {
		return Relation{}, err
	}
	rel := Relation{Kind: DescendantDiffers}
	if len(touched) > 0 {
		rel.By = touched[len(touched)-1].public()
	}
	return rel, nil
}

// Log returns the commits of from..to that touch the paths, newest first, at most limit. No paths means all. A merge
// touches what differs from every parent.
func (r *Repo) Log(ctx context.Context, from, to string, paths []string, limit int) ([]Commit, error) {
	f, err := commitID(from)
	if err != nil {
		return nil, err
	}
	t, err := commitID(to)
	if err != nil {
		return nil, err
	}
	commits, err := r.log(ctx, f, t, paths)
	if err != nil {
		return nil, err
	}
	out := make([]Commit, 0, min(limit, len(commits)))
	for _, c := range commits[:min(limit, len(commits))] {
		out = append(out, c.public())
	}
	return out, nil
}

func (r *Repo) log(ctx context.Context, from, to plumbing.Hash, paths []string) ([]*commit, error) {
	how, err := r.paint(ctx, from, to)
	if err != nil || len(paths) == 0 {
		return how.onlyTheirs, err
	}
	if err := r.ensureRange(ctx, to, len(how.onlyTheirs)+1); err != nil {
		return nil, err
	}
	var out []*commit
	for _, c := range how.onlyTheirs {
		touches, err := r.touches(ctx, c, paths)
		if err != nil {
			return nil, err
		}
		if touches {
			out = append(out, c)
		}
	}
	return out, nil
}

func (r *Repo) touches(ctx context.Context, c *commit, paths []string) (bool, error) {
	now, err := r.pathsAt(ctx, c.id, paths)
	if err != nil {
		return false, err
	}
	if len(c.parents) == 0 {
		return slices.ContainsFunc(now, func(s string) bool { return s != "" }), nil
	}
	for _, p := range c.parents {
		before, err := r.pathsAt(ctx, p, paths)
		if err != nil {
			return false, err
		}
		if slices.Equal(now, before) {
			return false, nil
		}
	}
	return true, nil
}

// pathsAt gives id and mode of each path at a commit, "" where there is nothing.
func (r *Repo) pathsAt(ctx context.Context, id plumbing.Hash, paths []string) ([]string, error) {
	c, err := r.history(ctx, id)
	if err != nil {
		return nil, err
	}
	if len(paths) == 0 {
		return []string{c.tree.String()}, nil
	}
	t := &Tree{base: id, maxFile: r.opts.MaxFile}
	t.load = func(ids ...plumbing.Hash) ([]object, error) { return r.objects(ctx, ids...) }
	if !r.s.has(c.tree) {
		if c, err = r.complete(ctx, id); err != nil {
			return nil, err
		}
	}
	if t.root, err = t.openID(c.tree); err != nil {
		return nil, err
	}
	out := make([]string, len(paths))
	for i, p := range paths {
		names, err := splitPath(p)
		if err != nil {
			return nil, err
		}
		if len(names) == 0 {
			out[i] = c.tree.String()
			continue
		}
		if out[i], err = t.blobAt(joinPath(names)); err != nil && !isCode(err, promo.CodeConfiguration) {
			return nil, err // that a file stands where a directory was is a difference, not an error
		}
	}
	return out, nil
}

// FindOperation looks for the commit with an operation's trailer in base..head of a branch, the newest 1,000 commits
// only. base may be "".
func (r *Repo) FindOperation(ctx context.Context, branch, base, operation string) (commit string, found bool, err error) {
	head, err := r.Head(ctx, branch)
	if err != nil {
		return "", false, err
	}
	stop := plumbing.ZeroHash
	if base != "" {
		if stop, err = commitID(base); err != nil {
			return "", false, err
		}
	}
	c, err := r.findIn(ctx, plumbing.NewHash(head), stop, operation)
	if err != nil || c == nil {
		return "", false, err
	}
	return c.id.String(), true, nil
}

// findIn looks for an operation in base..head, the newest 1,000 commits; nil where it is not. The zero base bounds
// nothing, and so does one that the server has forgotten.
func (r *Repo) findIn(ctx context.Context, head, base plumbing.Hash, operation string) (*commit, error) {
	if head == base {
		return nil, nil //nolint:nilnil // "not there" is an answer
	}
	if !base.IsZero() {
		how, err := r.paintUpTo(ctx, base, head, 2*maxSearch)
		if err == nil {
			return withOperation(how.onlyTheirs, operation), nil
		}
		if !isCode(err, promo.CodeNotFound) {
			return nil, err
		}
	}
	w := r.walker(ctx)
	if err := w.push(head, theirs); err != nil {
		return nil, err
	}
	for n := 1; len(w.queue) > 0; n++ {
		c := w.pop()
		if c.operation == operation {
			return c, nil
		}
		if n == maxSearch {
			break
		}
		for _, p := range c.parents {
			if err := w.push(p, theirs); err != nil {
				return nil, err
			}
		}
	}
	return nil, nil //nolint:nilnil // "not there" is an answer
}

func withOperation(commits []*commit, operation string) *commit {
	for _, c := range commits[:min(len(commits), maxSearch)] {
		if c.operation == operation {
			return c
		}
	}
	return nil
}
