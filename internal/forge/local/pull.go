package local

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/promo"
)

// Bounds of what people write.
const (
	maxTitle    = 1 << 10
	maxBody     = 64 << 10
	maxTimeline = 500 // entries of each list of a pull request; a stage needs a handful
)

// record is what the store keeps of a pull request. HeadSHA and BaseSHA are as last seen; the refs decide.
type record struct {
	Repository string          `json:"repository"`
	Number     int             `json:"number"`
	State      string          `json:"state"`
	Head       string          `json:"head"`
	HeadSHA    string          `json:"headSHA"`
	Base       string          `json:"base"`
	BaseSHA    string          `json:"baseSHA"`
	MergeSHA   string          `json:"mergeSHA,omitempty"`
	MergedAt   time.Time       `json:"mergedAt,omitzero"`
	ClosedBy   string          `json:"closedBy,omitempty"`
	Author     string          `json:"author"`
	AuthorMail string          `json:"authorMail,omitempty"`
	Title      string          `json:"title"`
	Body       string          `json:"body,omitempty"`
	Labels     []string        `json:"labels,omitempty"`
	Reviewers  []string        `json:"reviewers,omitempty"`
	Draft      bool            `json:"draft,omitempty"`
	CreatedAt  time.Time       `json:"createdAt"`
	UpdatedAt  time.Time       `json:"updatedAt"`
	Reviews    []forge.Review  `json:"reviews,omitempty"`
	Comments   []forge.Comment `json:"comments,omitempty"`
	Timeline   []forge.Event   `json:"timeline,omitempty"`
	// Merging is what a merge is about to do, or has done but for the deletion of the branch.
	Merging *intent `json:"merging,omitempty"`
}

// intent is the note that a merge leaves before it moves the base.
type intent struct {
	Result       string    `json:"result"`
	By           string    `json:"by"`
	At           time.Time `json:"at"`
	DeleteBranch bool      `json:"deleteBranch,omitempty"`
}

// Open finds the pull request of the head branch that is open, or merged at the branch's head, or opens one.
func (f *Forge) Open(ctx context.Context, spec forge.Spec) (forge.PullRequest, error) {
	repo, err := f.checkSpec(ctx, spec)
	if err != nil {
		return forge.PullRequest{}, err
	}
	defer f.lock(spec.Repository)()
	heads, err := f.refs(ctx, spec.Repository, spec.Head, spec.Base)
	if err != nil {
		return forge.PullRequest{}, err
	}
	r, err := f.find(ctx, spec, heads)
	if err != nil {
		return forge.PullRequest{}, err
	}
	if r == nil {
		if r, err = f.create(ctx, spec, heads); err != nil {
			return forge.PullRequest{}, err
		}
	}
	return f.show(ctx, repo, r, heads)
}

func (f *Forge) checkSpec(ctx context.Context, spec forge.Spec) (forge.Repository, error) {
	repo, err := f.Repository(ctx, spec.Repository)
	if err != nil {
		return repo, err
	}
	for _, b := range []string{spec.Head, spec.Base} {
		if err := checkBranch(b); err != nil {
			return repo, err
		}
	}
	switch {
	case spec.Head == spec.Base:
		return repo, promo.Errorf(promo.CodeConfiguration, "a pull request from %q into itself", spec.Head)
	case strings.TrimSpace(spec.Title) == "" || len(spec.Title) > maxTitle || len(spec.Body) > maxBody:
		return repo, promo.Errorf(promo.CodeConfiguration, "the pull request from %q has no title, or more text than %d bytes", spec.Head, maxBody)
	}
	return repo, nil
}

// find returns the pull request that Open would not open again, nil if there is none.
func (f *Forge) find(ctx context.Context, spec forge.Spec, heads map[string]string) (*record, error) {
	docs, err := f.o.Store.PullRequests(ctx, spec.Repository, "", spec.Head, 0, 0)
	if err != nil {
		return nil, err
	}
	for _, doc := range docs {
		r, err := decode(doc)
		if err != nil {
			return nil, err
		}
		if r.Base != spec.Base {
			continue
		}
		if err := f.settle(ctx, r, heads); err != nil {
			return nil, err
		}
		head := heads[spec.Head]
		if r.State == forge.StateOpen || r.State == forge.StateMerged && (head == "" || head == r.HeadSHA) {
			return r, nil
		}
	}
	return nil, nil //nolint:nilnil // none is an answer
}

func (f *Forge) create(ctx context.Context, spec forge.Spec, heads map[string]string) (*record, error) {
	for _, b := range []string{spec.Head, spec.Base} {
		if heads[b] == "" {
			return nil, promo.Errorf(promo.CodeNotFound, "no branch %q in repository %q", b, spec.Repository)
		}
	}
	view, err := f.view(ctx, spec.Repository, heads[spec.Head], heads[spec.Base])
	if err != nil {
		return nil, err
	}
	if view.mergeBase == heads[spec.Head] {
		return nil, promo.Errorf(promo.CodeConflict, "branch %q has nothing that %q does not have", spec.Head, spec.Base)
	}
	number, err := f.o.Store.NextPullRequestNumber(ctx, spec.Repository)
	if err != nil {
		return nil, err
	}
	name, mail := identity(spec.Author)
	now := f.o.Now().UTC()
	r := &record{
		Repository: spec.Repository, Number: number, State: forge.StateOpen, Head: spec.Head, HeadSHA: heads[spec.Head],
		Base: spec.Base, BaseSHA: view.mergeBase, Author: name, AuthorMail: mail, Title: spec.Title, Body: spec.Body,
		Labels: unique(spec.Labels), Reviewers: unique(spec.Reviewers), Draft: spec.Draft, CreatedAt: now,
	}
	if err := f.keepHead(ctx, r); err != nil {
		return nil, err
	}
	return r, f.save(ctx, r, f.event(r, forge.EventOpened, name))
}

func unique(list []string) []string {
	out := slices.Clone(list)
	slices.Sort(out)
	return slices.Compact(out)
}

// keepHead keeps the head's commits from being collected once the branch is gone.
func (f *Forge) keepHead(ctx context.Context, r *record) error {
	_, err := f.git.run(ctx, f.path(r.Repository), nil, "update-ref", fmt.Sprintf("refs/pull/%d/head", r.Number), r.HeadSHA)
	return err
}

// event makes an event about a pull request.
func (f *Forge) event(r *record, kind, by string) forge.Event {
	return forge.Event{
		Type: kind, Repository: r.Repository, Number: r.Number, Head: r.Head, Base: r.Base, After: r.HeadSHA, By: by, At: f.o.Now().UTC(),
	}
}

// save keeps the record, its timeline grown by the events, and then tells them.
func (f *Forge) save(ctx context.Context, r *record, list ...forge.Event) error {
	r.UpdatedAt = f.o.Now().UTC()
	r.Timeline = append(r.Timeline, list...)
	r.Timeline = r.Timeline[max(0, len(r.Timeline)-maxTimeline):]
	r.Comments = r.Comments[max(0, len(r.Comments)-maxTimeline):]
	r.Reviews = r.Reviews[max(0, len(r.Reviews)-maxTimeline):]
	doc, err := json.Marshal(r)
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "pull request %s/%d: %w", r.Repository, r.Number, err)
	}
	if err := f.o.Store.SavePullRequest(ctx, r.Repository, r.Number, r.State, r.Head, doc); err != nil {
		return err
	}
	f.emit(list...)
	return nil
}

func decode(doc []byte) (*record, error) {
	r := &record{}
	if err := json.Unmarshal(doc, r); err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "record of a pull request: %w", err)
	}
	return r, nil
}

// load reads a pull request and settles it. The caller holds the repository's lock.
func (f *Forge) load(ctx context.Context, repository string, number int) (forge.Repository, *record, map[string]string, error) {
	repo, err := f.Repository(ctx, repository)
	if err != nil {
		return repo, nil, nil, err
	}
	doc, err := f.o.Store.PullRequest(ctx, repository, number)
	if promo.CodeOf(err) == promo.CodeNotFound && err != nil {
		return repo, nil, nil, promo.Errorf(promo.CodeNotFound, "no pull request %d in repository %q", number, repository)
	}
	if err != nil {
		return repo, nil, nil, err
	}
	r, err := decode(doc)
	if err != nil {
		return repo, nil, nil, err
	}
	heads, err := f.refs(ctx, repository, r.Head, r.Base)
	if err != nil {
		return repo, nil, nil, err
	}
	return repo, r, heads, f.settle(ctx, r, heads)
}

// Get returns a pull request as its branches are now.
func (f *Forge) Get(ctx context.Context, repository string, number int) (forge.PullRequest, error) {
	defer f.lock(repository)()
	repo, r, heads, err := f.load(ctx, repository, number)
	if err != nil {
		return forge.PullRequest{}, err
	}
	return f.show(ctx, repo, r, heads)
}

// Details returns all that there is about a pull request.
func (f *Forge) Details(ctx context.Context, repository string, number int) (forge.Details, error) {
	defer f.lock(repository)()
	repo, r, heads, err := f.load(ctx, repository, number)
	if err != nil {
		return forge.Details{}, err
	}
	return f.details(ctx, repo, r, heads)
}

func (f *Forge) details(ctx context.Context, repo forge.Repository, r *record, heads map[string]string) (forge.Details, error) {
	pr, err := f.show(ctx, repo, r, heads)
	if err != nil {
		return forge.Details{}, err
	}
	statuses, err := f.Statuses(ctx, r.Repository, r.HeadSHA)
	return forge.Details{
		PullRequest: pr, Repository: r.Repository, Title: r.Title, Body: r.Body, Labels: r.Labels, Reviewers: r.Reviewers,
		CreatedAt: r.CreatedAt, UpdatedAt: r.UpdatedAt, Reviews: r.Reviews, Statuses: statuses, Comments: r.Comments, Timeline: r.Timeline,
	}, err
}

// List lists pull requests, newest first; without a repository those of all, where Before does not apply.
func (f *Forge) List(ctx context.Context, filter forge.Filter) ([]forge.Details, error) {
	if filter.Repository != "" {
		return f.list(ctx, filter)
	}
	repos, err := f.Repositories(ctx)
	if err != nil {
		return nil, err
	}
	out := []forge.Details{}
	for _, repo := range repos {
		filter.Repository, filter.Before = repo.Name, 0
		part, err := f.list(ctx, filter)
		if err != nil {
			return nil, err
		}
		out = append(out, part...)
	}
	slices.SortStableFunc(out, func(a, b forge.Details) int { return b.CreatedAt.Compare(a.CreatedAt) })
	if filter.Limit > 0 {
		out = out[:min(len(out), filter.Limit)]
	}
	return out, nil
}

func (f *Forge) list(ctx context.Context, filter forge.Filter) ([]forge.Details, error) {
	repo, err := f.Repository(ctx, filter.Repository)
	if err != nil {
		return nil, err
	}
	defer f.lock(filter.Repository)()
	docs, err := f.o.Store.PullRequests(ctx, filter.Repository, filter.State, filter.Head, filter.Before, filter.Limit)
	if err != nil {
		return nil, err
	}
	heads, err := f.refs(ctx, filter.Repository)
	if err != nil {
		return nil, err
	}
	out := make([]forge.Details, 0, len(docs))
	for _, doc := range docs {
		r, err := decode(doc)
		if err != nil {
			return nil, err
		}
		if err := f.settle(ctx, r, heads); err != nil {
			return nil, err
		}
		if filter.State != "" && r.State != filter.State {
			continue // it was settled just now
		}
		d, err := f.details(ctx, repo, r, heads)
		if err != nil {
			return nil, err
		}
		out = append(out, d)
	}
	return out, nil
}
