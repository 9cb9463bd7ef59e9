package gitsource_test

import (
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/davit-cd/davit/internal/gitops/sandbox/gitsource"
	"github.com/davit-cd/davit/internal/promo"
)

// repository makes a bare repository with one commit and returns both.
func repository(t *testing.T) (dir, commit string) {
	t.Helper()
	work, bare := t.TempDir(), filepath.Join(t.TempDir(), "r.git")
	git := func(args ...string) string {
		cmd := exec.CommandContext(t.Context(), "git", args...)
		cmd.Dir = work
		cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_AUTHOR_NAME=a", "GIT_AUTHOR_EMAIL=a@example.com",
			"GIT_COMMITTER_NAME=a", "GIT_COMMITTER_EMAIL=a@example.com")
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("git %v: %v\n%s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	git("init", "-q", "-b", "main")
	for name, text := range map[string]string{"a/b/c.yaml": "x: 1\n", "a/d.yaml": "y: 2\n", "e.txt": "e"} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(work, name)), 0o750); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(work, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	git("add", ".")
	git("commit", "-qm", "one")
	git("tag", "-a", "v1", "-m", "v1")
	git("clone", "-q", "--bare", ".", bare)
	return bare, git("rev-parse", "HEAD")
}

func TestResolveAndTree(t *testing.T) {
	t.Parallel()
	dir, commit := repository(t)
	s := gitsource.New()
	for _, revision := range []string{"main", "v1", "HEAD", "", commit} {
		got, err := s.Resolve(t.Context(), "file://"+dir, revision)
		if err != nil || got != commit {
			t.Errorf("Resolve(%q) = %q, %v; want %q", revision, got, err, commit)
		}
	}
	tree, err := s.Tree(t.Context(), dir, commit)
	if err != nil {
		t.Fatal(err)
	}
	if err := fstest.TestFS(tree, "a/b/c.yaml", "a/d.yaml", "e.txt"); err != nil {
		t.Error(err)
	}
	got, err := fs.ReadFile(tree, "a/d.yaml")
	if err != nil || string(got) != "y: 2\n" {
		t.Errorf("got %q, %v", got, err)
	}
}

func TestRefusals(t *testing.T) {
	t.Parallel()
	dir, commit := repository(t)
	s := gitsource.New()
	cases := map[string]struct {
		url, revision string
		code          promo.Code
	}{
		"unknown branch": {url: dir, revision: "nope", code: promo.CodeNotFound},
		"option":         {url: dir, revision: "--upload-pack=x", code: promo.CodeConfiguration},
		"expression":     {url: dir, revision: "main:a", code: promo.CodeConfiguration},
		"relative path":  {url: "repo.git", revision: "main", code: promo.CodeConfiguration},
		"https":          {url: "https://example.com/r.git", revision: "main", code: promo.CodeConfiguration},
		"no repository":  {url: t.TempDir(), revision: "main", code: promo.CodeNotFound},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := s.Resolve(t.Context(), tc.url, tc.revision)
			if err == nil || promo.CodeOf(err) != tc.code {
				t.Errorf("got %v, want %s", err, tc.code)
			}
		})
	}
	if _, err := s.Tree(t.Context(), dir, strings.Repeat("0", len(commit))); promo.CodeOf(err) != promo.CodeNotFound {
		t.Errorf("got %v, want NotFound", err)
	}
}
