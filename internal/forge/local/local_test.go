package local_test

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/forge/local"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store/sqlite"
)

// The people of the tests.
func ann() promo.Principal { return promo.Principal{Name: "ann", Email: "ann@example.com"} }
func bob() promo.Principal { return promo.Principal{Name: "bob", Email: "bob@example.com"} }
func cid() promo.Principal { return promo.Principal{Name: "cid", Email: "cid@example.com"} }

// world is a forge behind a real HTTP server, with one repository "deploy".
type world struct {
	*local.Forge
	t     testing.TB
	store *sqlite.Store
	opts  local.Options
	url   string

	mu     sync.Mutex
	events []forge.Event
	came   chan struct{}
}

// authenticate lets everyone read and those with the right token push.
func authenticate(_ context.Context, _, password, _ string) (local.Access, error) {
	switch password {
	case "":
		return local.Access{Read: true}, nil
	case "token-ann":
		return local.Access{User: ann(), Read: true, Push: true}, nil
	case "token-davit":
		return local.Access{User: promo.Principal{Name: "davit"}, Read: true, Push: true}, nil
	case "token-viewer":
		return local.Access{User: promo.Principal{Name: "vic"}, Read: true}, nil
	}
	return local.Access{}, promo.Errorf(promo.CodeAuthentication, "wrong token")
}

func seed() fstest.MapFS {
	return fstest.MapFS{
		"README.md":             {Data: []byte("# deploy\n"), Mode: 0o644},
		"base/app.yaml":         {Data: []byte("a: 1\nb: 2\nc: 3\nd: 4\ne: 5\nf: 6\ng: 7\nh: 8\ni: 9\n"), Mode: 0o644},
		"bin/run me \"now\".sh": {Data: []byte("#!/bin/sh\n"), Mode: 0o755},
	}
}

// start opens a forge and creates the repository.
func start(t testing.TB, rule *forge.Protection) *world {
	t.Helper()
	w := &world{t: t, came: make(chan struct{}, 1)}
	dir := t.TempDir()
	var err error
	w.store, err = sqlite.Open(t.Context(), sqlite.Options{Path: filepath.Join(dir, "davit.db")})
	w.ok(err)
	w.opts = local.Options{Dir: filepath.Join(dir, "git"), Store: w.store, Authenticate: authenticate}
	w.open()
	server := httptest.NewServer(w.Handler())
	w.url = server.URL
	t.Cleanup(func() {
		server.Close()
		w.Stop()
		w.ok(w.store.Close())
	})
	_, err = w.Create(t.Context(), local.CreateSpec{Name: "deploy", Seed: seed(), Author: ann(), At: time.Unix(1_700_000_000, 0), Protection: rule})
	w.ok(err)
	return w
}

// open makes the forge, again if there was one, as after a restart.
func (w *world) open() {
	w.t.Helper()
	f, err := local.New(w.t.Context(), w.opts)
	w.ok(err)
	f.Events(func(e forge.Event) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.events = append(w.events, e)
		select {
		case w.came <- struct{}{}:
		default:
		}
	})
	w.Forge = f
}

func (w *world) ok(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) code(err error, want promo.Code, words ...string) {
	w.t.Helper()
	if err == nil || promo.CodeOf(err) != want {
		w.t.Fatalf("error %v, want code %s", err, want)
	}
	for _, word := range words {
		if !strings.Contains(err.Error(), word) {
			w.t.Fatalf("error %q does not say %q", err, word)
		}
	}
}

// event waits for an event of the type and returns the newest.
func (w *world) event(kind string) forge.Event {
	w.t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		w.mu.Lock()
		for _, v := range slices.Backward(w.events) {
			if v.Type == kind {
				defer w.mu.Unlock()
				return v
			}
		}
		w.mu.Unlock()
		select {
		case <-w.came:
		case <-deadline:
			w.t.Fatalf("no event %q", kind)
		}
	}
}

// remote is the clone URL with a user's token.
func (w *world) remote(user string) string { return w.remoteOf(user, "deploy") }

func (w *world) remoteOf(user, repository string) string {
	return strings.Replace(w.url, "http://", fmt.Sprintf("http://%s:token-%s@", user, user), 1) + "/git/" + repository + ".git"
}

// clone is a working copy made by the git program.
type clone struct {
	t   testing.TB
	dir string
}

func (w *world) clone(user string) clone {
	w.t.Helper()
	c := clone{t: w.t, dir: w.t.TempDir()}
	c.git("clone", "-q", w.remote(user), ".")
	c.git("config", "user.name", user)
	c.git("config", "user.email", user+"@example.com")
	return c
}

// try runs git and returns its output, both streams.
func (c clone) try(args ...string) (string, error) {
	c.t.Helper()
	cmd := exec.CommandContext(c.t.Context(), "git", args...)
	cmd.Dir = c.dir
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_NOSYSTEM=1", "GIT_TERMINAL_PROMPT=0", "LC_ALL=C", "TZ=UTC")
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

func (c clone) git(args ...string) string {
	c.t.Helper()
	out, err := c.try(args...)
	if err != nil {
		c.t.Fatalf("git %v: %v\n%s", args, err, out)
	}
	return out
}

// change commits a file on a branch that starts at main, and pushes it.
func (c clone) change(branch, file, content, message string) string {
	c.t.Helper()
	if _, err := c.try("switch", "-q", branch); err != nil {
		c.git("switch", "-q", "-c", branch, "origin/main")
	}
	return c.more(branch, file, content, message)
}

// more commits a file on the branch as it is checked out, and pushes it.
func (c clone) more(branch, file, content, message string) string {
	c.t.Helper()
	path := filepath.Join(c.dir, file)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		c.t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(content), 0o600); err != nil {
		c.t.Fatal(err)
	}
	c.git("add", "-A")
	c.git("commit", "-q", "-m", message)
	c.git("push", "-q", "origin", "HEAD:refs/heads/"+branch)
	return c.git("rev-parse", "HEAD")
}

// propose opens a pull request of the branch into main.
func (w *world) propose(branch string) forge.PullRequest {
	w.t.Helper()
	pr, err := w.Open(w.t.Context(), forge.Spec{Repository: "deploy", Head: branch, Base: "main", Title: "Change " + branch, Body: "why", Author: ann()})
	w.ok(err)
	return pr
}

func (w *world) head(branch string) string {
	w.t.Helper()
	sha, err := w.Head(w.t.Context(), "deploy", branch)
	w.ok(err)
	return sha
}

// inspect runs git in the bare repository.
func (w *world) inspect(args ...string) string {
	w.t.Helper()
	return clone{w.t, w.Dir("deploy")}.git(args...)
}
