package git

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/go-git/go-git/v5/plumbing/cache"
	"golang.org/x/sys/unix"

	"github.com/davit-cd/davit/internal/promo"
)

// Options tune mirrors; the zero value of each field means its default.
type Options struct {
	// Logger gets what upkeep in the background has to say; nothing is logged without it.
	Logger *slog.Logger
	// Now is the clock that dates commits.
	Now func() time.Time
	// HTTP carries requests; the default has its own connections, limits on time and keeps redirects on their host.
	HTTP *http.Client
	// MaxFile bounds a file that is read or written, in bytes. Default 5 MiB.
	MaxFile int64
	// MaxDiff bounds a unified diff, in bytes. Default 1 MiB.
	MaxDiff int
	// CacheBytes bounds the objects of all mirrors that are kept in memory. Default 64 MiB.
	CacheBytes int64
	// PushTimeout bounds one attempt to land a batch of changes. Default 2 min.
	PushTimeout time.Duration
	// LooseLimit and PackLimit are how many loose objects and packs a mirror may hold before it is rebuilt from
	// what is still in use. Defaults 2,000 and 30.
	LooseLimit, PackLimit int
}

func (o Options) defaults() Options {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.MaxFile = orDefault(o.MaxFile, 5<<20)
	o.MaxDiff = orDefault(o.MaxDiff, 1<<20)
	o.CacheBytes = orDefault(o.CacheBytes, 64<<20)
	o.PushTimeout = orDefault(o.PushTimeout, 2*time.Minute) // the class of a change gives it 5 min: two attempts fit
	o.LooseLimit = orDefault(o.LooseLimit, 2000)
	o.PackLimit = orDefault(o.PackLimit, 30)
	if o.HTTP == nil {
		t := &http.Transport{
			Proxy:                 http.ProxyFromEnvironment,
			MaxIdleConnsPerHost:   16, // parallel pushes to one server keep their connections
			IdleConnTimeout:       time.Minute,
			ResponseHeaderTimeout: time.Minute, // a server counts objects before it answers
			TLSHandshakeTimeout:   10 * time.Second,
		}
		o.HTTP = &http.Client{Transport: t, Timeout: 10 * time.Minute} // the first contact with a large repository is slow
	}
	client := *o.HTTP
	client.CheckRedirect = sameHost
	o.HTTP = &client
	return o
}

func orDefault[T int | int64 | time.Duration](v, otherwise T) T {
	if v == 0 {
		return otherwise
	}
	return v
}

// Mirrors holds one bare mirror per repository below a directory. It is safe for concurrent use; a lock file
// keeps a second process out.
type Mirrors struct {
	dir     string
	opts    Options
	objects cache.Object
	lock    *os.File

	mu     sync.Mutex
	repos  map[string]*Repo
	closed bool
}

// NewMirrors opens the directory, making it where it does not exist. A directory that another process has open is
// a Conflict.
func NewMirrors(dir string, opts Options) (*Mirrors, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "directory for mirrors: %w", err)
	}
	lock, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the directory is this process's own
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "directory for mirrors: %w", err)
	}
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		_ = lock.Close() // nothing was written
		return nil, promo.Errorf(promo.CodeConflict, "mirrors in %q are in use by another process: %w", dir, err).
			WithHint("each process needs a data directory of its own")
	}
	opts = opts.defaults()
	return &Mirrors{
		dir: dir, opts: opts, lock: lock, repos: map[string]*Repo{},
		objects: cache.NewObjectLRU(cache.FileSize(opts.CacheBytes)),
	}, nil
}

// Open returns the repository's mirror, shared by all who ask for the same name and URL. Nothing is fetched yet.
// New credentials replace the ones before.
func (m *Mirrors) Open(_ context.Context, remote Remote) (*Repo, error) {
	u, err := remote.parse()
	if err != nil {
		return nil, err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, promo.Errorf(promo.CodeInternal, "mirrors are closed")
	}
	key := mirrorName(remote.Name, u.String())
	r, ok := m.repos[key]
	if !ok {
		if r, err = m.open(key, remote.Name, u); err != nil {
			return nil, err
		}
		m.repos[key] = r
	}
	if t, ok := r.c.t.(*httpTransport); ok {
		t.setAuth(remote.Auth)
	}
	return r, nil
}

func (m *Mirrors) open(key, name string, u *url.URL) (*Repo, error) {
	var t transport = &httpTransport{url: u.String(), client: m.opts.HTTP}
	if u.Scheme == "file" {
		var err error
		if t, err = newFileTransport(u.Path); err != nil {
			return nil, err
		}
	}
	s, err := openStore(filepath.Join(m.dir, key), m.objects)
	if err != nil {
		return nil, err
	}
	return newRepo(name, &client{t: t, url: u.String()}, s, m.opts)
}

// mirrorName is readable and unique per name and URL.
func mirrorName(name, url string) string {
	plain := strings.Map(func(r rune) rune {
		if r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || r == '-' || r == '_' {
			return r
		}
		return '-'
	}, name)
	sum := sha256.Sum256([]byte(name + "\x00" + url))
	return plain[:min(len(plain), 60)] + "-" + hex.EncodeToString(sum[:6]) + ".git"
}

// Close waits for changes under way, writes what is only in memory and lets go of the directory.
func (m *Mirrors) Close() error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil
	}
	m.closed = true
	var errs []error
	for _, r := range m.repos {
		errs = append(errs, r.close())
	}
	// Unlocked before it is closed: a program that is being started may hold a copy of the descriptor for a moment.
	errs = append(errs, unix.Flock(int(m.lock.Fd()), unix.LOCK_UN), m.lock.Close())
	return errors.Join(errs...)
}
