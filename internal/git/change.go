package git

import (
	"context"
	"errors"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/davit-cd/davit/internal/promo"
)

// ChangeRequest asks for one commit on a branch.
type ChangeRequest struct {
	// Operation is the operation's id: it goes into the trailer Davit-Operation, by which a second run finds the
	// commit of the first. One line.
	Operation string
	// Branch is written.
	Branch string
	// Base is the branch or commit that Branch starts from when it does not exist yet (pull requests); "" demands
	// that Branch exists (direct push). A commit in Base also ends the search for the operation: it is looked for
	// in base..head, the first 1,000 commits only.
	Base string
	// Expect is the commit that the new one must be made on, "" for any: Branch's head, or where a new branch
	// starts. Another one is a Conflict that names who made it.
	Expect  string
	Author  promo.Principal
	Message string
	// Edit changes the tree. It may run again on a newer head, so that it must not keep state between runs.
	// Leaving the tree as it was makes no commit.
	Edit func(ctx context.Context, t *Tree) error
	// Undo, where set, is a commit whose change is taken back instead of Edit (a merge's, against its first
	// parent). A file that others have changed since is a Conflict that names it.
	Undo string
	// Rebuild makes Branch anew on the present head of Base where both have changed a file since they parted;
	// where they have not, the commit of the operation that is there stays.
	Rebuild bool
}

// Change is a commit, or a range of commits, with what it changes.
type Change struct {
	Base, Head, Branch string
	// Changed is false when the edit changed nothing: Head is then the commit that was looked at.
	Changed bool
	// Existing is true when an earlier run had made the commit.
	Existing bool
	Files    []FileChange
	// Digest is "sha256:" and the hash over path, old blob and new blob of every changed file, sorted by path.
	// Equal digests are equal changes, on whatever base.
	Digest string
	// Diff is unified and bounded; binary, large and left out files are named in it.
	Diff string
}

// FileChange is one changed path; Old or New is "" where the file did not or does not exist. Modes are octal as
// Git writes them.
type FileChange struct {
	Path             string
	Old, New         string
	OldMode, NewMode string
}

// Change makes one commit and pushes it. Changes of one branch that wait at the same time go in one push, each as
// a commit of its own. A lost race against another writer redoes the edit on the new head; many of them are a
// Conflict. Running the same request again, after whatever end, gives the same commit.
func (r *Repo) Change(ctx context.Context, req ChangeRequest) (Change, error) {
	if err := req.check(); err != nil {
		return Change{}, err
	}
	j := &job{ctx: ctx, req: req, done: make(chan struct{})}
	r.enqueue(j) //nolint:contextcheck // work for several callers at once has a context of its own
	select {
	case <-j.done:
	case <-ctx.Done():
		if r.withdraw(j) {
			return Change{}, wireError(ctx, r.c.url, ctx.Err())
		}
		<-j.done // it has begun: an edit must not run on behind the caller's back, and the outcome matters
	}
	if j.err != nil {
		return Change{}, j.err
	}
	out := Change{Branch: req.Branch, Base: j.base.String(), Head: j.head.String(), Changed: j.base != j.head, Existing: j.existing}
	err := r.describe(ctx, &out, j.base, j.head, nil)
	return out, err
}

func (req *ChangeRequest) check() error {
	if err := branchName(req.Branch); err != nil {
		return err
	}
	if req.Base != "" && !plumbing.IsHash(req.Base) {
		if err := branchName(req.Base); err != nil {
			return err
		}
	}
	if req.Base == req.Branch {
		req.Base = ""
	}
	bad := func(what string) error {
		return promo.Errorf(promo.CodeConfiguration, "change of branch %q: %s", req.Branch, what)
	}
	switch {
	case req.Operation == "" || len(req.Operation) > 1000 || strings.ContainsFunc(req.Operation, func(c rune) bool { return c < ' ' }) ||
		strings.TrimSpace(req.Operation) != req.Operation:
		return bad("its operation must be one line that is not empty")
	case (req.Edit == nil) == (req.Undo == ""):
		return bad("it needs either an edit or a commit to undo")
	case req.Expect != "" && !plumbing.IsHash(req.Expect):
		return bad("the expected head is not a commit's full id")
	case req.Undo != "" && !plumbing.IsHash(req.Undo):
		return bad("what is to be undone is not a commit's full id")
	case req.Rebuild && (req.Base == "" || plumbing.IsHash(req.Base)):
		return bad("to rebuild it needs a branch as base")
	}
	return nil
}

// foreign is the Conflict of a branch that is not where it was expected.
func (r *Repo) foreign(ctx context.Context, branch string, at plumbing.Hash, expect string) error {
	c, err := r.history(ctx, at)
	if err != nil {
		return promo.Errorf(promo.CodeConflict, "branch %q of repository %q is at %s, not at %s", branch, r.name, short(at), expect)
	}
	p := c.public()
	return promo.Errorf(promo.CodeConflict, "branch %q of repository %q is at %s by %s (%q), not at %s",
		branch, r.name, short(at), p.Author, p.Subject, expect)
}

// undo takes a commit's change back: every file that it changed gets its old bytes, if it still has the new ones.
func (r *Repo) undo(ctx context.Context, t *Tree, commit string) error {
	id := plumbing.NewHash(commit)
	c, err := r.complete(ctx, id)
	if err != nil {
		return err
	}
	if len(c.parents) == 0 {
		return promo.Errorf(promo.CodeConfiguration, "commit %s is the first one: there is nothing to go back to", short(id))
	}
	before, err := r.treeAt(ctx, c.parents[0])
	if err != nil {
		return err
	}
	files, err := r.changes(ctx, c.parents[0], id, nil)
	if err != nil {
		return err
	}
	for _, f := range files {
		now, err := t.blobAt(f.Path)
		if err != nil {
			return err
		}
		switch now {
		case f.Old + f.OldMode: // taken back already
		case f.New + f.NewMode:
			if err := t.restore(before, f.Path); err != nil {
				return err
			}
		default:
			return promo.Errorf(promo.CodeConflict, "%q has been changed since commit %s: undoing it would undo that too", f.Path, short(id))
		}
	}
	return nil
}

// blobAt is the id and mode at a path, "" where there is nothing.
func (t *Tree) blobAt(path string) (string, error) {
	n, err := t.lookup(strings.Split(path, "/"))
	if errors.Is(err, errNoEntry) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return n.id.String() + octal(n.mode), nil
}

// restore is copyFrom for a single entry of whatever kind, links included: it was there before.
func (t *Tree) restore(source *Tree, path string) error {
	names := strings.Split(path, "/")
	n, err := source.lookup(names)
	if errors.Is(err, errNoEntry) {
		return t.remove(t.root, names)
	}
	if err != nil {
		return err
	}
	return t.put(names, &node{name: n.name, mode: n.mode, id: n.id})
}

func octal(m filemode.FileMode) string { return strings.TrimPrefix(m.String(), "0") }
