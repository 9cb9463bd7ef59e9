package web

import (
	"net/http"
	"strconv"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
)

func (s *Server) pullRequestPages() {
	p := s.services.PullRequests
	const one = "/pull-requests/{repository}/{number}"
	s.page(route{Method: http.MethodGet, Path: "/pull-requests", Action: auth.PullRequestRead, Kind: "pullrequest"}, "pullrequests", func(r *http.Request) (view, error) {
		q := r.URL.Query()
		list, err := p.List(r.Context(), whoFrom(r.Context()), api.PullRequestRef{Repository: q.Get("repository"), State: q.Get("state")})
		return view{Title: "Pull requests", Nav: "pulls", Data: list}, err
	})
	s.page(route{Method: http.MethodGet, Path: one, Action: auth.PullRequestRead, Kind: "pullrequest"}, "pullrequest", func(r *http.Request) (view, error) {
		ref, err := pullRequestRef(r)
		if err != nil {
			return view{}, err
		}
		pr, err := p.Get(r.Context(), whoFrom(r.Context()), ref)
		return view{Title: pr.Title, Nav: "pulls", Watch: "pull-request/" + ref.Repository + "/" + strconv.Itoa(ref.Number), Data: pr}, err
	})
	s.form(route{Path: one + "/review", Action: auth.PullRequestReview, Kind: "pullrequest"}, func(r *http.Request) (string, error) {
		ref, err := pullRequestRef(r)
		if err != nil {
			return "", err
		}
		_, err = p.Review(r.Context(), whoFrom(r.Context()), api.ReviewRequest{
			Repository: ref.Repository, Number: ref.Number, State: r.PostFormValue("state"), Body: r.PostFormValue("body"), Head: r.PostFormValue("head"),
		})
		return pageOf(r), err
	})
	s.form(route{Path: one + "/merge", Action: auth.PullRequestMerge, Kind: "pullrequest"}, func(r *http.Request) (string, error) {
		ref, err := pullRequestRef(r)
		if err != nil {
			return "", err
		}
		ref.IfHead, ref.Method = r.PostFormValue("head"), r.PostFormValue("method")
		_, err = p.Merge(r.Context(), whoFrom(r.Context()), ref)
		return pageOf(r), err
	})
	s.form(route{Path: one + "/close", Action: auth.PullRequestMerge, Kind: "pullrequest"}, func(r *http.Request) (string, error) {
		ref, err := pullRequestRef(r)
		if err != nil {
			return "", err
		}
		_, err = p.Close(r.Context(), whoFrom(r.Context()), ref)
		return pageOf(r), err
	})
}

func pullRequestRef(r *http.Request) (api.PullRequestRef, error) {
	n, err := strconv.Atoi(r.PathValue("number"))
	if err != nil || n < 1 {
		return api.PullRequestRef{}, promo.Errorf(promo.CodeNotFound, "%q is no number of a pull request", r.PathValue("number"))
	}
	return api.PullRequestRef{Repository: r.PathValue("repository"), Number: n}, nil
}
