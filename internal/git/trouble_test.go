package git_test

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/testkit/gitserver"
)

// TestAnswerLost cuts the connection after the server has taken the push: the second run must find the commit.
func TestAnswerLost(t *testing.T) {
	t.Parallel()
	for _, branch := range []string{"main", "davit/new"} {
		t.Run(branch, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, git.Options{})
			r := f.repo(t, f.URL)
			mustChange(t, r, change("warm", "warm", "1"))
			f.server.Wrap(func(next http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
					next.ServeHTTP(httptest.NewRecorder(), q)
					if strings.HasSuffix(q.URL.Path, "git-receive-pack") {
						panic(http.ErrAbortHandler) // the server dies with the answer
					}
				})
			})
			base := f.Head("main")
			req := change("op", "a", "b")
			req.Branch, req.Base = branch, base
			_, err := r.Change(t.Context(), req)
			wantCode(t, err, promo.CodeConnectivity)
			landed := f.Head(branch)
			if landed == base {
				t.Fatal("the push did not land")
			}
			f.server.Wrap(nil)
			got := mustChange(t, r, req)
			if !got.Existing || got.Head != landed || got.Base != base || f.Head(branch) != landed {
				t.Errorf("second run made %+v, the first %s", got, landed)
			}
		})
	}
}

// TestForeignGitPushesAllTheTime lets the git program and two mirrors write one branch at once. Everybody's commits
// must be there, each once.
func TestForeignGitPushesAllTheTime(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	repos := []*git.Repo{f.repo(t, f.URL)}
	for _, url := range []string{f.URL, f.File} {
		r, err := f.open(t, t.TempDir(), git.Options{}).Open(t.Context(), git.Remote{Name: "other", URL: url})
		if err != nil {
			t.Fatal(err)
		}
		repos = append(repos, r)
	}
	stop := make(chan struct{})
	foreign := make(chan int)
	go func() {
		n := 0
		defer func() { foreign <- n }()
		work := t.TempDir()
		f.server.Git("", "clone", "--quiet", f.URL, work)
		for {
			select {
			case <-stop:
				return
			case <-time.After(30 * time.Millisecond):
			}
			f.server.Git(work, "commit", "--quiet", "--allow-empty", "-m", fmt.Sprint("foreign ", n))
			for {
				if _, err := f.server.TryGit(work, "push", "--quiet", "origin", "main"); err == nil {
					break
				}
				f.server.Git(work, "pull", "--quiet", "--rebase", "origin", "main")
			}
			n++
		}
	}()
	const each = 12
	var wg sync.WaitGroup
	for i, r := range repos {
		for k := range each {
			wg.Go(func() {
				op := fmt.Sprintf("op-%d-%d", i, k)
				if _, err := r.Change(t.Context(), change(op, fmt.Sprintf("w%d/f%d", i, k), "x")); err != nil {
					t.Errorf("%s: %v", op, err)
				}
			})
		}
	}
	wg.Wait()
	close(stop)
	n := <-foreign
	log := f.Git("log", "--format=%(trailers:key=Davit-Operation,valueonly)|%s", "main")
	for i := range repos {
		for k := range each {
			if c := strings.Count(log, fmt.Sprintf("op-%d-%d\n", i, k)); c != 1 {
				t.Errorf("operation op-%d-%d has %d commits", i, k, c)
			}
		}
	}
	if c := strings.Count(log, "|foreign "); c != n {
		t.Errorf("%d of %d foreign commits are there", c, n)
	}
	f.Fsck()
}

func TestEditRunsAgainOnNewerHead(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	r := f.repo(t, f.URL)
	mustChange(t, r, change("warm", "warm", "1"))
	runs := 0
	req := change("op", "", "")
	req.Edit = func(_ context.Context, tr *git.Tree) error {
		if runs++; runs == 1 {
			f.Commit("main", "in between", gitserver.Text(map[string]string{"count": "41"}))
			return tr.Write("count", []byte("1"))
		}
		data, err := tr.ReadText("count")
		if err != nil {
			return err
		}
		return tr.Write("count", []byte(data+"+1"))
	}
	mustChange(t, r, req)
	if got := f.Git("show", "main:count"); got != "41+1" || runs != 2 {
		t.Errorf("count is %q after %d runs", got, runs)
	}
}

// TestStaleMirrorDoesNotDecide: what is only known from an old head (a missing file, nothing to change) is asked anew.
func TestStaleMirrorDoesNotDecide(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	r := f.repo(t, f.URL)
	mustChange(t, r, change("warm", "warm", "1"))
	f.Commit("main", "by hand", gitserver.Text(map[string]string{"late.yaml": "a\n", "README.md": "other\n"}))
	req := change("op-1", "", "")
	req.Edit = func(_ context.Context, tr *git.Tree) error {
		data, err := tr.Read("late.yaml")
		if err != nil {
			return err
		}
		return tr.Write("late.yaml", append(data, 'b'))
	}
	mustChange(t, r, req)
	f.Commit("main", "by hand", gitserver.Text(map[string]string{"README.md": "hello, changed\n"}))
	if got := mustChange(t, r, change("op-2", "README.md", "other\n")); !got.Changed {
		t.Error("an old head decided that there was nothing to change")
	}
}

func TestRaceWithoutEnd(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	r := f.repo(t, f.URL)
	req := change("op", "", "")
	req.Edit = func(_ context.Context, tr *git.Tree) error {
		f.Commit("main", "again", nil)
		return tr.Write("a", []byte("b"))
	}
	_, err := r.Change(t.Context(), req)
	wantCode(t, err, promo.CodeConflict, "main", "moved")
}

// TestTornMirror cuts and empties files of the mirror, as a power loss may: everything is fetched again.
func TestTornMirror(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(path string) error{
		"cut":   func(p string) error { return os.WriteFile(p, nil, 0o600) },
		"gone":  os.Remove,
		"mixed": func(p string) error { return os.WriteFile(p, []byte("not an object"), 0o600) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, git.Options{})
			r := f.repo(t, f.URL)
			mustChange(t, r, change("op-1", "a", "1"))
			mustChange(t, r, change("op-2", "b", "2"))
			if err := f.mirrors.Close(); err != nil {
				t.Fatal(err)
			}
			files, err := filepath.Glob(filepath.Join(f.dir, "*.git", "objects", "[0-9a-f][0-9a-f]", "*"))
			if err != nil || len(files) < 5 {
				t.Fatalf("%d loose objects, %v", len(files), err)
			}
			for _, p := range files {
				if err := os.Chmod(p, 0o600); err != nil {
					t.Fatal(err)
				}
				if err := damage(p); err != nil {
					t.Fatal(err)
				}
			}
			f.mirrors = f.open(t, f.dir, git.Options{})
			r = f.repo(t, f.URL)
			if got := mustChange(t, r, change("op-1", "a", "1")); !got.Existing {
				t.Errorf("made again: %+v", got)
			}
			mustChange(t, r, change("op-3", "services/checkout/dev/values.yaml", "3"))
			f.Fsck()
		})
	}
}

func TestRestartNeedsNoFetch(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	mustChange(t, f.repo(t, f.URL), change("op-1", "a", "1"))
	if err := f.mirrors.Close(); err != nil {
		t.Fatal(err)
	}
	f.mirrors = f.open(t, f.dir, git.Options{})
	before := f.server.Requests.Load()
	mustChange(t, f.repo(t, f.URL), change("op-2", "a", "2"))
	// Two advertisements for the capabilities of both services at most, history for the search, and the push.
	if n := f.server.Requests.Load() - before; n > 4 {
		t.Errorf("first change after a restart took %d requests", n)
	}
}

func TestWarmChangeIsOneRequest(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	r := f.repo(t, f.URL)
	mustChange(t, r, change("op-1", "a", "1"))
	before := f.server.Requests.Load()
	mustChange(t, r, change("op-2", "a", "2"))
	if n := f.server.Requests.Load() - before; n != 1 {
		t.Errorf("took %d requests", n)
	}
}

func TestLargeAndCRLFStayByteForByte(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	f.Config("core.autocrlf", "true")
	r := f.repo(t, f.URL)
	data := strings.Repeat("line\r\n", 800_000) // 4.8 MB
	mustChange(t, r, change("op", "big.txt", data))
	if got := f.Git("cat-file", "blob", "main:big.txt"); got != data {
		t.Error("bytes have changed")
	}
	_, err := r.Change(t.Context(), change("op-2", "bigger.txt", data+data))
	wantCode(t, err, promo.CodeConfiguration, "bigger.txt")
}
