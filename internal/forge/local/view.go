package local

import (
	"context"
	"fmt"
	"slices"

	"github.com/davit-cd/davit/internal/forge"
)

// viewKey names two commits, whose relation never alters.
type viewKey struct{ repository, head, base string }

// mergeView is how a head stands to a base.
type mergeView struct {
	mergeBase string
	// tree is the merged tree, "" where the two conflict.
	tree string
}

// maxViews bounds the memory of relations: enough for every open pull request, forgotten at once beyond it.
const maxViews = 2000

// view says how head stands to base, from memory where it can.
func (f *Forge) view(ctx context.Context, repository, head, base string) (mergeView, error) {
	key := viewKey{repository, head, base}
	f.mu.Lock()
	v, known := f.views[key]
	f.mu.Unlock()
	if known {
		return v, nil
	}
	var err error
	if v.mergeBase, err = f.mergeBase(ctx, repository, base, head); err != nil {
		return v, err
	}
	if v.mergeBase != "" { // unrelated histories never merge
		if v.tree, err = f.mergeTree(ctx, repository, base, head); err != nil {
			return v, err
		}
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if len(f.views) >= maxViews {
		clear(f.views)
	}
	f.views[key] = v
	return v, nil
}

// show turns a settled record into what is seen of it.
func (f *Forge) show(ctx context.Context, repo forge.Repository, r *record, heads map[string]string) (forge.PullRequest, error) {
	pr := forge.PullRequest{
		Number: r.Number, URL: f.pullURL(r.Repository, r.Number), State: r.State, Head: r.Head, HeadSHA: r.HeadSHA, Base: r.Base, BaseSHA: r.BaseSHA,
		MergeSHA: r.MergeSHA, MergedAt: r.MergedAt, ClosedBy: r.ClosedBy, Author: r.Author, Draft: r.Draft,
	}
	statuses, err := f.Statuses(ctx, r.Repository, r.HeadSHA)
	if err != nil {
		return pr, err
	}
	rule, protected := repo.Protection[r.Base]
	pr.Checks = summary(statuses, rule.RequiredChecks)
	if r.State != forge.StateOpen || heads[r.Base] == "" {
		return pr, nil
	}
	view, err := f.view(ctx, r.Repository, r.HeadSHA, heads[r.Base])
	if err != nil {
		return pr, err
	}
	pr.Conflicts = view.tree == ""
	if r.Draft {
		pr.Blocked = append(pr.Blocked, "it is a draft")
	}
	if protected {
		pr.Blocked = append(pr.Blocked, missing(r, rule, statuses)...)
		if rule.UpToDate && view.mergeBase != heads[r.Base] {
			pr.Blocked = append(pr.Blocked, fmt.Sprintf("branch %q is not up to date with %q", r.Head, r.Base))
		}
	}
	pr.Mergeable = !pr.Conflicts && len(pr.Blocked) == 0
	return pr, nil
}

// missing lists what the protection still demands of reviews and checks.
func missing(r *record, rule forge.Protection, statuses []forge.Status) []string {
	var out []string
	approvals := 0
	for _, rev := range opinions(r) {
		switch rev.State {
		case forge.ReviewApproved:
			approvals++
		case forge.ReviewChangesRequested:
			out = append(out, fmt.Sprintf("%q requested changes", rev.By))
		}
	}
	if approvals < rule.RequiredReviews {
		out = append(out, fmt.Sprintf("%d of %d required approvals", approvals, rule.RequiredReviews))
	}
	for _, name := range rule.RequiredChecks {
		if s := stateOf(statuses, name); s != forge.StatusSuccess {
			out = append(out, fmt.Sprintf("check %q is %s", name, s))
		}
	}
	return out
}

// opinions returns each person's newest review that counts, in the order given.
func opinions(r *record) []forge.Review {
	var out []forge.Review
	for _, rev := range r.Reviews {
		if rev.State == forge.ReviewCommented {
			continue
		}
		out = slices.DeleteFunc(out, func(old forge.Review) bool { return old.By == rev.By })
		if rev.Dismissed == "" {
			out = append(out, rev)
		}
	}
	return out
}

// stateOf returns a check's state; one that never reported is pending.
func stateOf(statuses []forge.Status, name string) string {
	for _, s := range statuses {
		if s.Context == name {
			return s.State
		}
	}
	return forge.StatusPending
}

// summary puts the checks of a head into one word.
func summary(statuses []forge.Status, required []string) string {
	states := []string{}
	for _, name := range required {
		states = append(states, stateOf(statuses, name))
	}
	if len(required) == 0 {
		for _, s := range statuses {
			states = append(states, s.State)
		}
	}
	switch {
	case len(states) == 0:
		return forge.ChecksNone
	case slices.Contains(states, forge.StatusFailure) || slices.Contains(states, forge.StatusError):
		return forge.ChecksFailed
	case slices.Contains(states, forge.StatusPending):
		return forge.ChecksPending
	}
	return forge.ChecksGreen
}
