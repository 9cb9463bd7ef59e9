package git

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"
)

// Preview makes the change's commit in the mirror only and says what it would change: nothing is pushed. The base
// is req.Base, or req.Branch where that is empty, as the server has it now.
func (r *Repo) Preview(ctx context.Context, req ChangeRequest) (Change, error) {
	if err := req.check(); err != nil {
		return Change{}, err
	}
	branch := req.Base
	if branch == "" {
		branch = req.Branch
	}
	commit, err := r.Head(ctx, branch)
	if err != nil {
		return Change{}, err
	}
	head := plumbing.NewHash(commit)
	j := &job{ctx: ctx, req: req, base: head, head: head}
	if _, err := r.buildOne(ctx, start{on: head, old: head}, j); err != nil {
		return Change{}, err
	}
	out := Change{Branch: branch, Base: j.base.String(), Head: j.head.String(), Changed: j.base != j.head}
	return out, r.describe(ctx, &out, j.base, j.head, nil)
}
