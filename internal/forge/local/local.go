// Package local is a forge in the process: bare repositories in a directory, served over smart HTTP to any git
// program, with pull requests, reviews, checks and branch protection. It makes `davit up` whole without an
// account anywhere, and demands of a pipeline what a real forge demands.
//
// The truth is in the refs of the bare repositories; the store keeps what Git has no place for. A merge notes
// what it is about to do, moves the ref by compare-and-set, then notes that it is done; whoever reads a pull
// request between the two (after a kill -9) finishes the note from the ref. Git's own program does all work on
// repositories, without a working directory.
//
// It knows nothing of pipelines or users: rights come from Options.Authenticate. Start reading at New, Open in
// pull.go, Merge in merge.go, and ServeHTTP in http.go.
package local

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/promo"
)

// PullRequestStore keeps pull requests' documents under what they are searched by.
type PullRequestStore interface {
	NextPullRequestNumber(ctx context.Context, repository string) (int, error)
	SavePullRequest(ctx context.Context, repository string, number int, state, head string, doc []byte) error
	// PullRequest is a NotFound error where there is none.
	PullRequest(ctx context.Context, repository string, number int) ([]byte, error)
	// PullRequests are newest first, below the number before if that is not 0.
	PullRequests(ctx context.Context, repository, state, head string, before, limit int) ([][]byte, error)
}

// RecordStore keeps repositories' and checks' documents.
type RecordStore interface {
	SaveForgeRepository(ctx context.Context, name string, doc []byte) error
	ForgeRepositories(ctx context.Context, name string) ([][]byte, error)
	SaveStatus(ctx context.Context, repository, commit, name string, doc []byte) error
	Statuses(ctx context.Context, repository, commit string) ([][]byte, error)
}

// Store is what the forge keeps beside Git.
type Store interface {
	PullRequestStore
	RecordStore
}

// Access is what someone may do over smart HTTP.
type Access struct {
	User promo.Principal
	Read bool
	Push bool
}

// Options are what New needs.
type Options struct {
	// Dir holds the bare repositories; it is made if missing.
	Dir   string
	Store Store
	// URL is where the server is reached, such as http://127.0.0.1:8080: clones come from URL/git/<name>.git,
	// pages are below URL/pull-requests/<name>.
	URL string
	// Authenticate says what the bearer of HTTP basic credentials may do with a repository (a bearer token comes as
	// password);
	// user and password are "" for nobody.
	// An Authentication error asks for (other) credentials.
	Authenticate func(ctx context.Context, user, password, repository string) (Access, error)
	// Git is the program, "git" if empty.
	Git string
	// MaxPush bounds one push in bytes, 1 GiB if 0.
	MaxPush int64
	Now     func() time.Time
	Log     *slog.Logger
}

// Forge is the local forge. It is safe for concurrent use.
type Forge struct {
	o     Options
	git   git
	slots chan struct{}

	mu    sync.Mutex
	locks map[string]*sync.Mutex
	views map[viewKey]mergeView

	events events
}

// services is how many uploads and downloads run at once: each is a process, and more only slow each other.
const services = 16

// New opens the forge and finishes what a killed process left half done.
func New(ctx context.Context, o Options) (*Forge, error) {
	o = withDefaults(o)
	program, err := exec.LookPath(o.Git)
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "the program %q is not installed: %w", o.Git, err).
			WithHint("install git 2.38 or newer")
	}
	dir, err := filepath.Abs(o.Dir)
	if err == nil {
		err = os.MkdirAll(dir, 0o700)
	}
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "repositories in %q: %w", o.Dir, err)
	}
	o.Dir = dir
	f := &Forge{
		o: o, git: git{program: program, home: dir}, slots: make(chan struct{}, services),
		locks: map[string]*sync.Mutex{}, views: map[viewKey]mergeView{},
	}
	f.events.start(o.Log)
	if err := errors.Join(f.checkVersion(ctx), f.recover(ctx)); err != nil {
		f.Stop()
		return nil, err
	}
	return f, nil
}

func withDefaults(o Options) Options {
	if o.Git == "" {
		o.Git = "git"
	}
	if o.MaxPush == 0 {
		o.MaxPush = 1 << 30
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.Authenticate == nil {
		o.Authenticate = func(context.Context, string, string, string) (Access, error) {
			return Access{}, promo.Errorf(promo.CodeAuthentication, "no credentials are accepted")
		}
	}
	o.URL = strings.TrimSuffix(o.URL, "/")
	return o
}

// checkVersion demands merge-tree --write-tree.
func (f *Forge) checkVersion(ctx context.Context) error {
	out, err := f.git.run(ctx, f.o.Dir, nil, "version")
	if err != nil {
		return err
	}
	var major, minor int
	if _, err := fmt.Sscanf(out, "git version %d.%d", &major, &minor); err != nil || major < 2 || major == 2 && minor < 38 {
		return promo.Errorf(promo.CodeConfiguration, "%s is too old", out).WithHint("install git 2.38 or newer")
	}
	return nil
}

// Stop ends the delivery of events after those that happened. The forge can't be used afterwards.
func (f *Forge) Stop() { f.events.stop() }

// lock takes the right to alter a repository's pull requests; the returned function gives it back.
func (f *Forge) lock(repository string) func() {
	f.mu.Lock()
	l := f.locks[repository]
	if l == nil {
		l = &sync.Mutex{}
		f.locks[repository] = l
	}
	f.mu.Unlock()
	l.Lock()
	return l.Unlock
}

// path returns a repository's directory.
func (f *Forge) path(repository string) string { return filepath.Join(f.o.Dir, repository+".git") }

func (f *Forge) pullURL(repository string, number int) string {
	return fmt.Sprintf("%s/pull-requests/%s/%d", f.o.URL, repository, number)
}

func (f *Forge) cloneURL(repository string) string { return f.o.URL + "/git/" + repository + ".git" }

// emit tells what happened to everyone who asked for events.
func (f *Forge) emit(list ...forge.Event) { f.events.publish(list) }
