package local

import (
	"context"
	"encoding/json"
	"regexp"
	"slices"
	"strings"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/promo"
)

// checkAuthor demands to know who acts.
func checkAuthor(p promo.Principal) error {
	if strings.TrimSpace(p.Name) == "" {
		return promo.Errorf(promo.CodeConfiguration, "nobody is named who does this")
	}
	return nil
}

// alter lets fn alter an open or closed pull request and keeps it with the events that fn returns.
func (f *Forge) alter(ctx context.Context, repository string, number int, by promo.Principal, fn func(r *record, name string) ([]forge.Event, error)) (forge.PullRequest, error) {
	if err := checkAuthor(by); err != nil {
		return forge.PullRequest{}, err
	}
	defer f.lock(repository)()
	repo, r, heads, err := f.load(ctx, repository, number)
	if err != nil {
		return forge.PullRequest{}, err
	}
	name, _ := identity(by)
	list, err := fn(r, name)
	if err != nil {
		return forge.PullRequest{}, err
	}
	if len(list) > 0 {
		if err := f.save(ctx, r, list...); err != nil {
			return forge.PullRequest{}, err
		}
	}
	return f.show(ctx, repo, r, heads)
}

// ReviewSpec asks for a review.
type ReviewSpec struct {
	Repository string
	Number     int
	By         promo.Principal
	State      string // approved, changes_requested, commented
	// HeadSHA is the commit that was looked at; it must be the head.
	HeadSHA string
	Body    string
}

// Review adds a person's opinion on the head they looked at. Another head is a Conflict; the author's own approval
// is refused.
func (f *Forge) Review(ctx context.Context, spec ReviewSpec) (forge.PullRequest, error) {
	if !slices.Contains([]string{forge.ReviewApproved, forge.ReviewChangesRequested, forge.ReviewCommented}, spec.State) || len(spec.Body) > maxBody {
		return forge.PullRequest{}, promo.Errorf(promo.CodeConfiguration, "a review of state %q and %d bytes", spec.State, len(spec.Body)).
			WithHint("approved, changes_requested or commented, at most %d bytes", maxBody)
	}
	return f.alter(ctx, spec.Repository, spec.Number, spec.By, func(r *record, name string) ([]forge.Event, error) {
		switch {
		case r.State != forge.StateOpen:
			return nil, promo.Errorf(promo.CodeConflict, "pull request %s/%d is %s", r.Repository, r.Number, r.State)
		case spec.HeadSHA != r.HeadSHA:
			return nil, promo.Errorf(promo.CodeConflict, "pull request %s/%d is at %s, the review looked at %q", r.Repository, r.Number, r.HeadSHA, spec.HeadSHA).
				WithHint("look at the new commits")
		case spec.State == forge.ReviewApproved && name == r.Author:
			return nil, promo.Errorf(promo.CodeAuthorization, "%q may not approve a pull request of their own", name)
		}
		e := f.event(r, forge.EventReview, name)
		e.State = spec.State
		r.Reviews = append(r.Reviews, forge.Review{By: name, State: spec.State, HeadSHA: spec.HeadSHA, Body: spec.Body, At: e.At})
		return []forge.Event{e}, nil
	})
}

// Comment adds a remark.
func (f *Forge) Comment(ctx context.Context, repository string, number int, by promo.Principal, body string) error {
	if strings.TrimSpace(body) == "" || len(body) > maxBody {
		return promo.Errorf(promo.CodeConfiguration, "a comment of %d bytes", len(body)).WithHint("1 to %d bytes", maxBody)
	}
	_, err := f.alter(ctx, repository, number, by, func(r *record, name string) ([]forge.Event, error) {
		e := f.event(r, forge.EventComment, name)
		r.Comments = append(r.Comments, forge.Comment{By: name, Body: body, At: e.At})
		return []forge.Event{e}, nil
	})
	return err
}

// Close closes a pull request without merging it, with a comment unless that is empty. What is closed or merged
// already stays as it is.
func (f *Forge) Close(ctx context.Context, repository string, number int, comment string) error {
	return f.CloseBy(ctx, repository, number, promo.Principal{Name: "davit"}, comment)
}

// CloseBy is Close in a person's name.
func (f *Forge) CloseBy(ctx context.Context, repository string, number int, by promo.Principal, comment string) error {
	_, err := f.alter(ctx, repository, number, by, func(r *record, name string) ([]forge.Event, error) {
		if r.State != forge.StateOpen {
			return nil, nil
		}
		e := f.event(r, forge.EventClosed, name)
		if strings.TrimSpace(comment) != "" {
			r.Comments = append(r.Comments, forge.Comment{By: name, Body: comment[:min(len(comment), maxBody)], At: e.At})
		}
		r.State, r.ClosedBy = forge.StateClosed, name
		return []forge.Event{e}, nil
	})
	return err
}

// Reopen opens a closed pull request again, if its branches are there and no other one took its place.
func (f *Forge) Reopen(ctx context.Context, repository string, number int, by promo.Principal) (forge.PullRequest, error) {
	return f.alter(ctx, repository, number, by, func(r *record, name string) ([]forge.Event, error) {
		if r.State == forge.StateOpen {
			return nil, nil
		}
		if r.State == forge.StateMerged {
			return nil, promo.Errorf(promo.CodeConflict, "pull request %s/%d is merged", r.Repository, r.Number)
		}
		heads, err := f.refs(ctx, repository, r.Head, r.Base)
		if err != nil {
			return nil, err
		}
		other, err := f.find(ctx, forge.Spec{Repository: repository, Head: r.Head, Base: r.Base}, heads)
		if err != nil {
			return nil, err
		}
		if heads[r.Head] == "" || heads[r.Base] == "" || other != nil {
			return nil, promo.Errorf(promo.CodeConflict, "pull request %s/%d can't be opened again: its branch %q is gone or has another one",
				r.Repository, r.Number, r.Head)
		}
		r.State, r.ClosedBy = forge.StateOpen, ""
		if heads[r.Head] != r.HeadSHA {
			if err := f.settleHead(ctx, r, heads[r.Head]); err != nil {
				return nil, err
			}
		}
		return []forge.Event{f.event(r, forge.EventReopened, name)}, nil
	})
}

// SetDraft makes a pull request a draft, or ready.
func (f *Forge) SetDraft(ctx context.Context, repository string, number int, by promo.Principal, draft bool) (forge.PullRequest, error) { //nolint:revive // a setter
	return f.alter(ctx, repository, number, by, func(r *record, name string) ([]forge.Event, error) {
		if r.Draft == draft || r.State != forge.StateOpen {
			return nil, nil
		}
		r.Draft = draft
		return []forge.Event{f.event(r, forge.EventEdited, name)}, nil
	})
}

// SetStatus sets a check's state on a commit, which need not belong to a pull request yet.
func (f *Forge) SetStatus(ctx context.Context, repository, commit string, s forge.Status) error {
	if _, err := f.Repository(ctx, repository); err != nil {
		return err
	}
	known := slices.Contains([]string{forge.StatusPending, forge.StatusSuccess, forge.StatusFailure, forge.StatusError}, s.State)
	if !known || s.Context == "" || len(s.Context)+len(s.Description)+len(s.URL) > maxBody {
		return promo.Errorf(promo.CodeConfiguration, "a status %q of check %q", s.State, s.Context).
			WithHint("a name, and pending, success, failure or error")
	}
	if !regexp.MustCompile(`^[0-9a-f]{40}$`).MatchString(commit) {
		return promo.Errorf(promo.CodeConfiguration, "%q is no commit", commit).WithHint("40 hexadecimal digits")
	}
	if _, err := f.git.run(ctx, f.path(repository), nil, "cat-file", "-e", commit+"^{commit}"); err != nil {
		return promo.Errorf(promo.CodeNotFound, "no commit %s in repository %q", commit, repository)
	}
	s.At = f.o.Now().UTC()
	doc, err := json.Marshal(s)
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "status of %s: %w", commit, err)
	}
	if err := f.o.Store.SaveStatus(ctx, repository, commit, s.Context, doc); err != nil {
		return err
	}
	e := forge.Event{Type: forge.EventStatus, Repository: repository, After: commit, State: s.State, By: s.By, At: s.At}
	open, err := f.openPulls(ctx, repository)
	if err != nil {
		return err
	}
	f.emit(e)
	for _, r := range open { // once more for each pull request that waits for it
		if r.HeadSHA == commit {
			e.Number, e.Head, e.Base = r.Number, r.Head, r.Base
			f.emit(e)
		}
	}
	return nil
}

// Statuses lists a commit's checks by context.
func (f *Forge) Statuses(ctx context.Context, repository, commit string) ([]forge.Status, error) {
	docs, err := f.o.Store.Statuses(ctx, repository, commit)
	if err != nil {
		return nil, err
	}
	out := make([]forge.Status, len(docs))
	for i, doc := range docs {
		if err := json.Unmarshal(doc, &out[i]); err != nil {
			return nil, promo.Errorf(promo.CodeInternal, "status of %s: %w", commit, err)
		}
	}
	return out, nil
}
