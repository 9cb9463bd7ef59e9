// Package gitserver gives tests a real Git server: bare repositories behind `git http-backend` on loopback, made
// and filled with the git program. Tests only; it must not know Davit's own Git code, so that the two agree by way
// of Git and nothing else.
//
// Start reading at New.
package gitserver

import (
	"bytes"
	"fmt"
	"net/http"
	"net/http/cgi"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"
)

// Server serves the bare repositories below Root at URL.
type Server struct {
	Root string
	URL  string
	// Requests counts what the server has answered.
	Requests atomic.Int64

	tb   testing.TB
	wrap atomic.Pointer[func(next http.Handler) http.Handler]
}

// New starts a server that ends with the test.
func New(tb testing.TB) *Server {
	tb.Helper()
	s := &Server{Root: tb.TempDir(), tb: tb}
	execPath := strings.TrimSpace(s.Git("", "--exec-path"))
	backend := &cgi.Handler{
		Path: filepath.Join(execPath, "git-http-backend"),
		Env: []string{
			"GIT_PROJECT_ROOT=" + s.Root, "GIT_HTTP_EXPORT_ALL=1", "GIT_CONFIG_NOSYSTEM=1", "HOME=" + s.Root,
			"PATH=" + os.Getenv("PATH"),
		},
		Stderr: &quiet{},
	}
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		s.Requests.Add(1)
		if r.ContentLength < 0 { // CGI has no chunks
			var b bytes.Buffer
			_, _ = b.ReadFrom(r.Body)
			r.Body, r.ContentLength, r.TransferEncoding = http.NoBody, int64(b.Len()), nil
			r.Body = readCloser{&b}
		}
		var h http.Handler = backend
		if f := s.wrap.Load(); f != nil {
			h = (*f)(backend)
		}
		h.ServeHTTP(w, r)
	}))
	tb.Cleanup(ts.Close)
	s.URL = ts.URL
	return s
}

type readCloser struct{ *bytes.Buffer }

func (readCloser) Close() error { return nil }

// quiet drops what the server's programs say.
type quiet struct{}

func (*quiet) Write(b []byte) (int, error) { return len(b), nil }

// Wrap puts something around the server: faults, delays, sign-in. nil takes it away.
func (s *Server) Wrap(f func(next http.Handler) http.Handler) {
	if f == nil {
		s.wrap.Store(nil)
		return
	}
	s.wrap.Store(&f)
}

// OldProtocol makes the server speak only version 0 of Git's protocol, as some forges still do.
func (s *Server) OldProtocol() {
	s.Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			r.Header.Del("Git-Protocol")
			next.ServeHTTP(w, r)
		})
	})
}

// Repo is a bare repository on the server.
type Repo struct {
	Dir  string
	URL  string
	File string // its file:// url
	s    *Server
}

// Repo makes a bare repository that takes pushes and allows filters.
func (s *Server) Repo(name string) *Repo {
	s.tb.Helper()
	dir := filepath.Join(s.Root, name+".git")
	s.Git("", "init", "--quiet", "--bare", "--initial-branch=main", dir)
	r := &Repo{Dir: dir, URL: s.URL + "/" + name + ".git", File: "file://" + dir, s: s}
	r.Config("http.receivepack", "true")
	r.Config("uploadpack.allowFilter", "true")
	r.Config("gc.auto", "0")
	return r
}

// Config sets a configuration value of the repository.
func (r *Repo) Config(key, value string) { r.s.tb.Helper(); r.s.Git(r.Dir, "config", key, value) }

// Server is the server that holds the repository.
func (r *Repo) Server() *Server { return r.s }

// Git runs git in the repository and returns what it prints.
func (r *Repo) Git(args ...string) string { r.s.tb.Helper(); return r.s.Git(r.Dir, args...) }

// Head returns the commit of a branch, "" where it does not exist.
func (r *Repo) Head(branch string) string {
	r.s.tb.Helper()
	return strings.TrimSpace(r.s.Git(r.Dir, "for-each-ref", "--format=%(objectname)", "refs/heads/"+branch))
}

// Hook installs a hook of the server's side.
func (r *Repo) Hook(name, script string) {
	r.s.tb.Helper()
	path := filepath.Join(r.Dir, "hooks", name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		r.s.tb.Fatal(err)
	}
	if err := os.WriteFile(path, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
		r.s.tb.Fatal(err)
	}
}

// Env is the environment of every git program that tests start: nobody's configuration, a fixed person.
func (s *Server) Env() []string {
	env := []string{
		"GIT_CONFIG_NOSYSTEM=1", "GIT_CONFIG_GLOBAL=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=Someone Else", "GIT_AUTHOR_EMAIL=else@example.com",
		"GIT_COMMITTER_NAME=Someone Else", "GIT_COMMITTER_EMAIL=else@example.com",
	}
	for _, kv := range os.Environ() {
		if !strings.HasPrefix(kv, "GIT_") {
			env = append(env, kv)
		}
	}
	return env
}

// Git runs git in a directory and returns what it prints; an error ends the test.
func (s *Server) Git(dir string, args ...string) string {
	s.tb.Helper()
	out, err := s.TryGit(dir, args...)
	if err != nil {
		s.tb.Fatalf("git %s: %v\n%s", strings.Join(args, " "), err, out)
	}
	return out
}

// TryGit runs git in a directory and returns what it prints and how it ended.
func (s *Server) TryGit(dir string, args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir, cmd.Env = dir, s.Env()
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// File is one file of a commit. A Mode other than "" is Git's ("100755", "120000" with the link's text as Data).
type File struct {
	Data string
	Mode string
}

// Commit adds a commit with the files to a branch, as another writer would: straight into the repository. An empty
// Data with Mode "delete" removes the file. It returns the commit.
func (r *Repo) Commit(branch, message string, files map[string]File) string {
	r.s.tb.Helper()
	var b bytes.Buffer
	r.commit(&b, branch, message, r.Head(branch), files)
	r.Import(&b)
	return r.Head(branch)
}

// Text makes files of plain text.
func Text(files map[string]string) map[string]File {
	out := map[string]File{}
	for p, d := range files {
		out[p] = File{Data: d}
	}
	return out
}

func (r *Repo) commit(b *bytes.Buffer, branch, message, from string, files map[string]File) {
	fmt.Fprintf(b, "commit refs/heads/%s\ncommitter Someone Else <else@example.com> %d +0000\ndata %d\n%s\n", branch, time.Now().Unix(), len(message), message)
	if from != "" {
		fmt.Fprintf(b, "from %s\n", from)
	}
	for p, f := range files {
		if f.Mode == "delete" {
			fmt.Fprintf(b, "D %s\n", p)
			continue
		}
		mode := f.Mode
		if mode == "" {
			mode = "100644"
		}
		fmt.Fprintf(b, "M %s inline %s\ndata %d\n%s\n", mode, p, len(f.Data), f.Data)
	}
}

// Import feeds a stream to git fast-import.
func (r *Repo) Import(stream *bytes.Buffer) {
	r.s.tb.Helper()
	cmd := exec.Command("git", "fast-import", "--quiet", "--force")
	cmd.Dir, cmd.Env, cmd.Stdin = r.Dir, r.s.Env(), stream
	if out, err := cmd.CombinedOutput(); err != nil {
		r.s.tb.Fatalf("git fast-import: %v\n%s", err, out)
	}
}

// Monorepo fills the branch main with services×environments×4 files and the given number of commits, each after the first
// changing one file, and packs it as a server would. files is rounded up to a multiple of 20; the paths are
// services/svc<i>/<env>/file<k>.yaml with env one of dev, qa, staging, prod-us, prod-eu.
func (r *Repo) Monorepo(files, commits int) {
	r.s.tb.Helper()
	envs := []string{"dev", "qa", "staging", "prod-us", "prod-eu"}
	services := (files + 19) / 20
	var b bytes.Buffer
	body := func(svc int, env string, k, rev int) string {
		return fmt.Sprintf("# %s of svc%d, part %d\nkind: Values\nname: svc%d\nimage: registry.example.com/acme/svc%d:1.0.%d # set by CI\nreplicas: %d\nenv:\n  - name: REGION\n    value: %s-%d\n",
			env, svc, k, svc, svc, rev, 1+svc%5, env, svc*7+k)
	}
	head := func(n int) {
		fmt.Fprintf(&b, "commit refs/heads/main\nmark :%d\ncommitter Someone Else <else@example.com> %d +0000\ndata <<E\ncommit %d\nE\n", n, 1700000000+n*60, n)
		if n > 1 {
			fmt.Fprintf(&b, "from :%d\n", n-1)
		}
	}
	put := func(svc int, env string, k, rev int) {
		data := body(svc, env, k, rev)
		fmt.Fprintf(&b, "M 100644 inline services/svc%d/%s/file%d.yaml\ndata %d\n%s\n", svc, env, k, len(data), data)
	}
	head(1)
	for svc := range services {
		for _, env := range envs {
			for k := range 4 {
				put(svc, env, k, 0)
			}
		}
	}
	for n := 2; n <= commits; n++ {
		head(n)
		put(n*31%services, envs[n%5], n%4, n)
	}
	r.Import(&b)
	r.Git("repack", "-adq")
	r.Git("pack-refs", "--all")
}

// Fsck ends the test unless every object of the repository is sound.
func (r *Repo) Fsck() {
	r.s.tb.Helper()
	out, err := r.s.TryGit(r.Dir, "fsck", "--strict", "--no-dangling")
	if err != nil || strings.Contains(out, "error") || strings.Contains(out, "warning") {
		r.s.tb.Errorf("git fsck --strict: %v\n%s", err, out)
	}
}

// At is a bare repository that something else made and serves, for tests that look into it or write beside it.
func At(tb testing.TB, dir string) *Repo {
	return &Repo{Dir: dir, File: "file://" + dir, s: &Server{Root: filepath.Dir(dir), tb: tb}}
}

// Files lists what a commit holds, as "<mode> <blob>" by path.
func (r *Repo) Files(commit string) map[string]string {
	r.s.tb.Helper()
	out := map[string]string{}
	for line := range strings.Lines(r.Git("ls-tree", "-r", "-z", "--format=%(objectmode) %(objectname)\t%(path)", commit)) {
		for entry := range strings.SplitSeq(strings.TrimRight(line, "\x00"), "\x00") {
			id, path, _ := strings.Cut(entry, "\t")
			out[path] = id
		}
	}
	return out
}
