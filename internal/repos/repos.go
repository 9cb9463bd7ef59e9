// Package repos gives release repositories to everything that changes them: it finds a repository's definition,
// opens its mirror, and adapts Git and the forge to the ports of steps, workflows and rollbacks. It decides nothing.
//
// Start reading at Repos.
package repos

import (
	"context"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/steps"
)

// Definitions says where repositories are.
type Definitions interface {
	Repository(ctx context.Context, project, name string) (*spec.RepositorySpec, error)
}

// Forge is a forge as package forge promises it.
type Forge interface {
	Open(ctx context.Context, spec forge.Spec) (forge.PullRequest, error)
	Get(ctx context.Context, repository string, number int) (forge.PullRequest, error)
	Merge(ctx context.Context, spec forge.MergeSpec) (forge.PullRequest, error)
	Close(ctx context.Context, repository string, number int, comment string) error
	// List is newest first.
	List(ctx context.Context, filter forge.Filter) ([]forge.Details, error)
}

// Local says how Davit itself reaches the local forge's repositories.
type Local struct {
	Forge Forge
	// URL is the address below which repositories lie: "http://127.0.0.1:8080/git".
	URL  string
	Auth git.Auth
}

// Repos is safe for concurrent use.
type Repos struct {
	Definitions Definitions
	Mirrors     *git.Mirrors
	Local       Local
}

// Repo opens the mirror of a repository.
func (r *Repos) Repo(ctx context.Context, project, name string) (*git.Repo, error) {
	def, err := r.Definitions.Repository(ctx, project, name)
	if err != nil {
		return nil, err
	}
	if def.Provider != "local" {
		return nil, promo.Errorf(promo.CodeConfiguration, "repository %q: provider %q is not in this version", name, def.Provider)
	}
	return r.Mirrors.Open(ctx, git.Remote{Name: project + "/" + name, URL: r.Local.URL + "/" + name + ".git", Auth: r.Local.Auth})
}

// Git is the port of steps for one project.
func (r *Repos) Git(project string) steps.Git { return projectGit{r, project} }

// Forge is the port of steps for one project.
func (r *Repos) Forge(project string) steps.Forge { return projectForge{r, project} }

// Compare says how commits of a repository stand to each other, as far as the paths go.
func (r *Repos) Compare(ctx context.Context, project, repository, wanted, got string, paths []string) (steps.Relation, error) {
	repo, err := r.Repo(ctx, project, repository)
	if err != nil {
		return steps.Relation{}, err
	}
	rel, err := repo.Relation(ctx, wanted, got, paths)
	if err != nil {
		return steps.Relation{}, err
	}
	switch rel.Kind {
	case git.Same:
		return steps.Relation{Kind: steps.RelationSame}, nil
	case git.DescendantEqual:
		return steps.Relation{Kind: steps.RelationDescendantEqual}, nil
	case git.DescendantDiffers:
		return steps.Relation{Kind: steps.RelationOvertaken, By: rel.By.ID}, nil
	case git.Ancestor:
		return steps.Relation{Kind: steps.RelationAncestor}, nil
	case git.Unrelated:
		return steps.Relation{Kind: steps.RelationUnrelated}, nil
	}
	return steps.Relation{}, promo.Errorf(promo.CodeInternal, "unknown relation %q", rel.Kind)
}

type projectGit struct {
	r       *Repos
	project string
}

func (p projectGit) Change(ctx context.Context, req steps.GitChange) (steps.GitResult, error) {
	repo, err := p.r.Repo(ctx, p.project, req.Repository)
	if err != nil {
		return steps.GitResult{}, err
	}
	c := git.ChangeRequest{
		Operation: req.Operation, Branch: req.Branch, Base: req.Base, Expect: req.Expect, Author: req.Author, Message: req.Message,
		Undo: req.Undo, Rebuild: req.Rebuild,
	}
	if req.Edit != nil {
		c.Edit = func(ctx context.Context, t *git.Tree) error { return req.Edit(ctx, t) }
	}
	got, err := repo.Change(ctx, c)
	return result(got), err
}

func (p projectGit) Head(ctx context.Context, repository, branch string) (string, error) {
	repo, err := p.r.Repo(ctx, p.project, repository)
	if err != nil {
		return "", err
	}
	return repo.Head(ctx, branch)
}

func (p projectGit) Diff(ctx context.Context, repository, base, head string) (steps.GitResult, error) {
	repo, err := p.r.Repo(ctx, p.project, repository)
	if err != nil {
		return steps.GitResult{}, err
	}
	got, err := repo.DiffOf(ctx, base, head)
	return result(got), err
}

func (p projectGit) ReadFile(ctx context.Context, repository, commit, path string) ([]byte, error) {
	repo, err := p.r.Repo(ctx, p.project, repository)
	if err != nil {
		return nil, err
	}
	return repo.ReadFile(ctx, commit, path)
}

func (p projectGit) DeleteBranch(ctx context.Context, repository, branch, expect string) error {
	repo, err := p.r.Repo(ctx, p.project, repository)
	if err != nil {
		return err
	}
	return repo.DeleteBranch(ctx, branch, expect)
}

func result(c git.Change) steps.GitResult {
	out := steps.GitResult{Base: c.Base, Head: c.Head, Changed: c.Changed || c.Existing, Digest: c.Digest, Diff: c.Diff}
	for _, f := range c.Files {
		out.Files = append(out.Files, f.Path)
	}
	return out
}

type projectForge struct {
	r       *Repos
	project string
}

func (p projectForge) Open(ctx context.Context, req steps.PullRequestSpec) (steps.PullRequest, error) {
	got, err := p.r.Local.Forge.Open(ctx, forge.Spec(req))
	return steps.PullRequest(got), err
}

func (p projectForge) Get(ctx context.Context, repository string, number int) (steps.PullRequest, error) {
	got, err := p.r.Local.Forge.Get(ctx, repository, number)
	return steps.PullRequest(got), err
}

func (p projectForge) Merge(ctx context.Context, req steps.MergeSpec) (steps.PullRequest, error) {
	got, err := p.r.Local.Forge.Merge(ctx, forge.MergeSpec(req))
	return steps.PullRequest(got), err
}

func (p projectForge) Close(ctx context.Context, repository string, number int, comment string) error {
	return p.r.Local.Forge.Close(ctx, repository, number, comment)
}
