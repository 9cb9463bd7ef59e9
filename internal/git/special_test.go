package git_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/testkit/gitserver"
)

func TestUndo(t *testing.T) {
	t.Parallel()
	transports(t, func(t *testing.T, f *fixture, r *git.Repo) {
		path := "services/checkout/dev/values.yaml"
		before := f.Git("rev-parse", "main^{tree}")
		pr := change("pr", path, "image: bad\n")
		pr.Branch, pr.Base = "davit/pr", "main"
		made := mustChange(t, r, pr)
		merge := strings.TrimSpace(f.Git("commit-tree", "-p", "main", "-p", made.Head, "-m", "merge", made.Head+"^{tree}"))
		f.Git("update-ref", "refs/heads/main", merge)
		undo := git.ChangeRequest{Operation: "undo", Branch: "main", Undo: merge, Author: alice, Message: "Revert"}
		got := mustChange(t, r, undo)
		if after := f.Git("rev-parse", "main^{tree}"); after != before || got.Base != merge {
			t.Errorf("tree is %s, want %s; %+v", after, before, got)
		}
		undo.Operation = "undo again"
		if again := mustChange(t, r, undo); again.Changed {
			t.Errorf("undone twice: %+v", again)
		}
		f.Commit("main", "other", gitserver.Text(map[string]string{path: "image: third\n"}))
		undo.Operation = "undo late"
		_, err := r.Change(t.Context(), undo)
		wantCode(t, err, promo.CodeConflict, path)
	})
}

func TestRebuild(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	r := f.repo(t, f.URL)
	path := "services/checkout/dev/values.yaml"
	req := change("op", path, "image: v2\n")
	req.Branch, req.Base = "davit/pr", "main"
	first := mustChange(t, r, req)
	req.Rebuild = true
	f.Commit("main", "elsewhere", gitserver.Text(map[string]string{"other": "1"}))
	if got := mustChange(t, r, req); !got.Existing || got.Head != first.Head {
		t.Errorf("rebuilt without need: %+v", got)
	}
	moved := f.Commit("main", "same file", gitserver.Text(map[string]string{path: "image: hot\n"}))
	got := mustChange(t, r, req)
	if got.Existing || got.Base != moved || f.Head("davit/pr") != got.Head {
		t.Errorf("was not rebuilt on %s: %+v", moved, got)
	}
	if again := mustChange(t, r, req); !again.Existing || again.Head != got.Head {
		t.Errorf("rebuilt twice: %+v", again)
	}
	f.Fsck()
}

// TestKeptCommitSurvives: the server forgets a commit, the mirror does not, also not when it is tidied.
func TestKeptCommitSurvives(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{LooseLimit: 1, PackLimit: 1})
	r := f.repo(t, f.URL)
	f.Git("branch", "doomed", "main")
	good := f.Commit("doomed", "known good", gitserver.Text(map[string]string{"services/checkout/dev/values.yaml": "image: good\n"}))
	if err := r.Keep(t.Context(), good, "services/checkout"); err != nil {
		t.Fatal(err)
	}
	f.Git("branch", "-D", "doomed")
	f.Git("reflog", "expire", "--expire=now", "--all")
	f.Git("prune", "--expire=now")
	if _, err := f.server.TryGit(f.Dir, "cat-file", "-e", good); err == nil {
		t.Fatal("the server has not forgotten")
	}
	for i := range 10 {
		mustChange(t, r, change(fmt.Sprint("op-", i), "a", fmt.Sprint(i)))
	}
	if err := f.mirrors.Close(); err != nil {
		t.Fatal(err)
	}
	if loose := looseObjects(t, f.dir); loose > 60 {
		t.Errorf("mirror was not tidied: %d loose objects", loose)
	}
	f.mirrors = f.open(t, f.dir, git.Options{LooseLimit: 1, PackLimit: 1})
	r = f.repo(t, f.URL)
	data, err := r.ReadFile(t.Context(), good, "services/checkout/dev/values.yaml")
	if err != nil || string(data) != "image: good\n" {
		t.Errorf("file is %q, %v", data, err)
	}
	// Back to it: the server gets again what it has forgotten.
	back := change("rollback", "", "")
	back.Edit = func(ctx context.Context, tr *git.Tree) error {
		return tr.CopyFrom(ctx, good, "services/checkout", "services/checkout")
	}
	mustChange(t, r, back)
	if got := f.Git("show", "main:services/checkout/dev/values.yaml"); got != "image: good\n" {
		t.Errorf("file is %q", got)
	}
	f.Fsck()
	if err := r.Release(good); err != nil {
		t.Error(err)
	}
	mustChange(t, r, change("op-last", "a", "last"))
}

func looseObjects(t *testing.T, dir string) int {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.git", "objects", "[0-9a-f][0-9a-f]", "*"))
	if err != nil {
		t.Fatal(err)
	}
	return len(files)
}

func TestTidyMirrorWorksOn(t *testing.T) {
	t.Parallel()
	for _, limit := range []int{1, 20} {
		t.Run(fmt.Sprint(limit), func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, git.Options{LooseLimit: limit, PackLimit: limit})
			r := f.repo(t, f.URL)
			first := f.Head("main")
			for i := range 40 {
				mustChange(t, r, change(fmt.Sprint("op-", i), fmt.Sprintf("services/s%d/x", i%7), fmt.Sprint(i)))
			}
			if got := mustChange(t, r, change("op-3", "services/s3/x", "3")); !got.Existing {
				t.Errorf("made again: %+v", got)
			}
			if _, err := r.ReadFile(t.Context(), first, "README.md"); err != nil {
				t.Error(err)
			}
			f.Fsck()
		})
	}
}

// TestLeftOversAreSwept: temporary files of a process that died do not stay.
func TestLeftOversAreSwept(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	mustChange(t, f.repo(t, f.URL), change("op", "a", "1"))
	if err := f.mirrors.Close(); err != nil {
		t.Fatal(err)
	}
	packs, err := filepath.Glob(filepath.Join(f.dir, "*.git", "objects", "pack"))
	if err != nil || len(packs) != 1 {
		t.Fatal(packs, err)
	}
	left := filepath.Join(packs[0], "tmp_pack_1234")
	if err := os.WriteFile(left, []byte("half a pack"), 0o600); err != nil {
		t.Fatal(err)
	}
	f.mirrors = f.open(t, f.dir, git.Options{})
	f.repo(t, f.URL)
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("still there: %v", err)
	}
}

func TestBranchNames(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	r := f.repo(t, f.URL)
	for _, name := range []string{"", "-x", "a..b", "a b", "a~b", "x.lock", ".x", "a/.b", "a//b", "/a", "a/", "@", "a@{b", "a\nb", "a:b", strings.Repeat("x", 300)} {
		req := change("op", "a", "b")
		req.Branch = name
		_, err := r.Change(t.Context(), req)
		wantCode(t, err, promo.CodeConfiguration, "branch")
		_, err = r.Head(t.Context(), name)
		wantCode(t, err, promo.CodeConfiguration, "branch")
	}
	for _, op := range []string{"", "a\nb", " a"} {
		_, err := r.Change(t.Context(), change(op, "a", "b"))
		wantCode(t, err, promo.CodeConfiguration, "operation")
	}
	_, err := r.Head(t.Context(), "mai")
	wantCode(t, err, promo.CodeNotFound, "mai")
	req := change("op", "a", "b")
	req.Branch = "nope"
	_, err = r.Change(t.Context(), req)
	wantCode(t, err, promo.CodeNotFound, "nope")
	req.Base = "nope-either"
	_, err = r.Change(t.Context(), req)
	wantCode(t, err, promo.CodeNotFound, "nope-either")
}

// TestBrokenPack: a mirror whose packs are damaged heals itself.
func TestBrokenPack(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(pack, idx string) error{
		"pack cut":   func(pack, _ string) error { return os.Truncate(pack, 40) },
		"index cut":  func(_, idx string) error { return os.Truncate(idx, 40) },
		"index gone": func(_, idx string) error { return os.Remove(idx) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, git.Options{})
			mustChange(t, f.repo(t, f.URL), change("op-1", "a", "1"))
			if err := f.mirrors.Close(); err != nil {
				t.Fatal(err)
			}
			packs, err := filepath.Glob(filepath.Join(f.dir, "*.git", "objects", "pack", "*.pack"))
			if err != nil || len(packs) != 1 {
				t.Fatal(packs, err)
			}
			idx := strings.TrimSuffix(packs[0], ".pack") + ".idx"
			for _, p := range []string{packs[0], idx} {
				if err := os.Chmod(p, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := damage(packs[0], idx); err != nil {
				t.Fatal(err)
			}
			for i := range 3 {
				f.mirrors = f.open(t, f.dir, git.Options{})
				mustChange(t, f.repo(t, f.URL), change(fmt.Sprint("again-", i), "services/checkout/dev/values.yaml", fmt.Sprint(i)))
				if err := f.mirrors.Close(); err != nil {
					t.Fatal(err)
				}
			}
			f.Fsck()
		})
	}
}
