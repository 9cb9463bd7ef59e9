package local

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/promo"
)

// mergeTries is how often a merge starts anew when pushes move the base under it: each try takes milliseconds.
const mergeTries = 10

// Merge merges a pull request at exactly the expected head ("" for any). One that is merged at that head already
// is a success. It is a Conflict when the head is another, the content conflicts or the protection refuses.
func (f *Forge) Merge(ctx context.Context, spec forge.MergeSpec) (forge.PullRequest, error) {
	if spec.Method == "" {
		spec.Method = forge.MethodMerge
	}
	if !slices.Contains([]string{forge.MethodMerge, forge.MethodSquash, forge.MethodRebase}, spec.Method) {
		return forge.PullRequest{}, promo.Errorf(promo.CodeConfiguration, "no merge method %q", spec.Method).
			WithHint("merge, squash or rebase")
	}
	if err := checkAuthor(spec.By); err != nil {
		return forge.PullRequest{}, err
	}
	defer f.lock(spec.Repository)()
	for range mergeTries {
		repo, r, heads, err := f.load(ctx, spec.Repository, spec.Number)
		if err != nil {
			return forge.PullRequest{}, err
		}
		done, err := f.tryMerge(ctx, spec, repo, r, heads)
		if err != nil {
			return forge.PullRequest{}, err
		}
		if done {
			return f.show(ctx, repo, r, heads)
		}
	}
	return forge.PullRequest{}, promo.Errorf(promo.CodeInternal, "branch moved %d times while pull request %s/%d was merged",
		mergeTries, spec.Repository, spec.Number)
}

// tryMerge merges onto the base as it is now. It reports false when the base moved meanwhile.
func (f *Forge) tryMerge(ctx context.Context, spec forge.MergeSpec, repo forge.Repository, r *record, heads map[string]string) (bool, error) {
	if err := f.mayMerge(ctx, spec, r); err != nil || r.State == forge.StateMerged {
		return err == nil, err
	}
	pr, err := f.show(ctx, repo, r, heads)
	if err != nil {
		return false, err
	}
	if err := allowed(spec, repo, pr); err != nil {
		return false, err
	}
	base := heads[r.Base]
	result, err := f.mergeResult(ctx, spec, r, base)
	if err != nil {
		return false, err
	}
	by, _ := identity(spec.By)
	r.Merging = &intent{Result: result, By: by, At: f.o.Now().UTC(), DeleteBranch: spec.DeleteBranch}
	if err := f.save(ctx, r); err != nil {
		return false, err
	}
	moved, err := f.setRef(ctx, r.Repository, "refs/heads/"+r.Base, result, base)
	if err != nil || !moved {
		return false, err
	}
	heads[r.Base] = result
	f.emit(forge.Event{
		Type: forge.EventPush, Repository: r.Repository, Ref: "refs/heads/" + r.Base, Before: base, After: result, By: by, At: f.o.Now().UTC(),
	})
	return true, f.settle(ctx, r, heads)
}

// mayMerge compares the pull request with what the caller expects.
func (f *Forge) mayMerge(ctx context.Context, spec forge.MergeSpec, r *record) error {
	name := fmt.Sprintf("pull request %s/%d", r.Repository, r.Number)
	if spec.ExpectHead != "" && spec.ExpectHead != r.HeadSHA {
		author, err := f.git.run(ctx, f.path(r.Repository), nil, "log", "-1", "--format=%an", r.HeadSHA)
		if err != nil {
			return err
		}
		verb := "is at"
		if r.State == forge.StateMerged {
			verb = "was merged at"
		}
		return promo.Errorf(promo.CodeConflict, "%s %s %s by %q, not at %s", name, verb, r.HeadSHA, author, spec.ExpectHead).
			WithHint("look at the new commit; a merge takes only what was looked at")
	}
	if r.State == forge.StateClosed {
		return promo.Errorf(promo.CodeConflict, "%s is closed", name)
	}
	return nil
}

// allowed applies the protection, which some may pass by.
func allowed(spec forge.MergeSpec, repo forge.Repository, pr forge.PullRequest) error {
	name := fmt.Sprintf("pull request %s/%d", repo.Name, pr.Number)
	if pr.Conflicts {
		return promo.Errorf(promo.CodeConflict, "%s conflicts with branch %q", name, pr.Base).WithHint("make the change anew on the branch's head")
	}
	if len(pr.Blocked) == 0 {
		return nil
	}
	if !spec.Bypass {
		return promo.Errorf(promo.CodeConflict, "%s can't be merged: %s", name, strings.Join(pr.Blocked, "; "))
	}
	by, _ := identity(spec.By)
	if !slices.Contains(repo.Protection[pr.Base].AllowBypass, by) || pr.Draft {
		return promo.Errorf(promo.CodeAuthorization, "%q may not merge %s past: %s", by, name, strings.Join(pr.Blocked, "; "))
	}
	return nil
}

// mergeResult makes the commit that the base will move to.
func (f *Forge) mergeResult(ctx context.Context, spec forge.MergeSpec, r *record, base string) (string, error) {
	if spec.Method == forge.MethodRebase {
		return f.rebase(ctx, spec, r, base)
	}
	view, err := f.view(ctx, r.Repository, r.HeadSHA, base)
	if err != nil {
		return "", err
	}
	c := commit{tree: view.tree, parents: []string{base}, committer: spec.By, author: spec.By, message: spec.Message}
	if spec.Method == forge.MethodMerge {
		c.parents = append(c.parents, r.HeadSHA)
		c.message = orElse(c.message, fmt.Sprintf("Merge pull request #%d from %s\n\n%s\n", r.Number, r.Head, r.Title))
	} else {
		c.author = promo.Principal{Name: r.Author, Email: r.AuthorMail}
		c.message = orElse(c.message, fmt.Sprintf("%s (#%d)\n\n%s\n", r.Title, r.Number, r.Body))
	}
	c.message = withTrailer(c.message, fmt.Sprintf("Davit-Pull-Request: %d", r.Number))
	return f.commit(ctx, r.Repository, c)
}

func orElse(s, other string) string {
	if strings.TrimSpace(s) == "" {
		return other
	}
	return s
}

// withTrailer adds a trailer to the message, in the block of trailers if there is one.
func withTrailer(message, trailer string) string {
	message = strings.TrimRight(message, "\n ")
	last := message[strings.LastIndex(message, "\n")+1:]
	key, _, isTrailer := strings.Cut(last, ": ")
	if isTrailer && !strings.Contains(key, " ") && strings.Contains(message, "\n\n") {
		return message + "\n" + trailer + "\n"
	}
	return message + "\n\n" + trailer + "\n"
}

// commit is a commit to be made.
type commit struct {
	tree              string
	parents           []string
	author, committer promo.Principal
	authored          string // Git's raw date, now if empty
	message           string
}

func (f *Forge) commit(ctx context.Context, repository string, c commit) (string, error) {
	now := fmt.Sprintf("%d +0000", f.o.Now().Unix())
	an, am := identity(c.author)
	cn, cm := identity(c.committer)
	env := []string{
		"GIT_AUTHOR_NAME=" + an, "GIT_AUTHOR_EMAIL=" + am, "GIT_AUTHOR_DATE=" + orElse(c.authored, now),
		"GIT_COMMITTER_NAME=" + cn, "GIT_COMMITTER_EMAIL=" + cm, "GIT_COMMITTER_DATE=" + now,
	}
	args := []string{"commit-tree", c.tree}
	for _, p := range c.parents {
		args = append(args, "-p", p)
	}
	return f.git.runEnv(ctx, f.path(repository), env, strings.NewReader(c.message), args...)
}

// rebase puts the head's commits, one by one, on the base; a head that is ahead of it stays as it is.
func (f *Forge) rebase(ctx context.Context, spec forge.MergeSpec, r *record, base string) (string, error) {
	if r.BaseSHA == base {
		return r.HeadSHA, nil
	}
	list, err := f.rawCommits(ctx, r.Repository, r.BaseSHA, r.HeadSHA)
	if err != nil {
		return "", err
	}
	onto := base
	for _, c := range list {
		if len(c.parents) != 1 {
			return "", promo.Errorf(promo.CodeConflict, "pull request %s/%d holds a merge commit, which can't be rebased", r.Repository, r.Number).
				WithHint("merge or squash it")
		}
		tree, err := f.pick(ctx, r.Repository, c, onto)
		if err != nil {
			return "", err
		}
		if tree == "" {
			return "", promo.Errorf(promo.CodeConflict, "commit %s of pull request %s/%d conflicts with branch %q", c.sha, r.Repository, r.Number, r.Base)
		}
		onto, err = f.commit(ctx, r.Repository, commit{
			tree: tree, parents: []string{onto}, author: c.author, authored: c.authored, committer: spec.By, message: c.message,
		})
		if err != nil {
			return "", err
		}
	}
	return onto, nil
}

// pick returns the tree of onto with what c did to its parent, "" on conflict. Git merges commits by their common
// ancestor, so the three trees are dressed up as commits for it; nothing refers to those afterwards.
func (f *Forge) pick(ctx context.Context, repository string, c rawCommit, onto string) (string, error) {
	davit := promo.Principal{}
	ancestor, err := f.commit(ctx, repository, commit{tree: c.parents[0] + "^{tree}", author: davit, committer: davit, message: "ancestor"})
	if err != nil {
		return "", err
	}
	sides := [2]string{}
	for i, of := range []string{onto, c.sha} {
		side := commit{tree: of + "^{tree}", parents: []string{ancestor}, author: davit, committer: davit, message: fmt.Sprint("side ", i)}
		if sides[i], err = f.commit(ctx, repository, side); err != nil {
			return "", err
		}
	}
	return f.mergeTree(ctx, repository, sides[0], sides[1])
}

// rawCommit is a commit as it is in the repository.
type rawCommit struct {
	sha      string
	parents  []string
	author   promo.Principal
	authored string
	at       time.Time
	message  string
}
