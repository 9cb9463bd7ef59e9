package local

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/promo"
)

// settle makes the record agree with the refs: it finishes a merge that was cut off, follows the head, and sees
// what a push merged or deleted. heads holds at least the record's branches and is kept right. The caller holds
// the repository's lock.
func (f *Forge) settle(ctx context.Context, r *record, heads map[string]string) error {
	if r.Merging != nil {
		if err := f.settleMerge(ctx, r, heads); err != nil {
			return err
		}
	}
	if r.State != forge.StateOpen || heads[r.Base] == "" {
		return nil
	}
	if heads[r.Head] == "" {
		return f.settleGone(ctx, r, heads)
	}
	if heads[r.Head] != r.HeadSHA {
		if err := f.settleHead(ctx, r, heads[r.Head]); err != nil {
			return err
		}
	}
	view, err := f.view(ctx, r.Repository, r.HeadSHA, heads[r.Base])
	if err != nil {
		return err
	}
	if view.mergeBase == r.HeadSHA {
		return f.markPushed(ctx, r, heads[r.Base])
	}
	r.BaseSHA = view.mergeBase
	return nil
}

// markPushed notes that a push brought the head into the base, and by which of the base's own commits.
func (f *Forge) markPushed(ctx context.Context, r *record, base string) error {
	args := []string{"rev-list", "--first-parent", "--reverse", base}
	if r.BaseSHA != "" {
		args = append(args, "^"+r.BaseSHA)
	}
	out, err := f.git.run(ctx, f.path(r.Repository), nil, args...)
	if err != nil {
		return err
	}
	// The first of them that holds the head: all later ones do too.
	list := strings.Fields(out)
	var trouble error
	i := sort.Search(len(list), func(i int) bool {
		holds, err := f.contains(ctx, r.Repository, list[i], r.HeadSHA)
		trouble = errors.Join(trouble, err)
		return holds
	})
	if trouble != nil {
		return trouble
	}
	if i < len(list) {
		base = list[i]
	}
	return f.markMerged(ctx, r, base, "")
}

// settleMerge looks whether the merge that was under way reached the base, and finishes or forgets it.
func (f *Forge) settleMerge(ctx context.Context, r *record, heads map[string]string) error {
	m := r.Merging
	if r.State == forge.StateOpen {
		reached := false
		if base := heads[r.Base]; base != "" {
			var err error
			// A result that is not even an object was never pushed to the base.
			if reached, err = f.contains(ctx, r.Repository, base, m.Result); err != nil && exitCode(err) < 0 {
				return err
			}
		}
		if !reached {
			r.Merging = nil
			return f.save(ctx, r)
		}
		if err := f.markMerged(ctx, r, m.Result, m.By); err != nil {
			return err
		}
	}
	if m.DeleteBranch && heads[r.Head] == r.HeadSHA {
		if err := f.deleteHead(ctx, r); err != nil {
			return err
		}
		delete(heads, r.Head)
	}
	r.Merging = nil
	return f.save(ctx, r)
}

// deleteHead deletes the head branch unless another open pull request needs it or somebody pushed to it.
func (f *Forge) deleteHead(ctx context.Context, r *record) error {
	docs, err := f.o.Store.PullRequests(ctx, r.Repository, forge.StateOpen, r.Head, 0, 0)
	if err != nil {
		return err
	}
	repo, err := f.Repository(ctx, r.Repository)
	if err != nil {
		return err
	}
	if _, protected := repo.Protection[r.Head]; protected || len(docs) > 0 || r.Head == repo.DefaultBranch {
		return nil
	}
	deleted, err := f.setRef(ctx, r.Repository, "refs/heads/"+r.Head, forge.ZeroSHA, r.HeadSHA)
	if deleted {
		f.emit(forge.Event{
			Type: forge.EventPush, Repository: r.Repository, Ref: "refs/heads/" + r.Head, Before: r.HeadSHA, After: forge.ZeroSHA,
			By: r.ClosedBy, At: f.o.Now().UTC(),
		})
	}
	return err
}

// markMerged notes that the pull request is merged. by is "" where a push did it.
func (f *Forge) markMerged(ctx context.Context, r *record, sha, by string) error {
	r.State, r.MergeSHA, r.ClosedBy, r.MergedAt = forge.StateMerged, sha, by, f.o.Now().UTC()
	if r.Merging != nil {
		r.MergedAt = r.Merging.At
	}
	e := f.event(r, forge.EventMerged, by)
	e.After = sha
	return f.save(ctx, r, e)
}

// settleGone closes a pull request whose head branch was deleted, as merged if the base has it.
func (f *Forge) settleGone(ctx context.Context, r *record, heads map[string]string) error {
	view, err := f.view(ctx, r.Repository, r.HeadSHA, heads[r.Base])
	if err != nil {
		return err
	}
	if view.mergeBase == r.HeadSHA {
		return f.markPushed(ctx, r, heads[r.Base])
	}
	r.State = forge.StateClosed
	return f.save(ctx, r, f.event(r, forge.EventClosed, ""))
}

// settleHead follows a push to the head branch.
func (f *Forge) settleHead(ctx context.Context, r *record, sha string) error {
	repo, err := f.Repository(ctx, r.Repository)
	if err != nil {
		return err
	}
	e := f.event(r, forge.EventSynchronize, "")
	e.Before, e.After = r.HeadSHA, sha
	r.HeadSHA = sha
	if repo.Protection[r.Base].DismissStale {
		for i := range r.Reviews {
			if r.Reviews[i].Dismissed == "" && r.Reviews[i].State != forge.ReviewCommented {
				r.Reviews[i].Dismissed = "new commits were pushed"
			}
		}
	}
	if err := f.keepHead(ctx, r); err != nil {
		return err
	}
	return f.save(ctx, r, e)
}

// settleBranch settles the open pull requests that a push to branch altered: those that start there, and those
// whose head it brought into their base. The others are looked at when somebody reads them; looking at all of them
// at every push would cost most where many are open.
func (f *Forge) settleBranch(ctx context.Context, repository, branch string) error {
	defer f.lock(repository)()
	open, err := f.openPulls(ctx, repository)
	if err != nil || len(open) == 0 {
		return err
	}
	heads, err := f.refs(ctx, repository)
	if err != nil {
		return err
	}
	reached, err := f.reached(ctx, repository, open, branch, heads[branch])
	if err != nil {
		return err
	}
	for _, r := range open {
		if r.Head != branch && !reached[r.Number] {
			continue
		}
		if err := f.settle(ctx, r, heads); err != nil {
			return err
		}
	}
	return nil
}

// reached returns the numbers of those pull requests into branch whose head is in its history.
func (f *Forge) reached(ctx context.Context, repository string, open []*record, branch, head string) (map[int]bool, error) {
	args := []string{"for-each-ref", "--merged=" + head, "--format=%(refname)"}
	before := len(args)
	for _, r := range open {
		if r.Base == branch {
			args = append(args, fmt.Sprintf("refs/pull/%d/head", r.Number))
		}
	}
	if head == "" || len(args) == before {
		return nil, nil //nolint:nilnil // none
	}
	out, err := f.git.run(ctx, f.path(repository), nil, args...)
	if err != nil {
		return nil, err
	}
	numbers := map[int]bool{}
	for ref := range strings.FieldsSeq(out) {
		var n int
		if _, err := fmt.Sscanf(ref, "refs/pull/%d/head", &n); err == nil {
			numbers[n] = true
		}
	}
	return numbers, nil
}

// openPulls reads every open pull request of a repository.
func (f *Forge) openPulls(ctx context.Context, repository string) ([]*record, error) {
	const page = 200
	var out []*record
	for before := 0; ; {
		docs, err := f.o.Store.PullRequests(ctx, repository, forge.StateOpen, "", before, page)
		if err != nil {
			return nil, err
		}
		for _, doc := range docs {
			r, err := decode(doc)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
			before = r.Number
		}
		if len(docs) < page {
			return out, nil
		}
	}
}

// recover settles, when the server starts, every pull request that may need it.
func (f *Forge) recover(ctx context.Context) error {
	list, err := f.Repositories(ctx)
	if err != nil {
		return err
	}
	var all error
	for _, repo := range list {
		unlock := f.lock(repo.Name)
		err := f.settleAll(ctx, repo.Name)
		unlock()
		if err != nil {
			all = errors.Join(all, promo.Errorf(promo.CodeOf(err), "repository %q: %w", repo.Name, err))
		}
	}
	return all
}

func (f *Forge) settleAll(ctx context.Context, repository string) error {
	open, err := f.openPulls(ctx, repository)
	if err != nil {
		return err
	}
	// The last merges may have left their branch behind.
	merged, err := f.o.Store.PullRequests(ctx, repository, forge.StateMerged, "", 0, 0)
	if err != nil {
		return err
	}
	for _, doc := range merged {
		r, err := decode(doc)
		if err != nil {
			return err
		}
		if r.Merging != nil {
			open = append(open, r)
		}
	}
	if len(open) == 0 {
		return nil
	}
	heads, err := f.refs(ctx, repository)
	if err != nil {
		return err
	}
	for _, r := range open {
		if err := f.settle(ctx, r, heads); err != nil {
			return err
		}
	}
	return nil
}
