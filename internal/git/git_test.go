package git_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/testkit/gitserver"
)

var alice = promo.Principal{Name: "Alice Example", Email: "alice@example.com"}

// fixture is a server with one repository and mirrors that see it.
type fixture struct {
	*gitserver.Repo
	server  *gitserver.Server
	mirrors *git.Mirrors
	dir     string
}

func newFixture(t *testing.T, opts git.Options) *fixture {
	t.Helper()
	s := gitserver.New(t)
	f := &fixture{server: s, Repo: s.Repo("deploy"), dir: t.TempDir()}
	f.Commit("main", "first", map[string]gitserver.File{
		"services/checkout/dev/values.yaml":  {Data: "image: v1 # by CI\r\nreplicas: 2\r\n"},
		"services/checkout/prod/values.yaml": {Data: "image: v0\n"},
		"run.sh":                             {Data: "#!/bin/sh\n", Mode: "100755"},
		"link":                               {Data: "services", Mode: "120000"},
		"logo.png":                           {Data: "\x89PNG\x00\x00"},
		"README.md":                          {Data: "hello\n"},
	})
	f.mirrors = f.open(t, f.dir, opts)
	return f
}

func (f *fixture) open(t *testing.T, dir string, opts git.Options) *git.Mirrors {
	t.Helper()
	m, err := git.NewMirrors(dir, opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	})
	return m
}

func (f *fixture) repo(t *testing.T, url string) *git.Repo {
	t.Helper()
	r, err := f.mirrors.Open(t.Context(), git.Remote{Name: "acme/deploy", URL: url})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// transports runs a test over HTTP and on the file system, with a server that knows filters and with one that does not.
func transports(t *testing.T, test func(t *testing.T, f *fixture, r *git.Repo)) {
	t.Helper()
	for name, setup := range map[string]func(f *fixture) string{
		"http":           func(f *fixture) string { return f.URL },
		"http no filter": func(f *fixture) string { f.Config("uploadpack.allowFilter", "false"); return f.URL },
		"http version 0": func(f *fixture) string { return f.URL },
		"file":           func(f *fixture) string { return f.File },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, git.Options{})
			url := setup(f)
			if name == "http version 0" {
				f.server.OldProtocol()
			}
			test(t, f, f.repo(t, url))
			f.Fsck()
		})
	}
}

func write(path, data string) func(context.Context, *git.Tree) error {
	return func(_ context.Context, t *git.Tree) error { return t.Write(path, []byte(data)) }
}

func change(op, path, data string) git.ChangeRequest {
	return git.ChangeRequest{Operation: op, Branch: "main", Author: alice, Message: "set " + path, Edit: write(path, data)}
}

func mustChange(t *testing.T, r *git.Repo, req git.ChangeRequest) git.Change {
	t.Helper()
	c, err := r.Change(t.Context(), req)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func wantCode(t *testing.T, err error, code promo.Code, words ...string) {
	t.Helper()
	var e *promo.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("error is %v (code %s), want code %s", err, promo.CodeOf(err), code)
	}
	for _, w := range words {
		if !strings.Contains(err.Error(), w) {
			t.Errorf("error %q does not say %q", err, w)
		}
	}
}

func TestChangeOneValue(t *testing.T) {
	t.Parallel()
	transports(t, func(t *testing.T, f *fixture, r *git.Repo) {
		base := f.Head("main")
		path := "services/checkout/dev/values.yaml"
		got := mustChange(t, r, git.ChangeRequest{
			Operation: "p/deploy/1/dev.1/update", Branch: "main", Author: alice, Message: "checkout 2 to dev",
			Edit: func(_ context.Context, tr *git.Tree) error {
				data, err := tr.Read(path)
				if err != nil {
					return err
				}
				return tr.Write(path, []byte(strings.Replace(string(data), "v1", "v2", 1)))
			},
		})
		if got.Base != base || !got.Changed || got.Existing || got.Head != f.Head("main") {
			t.Errorf("change is %+v, server is at %s", got, f.Head("main"))
		}
		wantDiff := "diff --git a/" + path + " b/" + path + "\n--- a/" + path + "\n+++ b/" + path +
			"\n@@ -1,2 +1,2 @@\n-image: v1 # by CI\r\n+image: v2 # by CI\r\n replicas: 2\r\n"
		if d := cmp.Diff(wantDiff, got.Diff); d != "" {
			t.Errorf("diff: %s", d)
		}
		log := f.Git("log", "-1", "--format=%an <%ae>|%B", "main")
		if d := cmp.Diff("Alice Example <alice@example.com>|checkout 2 to dev\n\nDavit-Operation: p/deploy/1/dev.1/update\n\n", log); d != "" {
			t.Errorf("commit: %s", d)
		}
		if d := cmp.Diff(path+"\n", f.Git("diff", "--name-only", base, "main")); d != "" {
			t.Errorf("changed files: %s", d)
		}
		if mode := f.Git("ls-tree", "main", "run.sh"); !strings.HasPrefix(mode, "100755 ") {
			t.Errorf("mode of run.sh is %s", mode)
		}
	})
}

func TestChangeTwiceIsOneCommit(t *testing.T) {
	t.Parallel()
	transports(t, func(t *testing.T, f *fixture, r *git.Repo) {
		first := mustChange(t, r, change("op-1", "README.md", "two\n"))
		mustChange(t, r, change("op-2", "other.md", "x\n"))
		again := mustChange(t, r, change("op-1", "README.md", "two\n"))
		first.Existing = true
		if d := cmp.Diff(first, again); d != "" {
			t.Errorf("second run: %s", d)
		}

		// A process that died after the push knows nothing: another mirror asks for the same.
		other, err := f.open(t, t.TempDir(), git.Options{}).Open(t.Context(), git.Remote{Name: "x", URL: f.URL})
		if err != nil {
			t.Fatal(err)
		}
		if d := cmp.Diff(first, mustChange(t, other, change("op-1", "README.md", "two\n"))); d != "" {
			t.Errorf("run elsewhere: %s", d)
		}
		if n := f.Git("rev-list", "--count", "main"); n != "3\n" {
			t.Errorf("branch has %s commits", n)
		}
	})
}

func TestPullRequestBranch(t *testing.T) {
	t.Parallel()
	transports(t, func(t *testing.T, f *fixture, r *git.Repo) {
		base := f.Head("main")
		for name, from := range map[string]string{"davit/a": "main", "davit/b": base} {
			req := change("op "+name, "README.md", name)
			req.Branch, req.Base = name, from
			got := mustChange(t, r, req)
			if got.Base != base || got.Head != f.Head(name) {
				t.Errorf("%s: %+v, want on %s", name, got, base)
			}
			if again := mustChange(t, r, req); !again.Existing || again.Head != got.Head {
				t.Errorf("%s again: %+v", name, again)
			}
		}
		if err := r.DeleteBranch(t.Context(), "davit/a", base); promo.CodeOf(err) != promo.CodeConflict {
			t.Errorf("deleting a branch that is elsewhere: %v", err)
		}
		if err := r.DeleteBranch(t.Context(), "davit/a", f.Head("davit/a")); err != nil {
			t.Error(err)
		}
		if err := r.DeleteBranch(t.Context(), "davit/a", ""); err != nil {
			t.Errorf("deleting a branch that is gone: %v", err)
		}
		if f.Head("davit/a") != "" {
			t.Error("branch is still there")
		}
	})
}

func TestForeignWriterInBetween(t *testing.T) {
	t.Parallel()
	transports(t, func(t *testing.T, f *fixture, r *git.Repo) {
		mustChange(t, r, change("op-1", "a", "1")) // now the head is remembered
		foreign := f.Commit("main", "by hand", gitserver.Text(map[string]string{"README.md": "by hand\n"}))
		got := mustChange(t, r, change("op-2", "b", "2"))
		if got.Base != foreign {
			t.Errorf("made on %s, want on the foreign %s", got.Base, foreign)
		}
		req := change("op-3", "c", "3")
		req.Expect = foreign
		_, err := r.Change(t.Context(), req)
		wantCode(t, err, promo.CodeConflict, got.Head[:12], "Alice Example")
		req.Expect = got.Head
		mustChange(t, r, req)
	})
}

func TestNoChange(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	r := f.repo(t, f.URL)
	base := f.Head("main")
	got := mustChange(t, r, change("op-1", "README.md", "hello\n"))
	if got.Changed || got.Head != base || f.Head("main") != base {
		t.Errorf("change is %+v", got)
	}
}

func TestConcurrentChangesShareThePush(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	r := f.repo(t, f.URL)
	mustChange(t, r, change("warm", "warm", "1"))
	before := f.server.Requests.Load()
	const n = 50
	heads := make([]string, n)
	var wg sync.WaitGroup
	for i := range n {
		wg.Go(func() {
			req := change(fmt.Sprint("op-", i), fmt.Sprintf("services/svc%d/image", i), "v")
			if i == 7 {
				req.Edit = func(context.Context, *git.Tree) error { return errors.New("this one fails") }
			}
			c, err := r.Change(t.Context(), req)
			if (err != nil) != (i == 7) {
				t.Errorf("change %d: %v", i, err)
			}
			heads[i] = c.Head
		})
	}
	wg.Wait()
	if used := f.server.Requests.Load() - before; used > 12 {
		t.Errorf("%d changes took %d requests", n, used)
	}
	if got := strings.TrimSpace(f.Git("rev-list", "--count", "main")); got != fmt.Sprint(n-1+2) {
		t.Errorf("branch has %s commits", got)
	}
	slices.Sort(heads)
	if len(slices.Compact(heads)) != n {
		t.Error("two changes have one commit")
	}
	f.Fsck()
}

func TestHookRefuses(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	r := f.repo(t, f.URL)
	f.Hook("pre-receive", "while read old new ref; do git show $new:forbidden >/dev/null 2>&1 && { echo 'no file named forbidden, says the hook' >&2; exit 1; }; done; exit 0")
	_, err := r.Change(t.Context(), change("op-1", "forbidden", "x"))
	wantCode(t, err, promo.CodeAuthorization, "says the hook", "main")

	// In a batch only the guilty one fails.
	var wg sync.WaitGroup
	for i := range 10 {
		wg.Go(func() {
			path := fmt.Sprint("allowed-", i)
			if i == 5 {
				path = "forbidden"
			}
			_, err := r.Change(t.Context(), change(fmt.Sprint("batch-", i), path, "x"))
			if (err != nil) != (i == 5) {
				t.Errorf("change %d: %v", i, err)
			}
		})
	}
	wg.Wait()
	f.Fsck()
}

func TestLockedDirectory(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	m, err := git.NewMirrors(dir, git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = git.NewMirrors(dir, git.Options{})
	wantCode(t, err, promo.CodeConflict, "another process")
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
	m, err = git.NewMirrors(dir, git.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Close(); err != nil {
		t.Fatal(err)
	}
}
