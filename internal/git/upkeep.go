package git

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/davit-cd/davit/internal/promo"
)

// behind does what need not be done before the answer: writing new objects and what is remembered to disk, and
// upkeep. One at a time per repository; asked for while it runs, it runs once more.
func (r *Repo) behind(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writing {
		r.again = true
		return
	}
	if r.closed {
		return
	}
	r.writing = true
	r.work.Add(1)
	go r.writeBehind(context.WithoutCancel(ctx))
}

func (r *Repo) writeBehind(ctx context.Context) {
	defer r.work.Done()
	for {
		err := r.save()
		if err == nil && r.s.untidy(r.opts.LooseLimit, r.opts.PackLimit) {
			err = r.tidy(ctx)
		}
		if err != nil {
			r.opts.Logger.WarnContext(ctx, "mirror cannot be written; what is missing will be fetched again", "repository", r.name, "error", err)
		}
		r.mu.Lock()
		if !r.again || err != nil {
			r.writing, r.again = false, false
			r.mu.Unlock()
			return
		}
		r.again = false
		r.mu.Unlock()
	}
}

// save writes objects first, then what is remembered of them.
func (r *Repo) save() error {
	if err := r.s.persist(); err != nil {
		return err
	}
	m := memory{Seen: map[string]string{}}
	r.mu.Lock()
	for b, id := range r.seen {
		m.Seen[b] = id.String()
	}
	for _, id := range r.offers {
		m.Whole = append(m.Whole, id.String())
	}
	r.mu.Unlock()
	data, err := json.Marshal(m)
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "mirror: %w", err)
	}
	return writeFile(filepath.Join(r.s.dir, "davit.json"), data)
}

func (r *Repo) close() error {
	r.mu.Lock()
	r.closed = true
	r.mu.Unlock()
	r.work.Wait()
	err := r.save()
	if cerr := r.s.close(); err == nil {
		err = cerr
	}
	return err
}

// tidy rebuilds the mirror as one pack of what is still in use: the trees, and the files that are here, of kept
// commits, of branches and of commits that fetches build on. All else can be fetched again.
func (r *Repo) tidy(ctx context.Context) error {
	begun := r.opts.Now()
	started := time.Now().Add(-time.Second) // file systems round times down
	r.mu.Lock()
	roots := map[plumbing.Hash]bool{}
	for id := range r.keeps {
		roots[id] = true
	}
	for _, id := range r.offers {
		roots[id] = true
	}
	for _, id := range r.seen {
		roots[id] = true
	}
	r.mu.Unlock()
	use := &inUse{r: r, seen: map[plumbing.Hash]bool{}}
	for id := range roots {
		if err := use.commit(id); err != nil {
			return err
		}
	}
	if err := r.s.replace(use.order, started); err != nil {
		return promo.Errorf(promo.CodeInternal, "tidying the mirror: %w", err)
	}
	r.mu.Lock()
	r.whole = map[plumbing.Hash]bool{}
	for id := range roots {
		if use.seen[id] {
			r.whole[id] = true
		}
	}
	r.mu.Unlock()
	r.opts.Logger.DebugContext(ctx, "mirror tidied", "repository", r.name, "objects", len(use.order), "took", r.opts.Now().Sub(begun))
	return nil
}

// inUse collects the objects below commits that are in the mirror. Nothing is fetched for it.
type inUse struct {
	r     *Repo
	seen  map[plumbing.Hash]bool
	order []plumbing.Hash
}

func (u *inUse) commit(id plumbing.Hash) error {
	c, err := u.r.s.commit(id)
	if errors.Is(err, errMissing) || u.seen[id] {
		return nil
	}
	if err != nil {
		return err
	}
	u.take(id)
	return u.tree(c.tree)
}

func (u *inUse) take(id plumbing.Hash) {
	u.seen[id] = true
	u.order = append(u.order, id)
}

func (u *inUse) tree(id plumbing.Hash) error {
	if u.seen[id] {
		return nil
	}
	o, err := u.r.s.get(id)
	if errors.Is(err, errMissing) {
		return nil
	}
	if err != nil {
		return err
	}
	u.take(id)
	d, err := parseTree(id, o.data)
	if err != nil {
		return err
	}
	for _, n := range d.nodes {
		switch {
		case n.mode == filemode.Dir:
			if err := u.tree(n.id); err != nil {
				return err
			}
		case n.mode == filemode.Submodule || u.seen[n.id] || !u.r.s.has(n.id):
		default:
			if _, err := u.r.s.get(n.id); err == nil { // it may be torn
				u.take(n.id)
			}
		}
	}
	return nil
}

// untidy reports whether the mirror has become slow to search.
func (s *store) untidy(loose, packs int) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.loose > loose || s.packs > packs
}

// replace writes the objects as one pack and removes every other file of objects that is older than started.
func (s *store) replace(ids []plumbing.Hash, started time.Time) error {
	pack, err := s.packAs(ids)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	root := filepath.Join(s.dir, "objects")
	err = filepath.WalkDir(root, func(path string, d os.DirEntry, err error) error {
		if err != nil || d.IsDir() || strings.HasPrefix(d.Name(), "tmp_") || pack != "" && strings.HasPrefix(d.Name(), pack) {
			return err
		}
		info, err := d.Info()
		if err != nil || info.ModTime().After(started) {
			return nil //nolint:nilerr // gone already, or new: both stay out of this
		}
		return os.Remove(path) //nolint:gosec // the directory is this process's own
	})
	s.reopen()
	if cerr := s.count(); err == nil {
		err = cerr
	}
	return err
}

// packAs writes the objects as one pack beside the others and returns its name without the ending.
func (s *store) packAs(ids []plumbing.Hash) (name string, err error) {
	if len(ids) == 0 {
		return "", nil
	}
	var sum plumbing.Hash
	err = s.writePack(func(w io.Writer) error {
		buffered := bufio.NewWriterSize(w, 1<<20)
		var err error
		sum, err = writePackTo(buffered, len(ids), func(i int) (newObject, error) {
			o, err := s.get(ids[i])
			return newObject{object: o, id: ids[i]}, err
		})
		if err != nil {
			return err
		}
		return buffered.Flush()
	})
	return "pack-" + sum.String(), err
}
