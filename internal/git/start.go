package git

import (
	"context"

	"github.com/go-git/go-git/v5/plumbing"
)

// start is where a batch begins: the commit to build on, and what the branch is at (zero if it does not exist).
type start struct{ on, old plumbing.Hash }

// remembered says where a batch begins as far as it is known without asking; compare-and-set guards it.
func (r *Repo) remembered(branch string, req ChangeRequest) (start, bool) {
	r.mu.Lock()
	at, ok := r.seen[branch]
	r.mu.Unlock()
	switch {
	case req.Rebuild:
		return start{}, false
	case ok:
		return start{on: at, old: at}, true
	case plumbing.IsHash(req.Base):
		return start{on: plumbing.NewHash(req.Base)}, true // that the branch is new is for the server to say
	}
	return start{}, false
}

// ask asks the server where a batch begins.
func (r *Repo) ask(ctx context.Context, branch string, req ChangeRequest) (start, error) {
	branches := []string{branch}
	baseIsCommit := plumbing.IsHash(req.Base)
	if req.Base != "" && !baseIsCommit {
		branches = append(branches, req.Base)
	}
	heads, err := r.look(ctx, branches...)
	if err != nil {
		return start{}, err
	}
	at, exists := heads[branch]
	switch {
	case req.Rebuild:
		return r.startRebuilt(ctx, req, heads)
	case exists:
		return start{on: at, old: at}, nil
	case baseIsCommit:
		return start{on: plumbing.NewHash(req.Base)}, nil
	case req.Base == "":
		return start{}, r.noBranch(branch)
	}
	base, ok := heads[req.Base]
	if !ok {
		return start{}, r.noBranch(req.Base)
	}
	return start{on: base}, nil
}

// startRebuilt begins on the base's head where branch and base have changed the same file, else on the branch.
func (r *Repo) startRebuilt(ctx context.Context, req ChangeRequest, heads map[string]plumbing.Hash) (start, error) {
	base, ok := heads[req.Base]
	if !ok {
		return start{}, r.noBranch(req.Base)
	}
	at, exists := heads[req.Branch]
	if !exists {
		return start{on: base}, nil
	}
	clash, err := r.clash(ctx, base, at)
	if err != nil || !clash {
		return start{on: at, old: at}, err
	}
	return start{on: base, old: at}, nil
}

// searchBase is where the search for an operation ends: where a new branch starts, else the base as far as it is
// known; zero bounds nothing.
func (r *Repo) searchBase(at start, base string) plumbing.Hash {
	switch {
	case at.old.IsZero() || at.old != at.on:
		return at.on
	case plumbing.IsHash(base):
		return plumbing.NewHash(base)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.seen[base]
}
