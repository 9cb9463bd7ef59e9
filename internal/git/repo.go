package git

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/go-git/go-git/v5/plumbing"
	"golang.org/x/sync/singleflight"

	"github.com/davit-cd/davit/internal/promo"
)

const (
	// maxHaves is how many commits a fetch offers to build on: the branches in use, not all that were ever seen.
	maxHaves = 24
	// maxSeen bounds the remembered heads of branches; pull request branches come and go.
	maxSeen = 2000
	// maxWhole bounds the commits that are known to be complete.
	maxWhole = 20_000
	keepDir  = "refs/davit/keep"
)

// Repo is one repository: its mirror, and the way to its server. It is safe for concurrent use.
type Repo struct {
	name string
	opts Options
	c    *client
	s    *store

	flight singleflight.Group // one fetch of a thing at a time, whoever asks

	mu sync.Mutex
	// seen is where branches were when last looked at. It may be old: compare-and-set guards every use.
	seen map[string]plumbing.Hash
	// whole are commits whose trees are all here.
	whole map[plumbing.Hash]bool
	// offers are those of them that fetches build on, in order of use, newest last.
	offers  []plumbing.Hash
	keeps   map[plumbing.Hash]bool
	queues  map[string]*queue
	closed  bool
	writing bool // behind-the-answer work is under way
	again   bool // … and there is more
	work    sync.WaitGroup
}

// memory is what a restart should not have to ask again.
type memory struct {
	Seen  map[string]string `json:"seen"`
	Whole []string          `json:"whole"`
}

func newRepo(name string, c *client, s *store, opts Options) (*Repo, error) {
	r := &Repo{
		name: name, opts: opts, c: c, s: s, seen: map[string]plumbing.Hash{},
		whole: map[plumbing.Hash]bool{}, keeps: map[plumbing.Hash]bool{}, queues: map[string]*queue{},
	}
	var m memory
	data, err := os.ReadFile(filepath.Join(s.dir, "davit.json"))
	if err == nil && json.Unmarshal(data, &m) == nil { // a cache: what cannot be read is asked again
		for branch, id := range m.Seen {
			r.seen[branch] = plumbing.NewHash(id)
		}
		for _, id := range m.Whole {
			if h := plumbing.NewHash(id); s.has(h) {
				r.offers = append(r.offers, h)
				r.whole[h] = true
			}
		}
	}
	entries, err := os.ReadDir(filepath.Join(s.dir, keepDir))
	if err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "mirror: %w", err)
	}
	for _, e := range entries {
		if plumbing.IsHash(e.Name()) {
			r.keeps[plumbing.NewHash(e.Name())] = true
		}
	}
	return r, nil
}

// commitID checks a commit's id from outside.
func commitID(s string) (plumbing.Hash, error) {
	if !plumbing.IsHash(s) {
		return plumbing.ZeroHash, promo.Errorf(promo.CodeConfiguration, "%q is not a commit's full id", s).
			WithHint("40 hexadecimal digits")
	}
	return plumbing.NewHash(strings.ToLower(s)), nil
}

// branchName checks a branch's name by Git's own rules for references.
func branchName(b string) error {
	bad := b == "" || len(b) > 244 || strings.HasPrefix(b, "-") || strings.HasPrefix(b, "/") || strings.HasSuffix(b, "/") ||
		strings.HasSuffix(b, ".") || strings.Contains(b, "..") || strings.Contains(b, "//") || strings.Contains(b, "@{") || b == "@" ||
		strings.ContainsFunc(b, func(r rune) bool { return r <= ' ' || r == 0x7f || strings.ContainsRune("~^:?*[\\", r) })
	for part := range strings.SplitSeq(b, "/") {
		bad = bad || strings.HasPrefix(part, ".") || strings.HasSuffix(part, ".lock")
	}
	if bad {
		return promo.Errorf(promo.CodeConfiguration, "%q cannot be a branch's name", b)
	}
	return nil
}

// Head asks the server where a branch is now. A branch that does not exist is NotFound.
func (r *Repo) Head(ctx context.Context, branch string) (string, error) {
	if err := branchName(branch); err != nil {
		return "", err
	}
	heads, err := r.look(ctx, branch)
	if err != nil {
		return "", err
	}
	id, ok := heads[branch]
	if !ok {
		return "", r.noBranch(branch)
	}
	return id.String(), nil
}

func (r *Repo) noBranch(branch string) error {
	return promo.Errorf(promo.CodeNotFound, "repository %q has no branch %q", r.name, branch)
}

// look asks where branches are now; those that do not exist are left out.
func (r *Repo) look(ctx context.Context, branches ...string) (map[string]plumbing.Hash, error) {
	prefixes := make([]string, len(branches))
	for i, b := range branches {
		prefixes[i] = "refs/heads/" + b
	}
	refs, err := r.c.lsRefs(ctx, prefixes...)
	if err != nil {
		return nil, err
	}
	heads := map[string]plumbing.Hash{}
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, b := range branches {
		if id, ok := refs["refs/heads/"+b]; ok {
			heads[b] = id
			r.seen[b] = id
		} else {
			delete(r.seen, b)
		}
	}
	for b := range r.seen {
		if len(r.seen) <= maxSeen {
			break
		}
		delete(r.seen, b) // any: it only costs a request
	}
	return heads, nil
}

// markWhole remembers that all trees of a commit are here.
func (r *Repo) markWhole(id plumbing.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.markWholeLocked(id)
}

func (r *Repo) markWholeLocked(id plumbing.Hash) {
	if len(r.whole) >= maxWhole {
		clear(r.whole) // those in use are found again at the price of a request
		for _, h := range r.offers {
			r.whole[h] = true
		}
	}
	r.whole[id] = true
}

// offer makes a complete commit one that fetches build on. Where it follows another, it takes its place.
func (r *Repo) offer(id, instead plumbing.Hash) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.markWholeLocked(id)
	r.offers = slices.DeleteFunc(r.offers, func(h plumbing.Hash) bool { return h == id || h == instead && !r.keeps[h] })
	r.offers = append(r.offers, id)
	if len(r.offers) > maxHaves {
		r.offers = slices.Delete(r.offers, 0, len(r.offers)-maxHaves)
	}
}

func (r *Repo) isWhole(id plumbing.Hash) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.keeps[id] || r.whole[id]
}

// havesBut is what a fetch of id offers to build on: who offers what it wants gets nothing.
func (r *Repo) havesBut(id plumbing.Hash) []plumbing.Hash {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(r.offers), func(h plumbing.Hash) bool { return h == id })
}

// Keep keeps a commit in the mirror, with the files below paths, also after the server has forgotten it.
func (r *Repo) Keep(ctx context.Context, commit string, paths ...string) error {
	id, err := commitID(commit)
	if err != nil {
		return err
	}
	t, err := r.Tree(ctx, commit)
	if err != nil {
		return err
	}
	if err := t.Prefetch(paths...); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(r.s.dir, keepDir, id.String()), []byte(id.String()+"\n")); err != nil {
		return err
	}
	r.mu.Lock()
	r.keeps[id] = true
	r.mu.Unlock()
	r.behind(ctx)
	return nil
}

// Release lets a kept commit go with the next upkeep.
func (r *Repo) Release(commit string) error {
	id, err := commitID(commit)
	if err != nil {
		return err
	}
	if err := os.Remove(filepath.Join(r.s.dir, keepDir, id.String())); err != nil && !errors.Is(err, os.ErrNotExist) {
		return promo.Errorf(promo.CodeInternal, "mirror: %w", err)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.keeps, id)
	return nil
}

// DeleteBranch deletes a branch that is at expect; "" takes it wherever it is. A branch that is gone already is
// success, one that is elsewhere is a Conflict.
func (r *Repo) DeleteBranch(ctx context.Context, branch, expect string) error {
	if err := branchName(branch); err != nil {
		return err
	}
	for range maxAttempts {
		heads, err := r.look(ctx, branch)
		if err != nil {
			return err
		}
		at, ok := heads[branch]
		if !ok {
			return nil
		}
		if expect != "" && at.String() != expect {
			return r.foreign(ctx, branch, at, expect)
		}
		err = r.c.push(ctx, refUpdate{ref: "refs/heads/" + branch, old: at}, nil)
		if !errors.Is(err, errRace) {
			if err == nil {
				r.mu.Lock()
				delete(r.seen, branch)
				r.mu.Unlock()
			}
			return err
		}
	}
	return promo.Errorf(promo.CodeConflict, "branch %q of repository %q moves too fast to be deleted", branch, r.name)
}
