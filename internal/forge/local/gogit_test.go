package local_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	gogit "github.com/go-git/go-git/v5"
	"github.com/go-git/go-git/v5/config"
	"github.com/go-git/go-git/v5/plumbing/object"
	"github.com/go-git/go-git/v5/plumbing/transport/http"

	"github.com/davit-cd/davit/internal/forge"
)

// TestGoGit speaks with the forge as Davit itself does, by the Go implementation of Git.
func TestGoGit(t *testing.T) {
	t.Parallel()
	w := start(t, &forge.Protection{})
	auth := &http.BasicAuth{Username: "x", Password: "token-davit"}
	dir := t.TempDir()
	repo, err := gogit.PlainCloneContext(t.Context(), dir, false, &gogit.CloneOptions{URL: w.url + "/git/deploy.git", Auth: auth, Depth: 1})
	w.ok(err)
	tree, err := repo.Worktree()
	w.ok(err)
	w.ok(os.WriteFile(filepath.Join(dir, "go.yaml"), []byte("go: 1\n"), 0o600))
	_, err = tree.Add("go.yaml")
	w.ok(err)
	sha, err := tree.Commit("by go-git", &gogit.CommitOptions{Author: &object.Signature{Name: "davit", Email: "davit@example.com", When: time.Unix(1_700_000_100, 0)}})
	w.ok(err)
	push := func(spec string) error {
		return repo.PushContext(t.Context(), &gogit.PushOptions{Auth: auth, RefSpecs: []config.RefSpec{config.RefSpec(spec)}})
	}
	w.ok(push("refs/heads/main:refs/heads/topic"))
	w.same("head", w.head("topic"), sha.String())
	if err := push("refs/heads/main:refs/heads/main"); err == nil || !strings.Contains(err.Error(), "branch main is protected") {
		t.Fatalf("push to a protected branch: %v", err)
	}
	if pr := w.propose("topic"); pr.HeadSHA != sha.String() {
		t.Fatalf("opened %+v", pr)
	}
}
