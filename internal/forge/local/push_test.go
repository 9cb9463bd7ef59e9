package local_test

import (
	"bytes"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/davit-cd/davit/internal/forge"
)

func TestClones(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	tests := map[string]struct {
		reason string
		args   []string
	}{
		"anonymous":  {"anyone may read here", []string{"clone", "-q", w.url + "/git/deploy.git", "."}},
		"shallow":    {"CI takes one commit", []string{"clone", "-q", "--depth", "1", w.url + "/git/deploy.git", "."}},
		"blobless":   {"filters are allowed", []string{"clone", "-q", "--filter=blob:none", w.url + "/git/deploy.git", "."}},
		"protocol 0": {"old git programs", []string{"-c", "protocol.version=0", "clone", "-q", w.url + "/git/deploy.git", "."}},
		"protocol 1": {"rather old ones", []string{"-c", "protocol.version=1", "clone", "-q", w.url + "/git/deploy.git", "."}},
		"viewer":     {"with credentials too", []string{"clone", "-q", w.remote("viewer"), "."}},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := clone{t, t.TempDir()}
			c.git(tc.args...)
			got, err := os.ReadFile(filepath.Join(c.dir, "base", "app.yaml"))
			if err != nil || string(got) != appYAML {
				t.Fatalf("%s: %q, %v", tc.reason, got, err)
			}
			info, err := os.Stat(filepath.Join(c.dir, "bin", `run me "now".sh`))
			if err != nil || info.Mode()&0o100 == 0 {
				t.Fatalf("the executable: %v, %v", info, err)
			}
		})
	}
}

func TestBearerToken(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.clone("ann")
	c.git("commit", "-q", "--allow-empty", "-m", "x")
	c.git("-c", "http.extraHeader=Authorization: Bearer token-ann", "push", "-q", w.url+"/git/deploy.git", "HEAD:refs/heads/bearer")
	w.same("head", w.head("bearer"), c.git("rev-parse", "HEAD"))
	if e := w.event(forge.EventPush); e.By != "ann" {
		t.Fatalf("event %+v", e)
	}
}

func TestCreateIsDeterministic(t *testing.T) {
	t.Parallel()
	a, b := start(t, nil), start(t, nil)
	if a.head("main") == "" || a.head("main") != b.head("main") {
		t.Fatalf("first commits %q and %q", a.head("main"), b.head("main"))
	}
}

func TestRefusedCallers(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.clone("ann")
	c.git("commit", "-q", "--allow-empty", "-m", "x")
	for reason, remote := range map[string]string{
		"could not read Username": w.url + "/git/deploy.git",
		"403":                     w.remote("viewer"),
		"Authentication failed":   strings.Replace(w.remote("ann"), "token-ann", "guess", 1),
		"not found":               strings.Replace(w.remote("ann"), "deploy", "nope", 1),
		"not found ":              strings.Replace(w.remote("ann"), "deploy.git", "..%2fdeploy.git", 1),
	} {
		if out, err := c.try("push", remote, "HEAD:refs/heads/x"); err == nil || !strings.Contains(out, strings.TrimSpace(reason)) {
			t.Errorf("want %q: %v\n%s", reason, err, out)
		}
	}
}

func TestPushEvents(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.clone("ann")
	first := c.change("topic", "x.yaml", "x: 1\n", "first")
	if e := w.event(forge.EventPush); e.Ref != "refs/heads/topic" || e.Before != forge.ZeroSHA || e.After != first || e.By != "ann" {
		t.Fatalf("event %+v", e)
	}
	pr := w.propose("topic")
	second := c.change("topic", "x.yaml", "x: 2\n", "second")
	if e := w.event(forge.EventSynchronize); e.Number != pr.Number || e.Before != first || e.After != second {
		t.Fatalf("event %+v", e)
	}
	c.git("reset", "-q", "--hard", "HEAD~1")
	forced := c.change("other", "y.yaml", "y: 1\n", "not this")
	_ = forced
	c.git("switch", "-q", "topic")
	c.git("commit", "-q", "--amend", "-m", "rewritten")
	c.git("push", "-q", "-f", "origin", "topic")
	got, err := w.Get(t.Context(), "deploy", pr.Number)
	w.ok(err)
	w.same("head after a forced push", got.HeadSHA, c.git("rev-parse", "HEAD"))

	// A push that brings the head into the base merges; a deleted branch closes.
	c.git("switch", "-q", "-C", "main", "origin/main")
	c.git("commit", "-q", "--allow-empty", "-m", "before")
	c.git("merge", "-q", "--no-ff", "-m", "by hand", "topic")
	byHand := c.git("rev-parse", "HEAD")
	c.git("commit", "-q", "--allow-empty", "-m", "after")
	c.git("push", "-q", "origin", "main")
	got, err = w.Get(t.Context(), "deploy", pr.Number)
	w.ok(err)
	w.same("state", got.State, forge.StateMerged)
	w.same("merge", got.MergeSHA, byHand)
	c.change("direct", "d.yaml", "d: 1\n", "direct")
	c.git("rebase", "-q", "main")
	c.git("push", "-q", "-f", "origin", "direct")
	direct := w.propose("direct")
	c.git("push", "-q", "origin", "direct:main")
	got, err = w.Get(t.Context(), "deploy", direct.Number)
	w.ok(err)
	w.same("merge", got.MergeSHA, direct.HeadSHA)
	c.change("gone", "z.yaml", "z: 1\n", "gone")
	gone := w.propose("gone")
	c.git("push", "-q", "origin", ":gone")
	w.event(forge.EventClosed)
	got, err = w.Get(t.Context(), "deploy", gone.Number)
	w.ok(err)
	w.same("state", got.State, forge.StateClosed)
}

func TestConcurrentPushes(t *testing.T) {
	t.Parallel()
	const n = 5
	w := start(t, nil)
	var wg sync.WaitGroup
	for i := range n {
		c := w.clone("ann")
		wg.Go(func() {
			c.git("switch", "-q", "-c", fmt.Sprint("b", i))
			c.git("commit", "-q", "--allow-empty", "-m", fmt.Sprint("commit ", i))
			c.git("push", "-q", "origin", "HEAD")
		})
	}
	wg.Wait()
	for i := range n {
		if w.head(fmt.Sprint("b", i)) == "" {
			t.Fatalf("branch %d is missing", i)
		}
	}
	// Two clones race for one branch: exactly one wins, and the loser is told.
	a, b := w.clone("ann"), w.clone("ann")
	var failed []string
	var mu sync.Mutex
	for i, c := range []clone{a, b} {
		c.git("commit", "-q", "--allow-empty", "-m", fmt.Sprint("racer ", i))
		wg.Go(func() {
			if out, err := c.try("push", "-q", "origin", "HEAD:main"); err != nil {
				mu.Lock()
				failed = append(failed, out)
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if len(failed) != 1 {
		t.Fatalf("%d of 2 racing pushes failed: %v", len(failed), failed)
	}
}

// TestLargePush goes through chunked and gzipped requests.
func TestLargePush(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	c := w.clone("ann")
	data := make([]byte, 3<<20)
	for i := range data { // not compressible, the same each time
		data[i] = byte(i * i >> 7 * (i%251 + 1))
	}
	sha := c.change("big", "big.bin", string(data), "big")
	w.same("head", w.head("big"), sha)
	back := clone{t, t.TempDir()}
	back.git("clone", "-q", "-b", "big", w.url+"/git/deploy.git", ".")
	got, err := os.ReadFile(filepath.Join(back.dir, "big.bin"))
	if err != nil || !bytes.Equal(got, data) {
		t.Fatalf("%d bytes came back: %v", len(got), err)
	}
	// Many tips make the client zip its wants and haves.
	for i := range 60 {
		c.git("branch", fmt.Sprint("tip-", i))
		c.git("commit", "-q", "--allow-empty", "-m", fmt.Sprint(i))
	}
	c.git("push", "-q", "origin", "--all")
	back.git("fetch", "-q", "origin")
	w.same("tips", back.git("rev-parse", "origin/tip-59"), w.head("tip-59"))
}

func TestBadRequests(t *testing.T) {
	t.Parallel()
	w := start(t, nil)
	post := func(path, encoding, body string) int {
		t.Helper()
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.url+path, strings.NewReader(body))
		w.ok(err)
		req.SetBasicAuth("x", "token-ann")
		req.Header.Set("Content-Encoding", encoding)
		res, err := http.DefaultClient.Do(req)
		w.ok(err)
		defer res.Body.Close() //nolint:errcheck // read
		_, err = io.Copy(io.Discard, res.Body)
		w.ok(err)
		return res.StatusCode
	}
	push := "/git/deploy.git/git-receive-pack"
	for name, tc := range map[string]struct {
		path, encoding, body string
		want                 int
	}{
		"no protocol":  {push, "", "hello, is it me", http.StatusBadRequest},
		"cut off":      {push, "", "00ff" + forge.ZeroSHA, http.StatusBadRequest},
		"no command":   {push, "", "000ahello\n0000", http.StatusBadRequest},
		"no gzip":      {push, "gzip", "plain", http.StatusBadRequest},
		"empty":        {push, "", "", http.StatusBadRequest},
		"other path":   {"/git/deploy.git/objects/info/packs", "", "", http.StatusNotFound},
		"no such repo": {"/git/nope.git/git-upload-pack", "", "0000", http.StatusNotFound},
		"without .git": {"/git/deploy/git-upload-pack", "", "0000", http.StatusNotFound},
	} {
		if got := post(tc.path, tc.encoding, tc.body); got != tc.want {
			t.Errorf("%s: status %d, want %d", name, got, tc.want)
		}
	}
}
