package engine

import (
	"context"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/forge/local"
	"github.com/davit-cd/davit/internal/promo"
)

// PullRequests are those of the local forge.
type PullRequests struct {
	Forge *local.Forge
}

// List returns pull requests, newest first.
func (p PullRequests) List(ctx context.Context, _ promo.Principal, f api.PullRequestRef) ([]api.PullRequest, error) {
	list, err := p.Forge.List(ctx, forge.Filter{Repository: f.Repository, State: f.State})
	out := make([]api.PullRequest, 0, len(list))
	for _, d := range list {
		out = append(out, pullRequest(d))
	}
	return out, err
}

// Get returns a pull request with its diff.
func (p PullRequests) Get(ctx context.Context, _ promo.Principal, ref api.PullRequestRef) (api.PullRequest, error) {
	d, err := p.Forge.Details(ctx, ref.Repository, ref.Number)
	if err != nil {
		return api.PullRequest{}, err
	}
	out := pullRequest(d)
	out.Diff, err = p.Forge.Diff(ctx, ref.Repository, ref.Number)
	for _, f := range filesOf(out.Diff) {
		out.Files = append(out.Files, f.Path)
	}
	return out, err
}

// Review reviews a pull request at the head that the person looked at.
func (p PullRequests) Review(ctx context.Context, who promo.Principal, req api.ReviewRequest) (api.PullRequest, error) {
	state := map[string]string{
		"approved": forge.ReviewApproved, "changes-requested": forge.ReviewChangesRequested, "commented": forge.ReviewCommented,
	}[req.State]
	if state == "" {
		return api.PullRequest{}, promo.Errorf(promo.CodeConfiguration, "review state %q", req.State).WithHint("approved, changes-requested or commented")
	}
	_, err := p.Forge.Review(ctx, local.ReviewSpec{
		Repository: req.Repository, Number: req.Number, By: who, State: state, HeadSHA: req.Head, Body: req.Body,
	})
	if err != nil {
		return api.PullRequest{}, err
	}
	return p.Get(ctx, who, api.PullRequestRef{Repository: req.Repository, Number: req.Number})
}

// Merge merges a pull request at the head that the person looked at.
func (p PullRequests) Merge(ctx context.Context, who promo.Principal, ref api.PullRequestRef) (api.PullRequest, error) {
	head := ref.IfHead
	if head == "" {
		pr, err := p.Forge.Get(ctx, ref.Repository, ref.Number)
		if err != nil {
			return api.PullRequest{}, err
		}
		head = pr.HeadSHA
	}
	method := ref.Method
	if method == "" {
		method = forge.MethodMerge
	}
	_, err := p.Forge.Merge(ctx, forge.MergeSpec{Repository: ref.Repository, Number: ref.Number, ExpectHead: head, Method: method, By: who})
	if err != nil {
		return api.PullRequest{}, err
	}
	return p.Get(ctx, who, ref)
}

// Close closes a pull request without merging it.
func (p PullRequests) Close(ctx context.Context, who promo.Principal, ref api.PullRequestRef) (api.PullRequest, error) {
	if err := p.Forge.CloseBy(ctx, ref.Repository, ref.Number, who, ""); err != nil {
		return api.PullRequest{}, err
	}
	return p.Get(ctx, who, ref)
}

func pullRequest(d forge.Details) api.PullRequest {
	out := api.PullRequest{
		Repository: d.Repository, Number: d.Number, Title: d.Title, Body: d.Body, State: d.State, Draft: d.Draft, Author: d.Author,
		Head: d.Head, HeadSHA: d.HeadSHA, Base: d.Base, MergeSHA: d.MergeSHA, Labels: d.Labels, CreatedAt: d.CreatedAt, UpdatedAt: d.UpdatedAt,
		Mergeable: d.Mergeable, Conflicts: d.Conflicts, Blocked: d.Blocked,
	}
	for _, s := range d.Statuses {
		out.Checks = append(out.Checks, api.Check{Name: s.Context, State: s.State, URL: s.URL})
	}
	for _, r := range d.Reviews {
		out.Reviews = append(out.Reviews, api.Review{Author: r.By, State: r.State, Body: r.Body, Head: r.HeadSHA, At: r.At})
	}
	return out
}
