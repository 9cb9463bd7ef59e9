package git

import (
	"bufio"
	"bytes"
	"compress/zlib"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/go-git/go-billy/v5/osfs"
	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/cache"
	"github.com/go-git/go-git/v5/storage/filesystem"
	"github.com/go-git/go-git/v5/storage/filesystem/dotgit"

	"github.com/davit-cd/davit/internal/promo"
)

// errMissing says that an object is not in the mirror (yet). It never leaves the package.
var errMissing = errors.New("object is not in the mirror")

const (
	// maxCommits bounds the parsed commits kept in memory, some 300 bytes each.
	maxCommits = 50_000
	// packFrom is how many new objects are written as one pack instead of as files of their own.
	packFrom = 64
	// tooMany packs make upkeep run whatever its limit.
	tooMany = 1 << 30
)

// store is the mirror on disk with what is not written yet on top. go-git's storage is not safe for concurrent
// use, so that one lock guards it; reads hold it for microseconds.
type store struct {
	dir   string
	cache cache.Object

	mu sync.Mutex
	gs *filesystem.Storage
	// fresh are objects that are known and not on disk yet. They are written behind the answer.
	fresh   map[plumbing.Hash]object
	commits map[plumbing.Hash]*commit
	loose   int // files of single objects, counted for the upkeep
	packs   int
}

func openStore(dir string, objects cache.Object) (*store, error) {
	s := &store{dir: dir, cache: objects, fresh: map[plumbing.Hash]object{}, commits: map[plumbing.Hash]*commit{}}
	for _, sub := range []string{"objects/pack", "refs/heads", "refs/davit/keep"} {
		if err := os.MkdirAll(filepath.Join(dir, sub), 0o700); err != nil {
			return nil, promo.Errorf(promo.CodeInternal, "mirror: %w", err)
		}
	}
	head := filepath.Join(dir, "HEAD")
	if _, err := os.Stat(head); errors.Is(err, os.ErrNotExist) {
		files := map[string]string{"HEAD": "ref: refs/heads/main\n", "config": "[core]\n\trepositoryformatversion = 0\n\tbare = true\n"}
		for name, text := range files {
			if err := writeFile(filepath.Join(dir, name), []byte(text)); err != nil {
				return nil, err
			}
		}
	}
	if err := s.sweep(); err != nil {
		return nil, err
	}
	s.reopen()
	if err := s.gs.HasEncodedObject(plumbing.ZeroHash); !errors.Is(err, plumbing.ErrObjectNotFound) {
		// An index that cannot be read hides every pack: begin anew, all of it can be fetched again.
		if err := os.RemoveAll(filepath.Join(dir, "objects", "pack")); err != nil {
			return nil, promo.Errorf(promo.CodeInternal, "mirror: %w", err)
		}
		s.reopen()
	}
	return s, s.count()
}

// sweep removes what a crash left half written. The lock file says that nobody else writes here.
func (s *store) sweep() error {
	for _, pattern := range []string{"tmp_*", "objects/*/tmp_*", keepDir + "/tmp_*"} {
		left, err := filepath.Glob(filepath.Join(s.dir, pattern))
		for _, path := range left {
			if rerr := os.Remove(path); err == nil {
				err = rerr
			}
		}
		if err != nil {
			return promo.Errorf(promo.CodeInternal, "mirror: %w", err)
		}
	}
	return nil
}

// reopen drops what go-git knows of the files on disk. The caller holds the lock or is alone.
func (s *store) reopen() {
	if s.gs != nil {
		_ = s.gs.Close() // only read; nothing can be lost
	}
	s.gs = filesystem.NewStorageWithOptions(osfs.New(s.dir), s.cache, filesystem.Options{KeepDescriptors: true})
}

// count takes stock of loose objects and packs.
func (s *store) count() error {
	s.loose, s.packs = 0, 0
	dirs, err := os.ReadDir(filepath.Join(s.dir, "objects"))
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "mirror: %w", err)
	}
	for _, d := range dirs {
		files, err := os.ReadDir(filepath.Join(s.dir, "objects", d.Name()))
		if err != nil {
			continue // gone or not a folder: nothing to count
		}
		for _, f := range files {
			switch {
			case len(d.Name()) == 2:
				s.loose++
			case strings.HasSuffix(f.Name(), ".pack"):
				s.packs++
			}
		}
	}
	return nil
}

// get returns an object or errMissing. An object on disk that cannot be read (a torn write) counts as missing:
// it will be fetched again.
func (s *store) get(id plumbing.Hash) (object, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o, ok := s.fresh[id]; ok {
		return o, nil
	}
	o, err := s.read(id)
	if err == nil {
		return o, nil
	}
	if !errors.Is(err, plumbing.ErrObjectNotFound) {
		s.torn(id)
	}
	return object{}, fmt.Errorf("%w: %s: %w", errMissing, id, err)
}

func (s *store) read(id plumbing.Hash) (object, error) {
	enc, err := s.gs.EncodedObject(plumbing.AnyObject, id)
	if err != nil {
		return object{}, err
	}
	r, err := enc.Reader()
	if err != nil {
		return object{}, err
	}
	defer func() { _ = r.Close() }() // only read
	data := make([]byte, enc.Size())
	_, err = io.ReadFull(r, data)
	return object{kind: enc.Type(), data: data}, err
}

// torn gets an object that cannot be read out of the way of the one that will be fetched: a file of its own goes
// at once, a pack with the next upkeep.
func (s *store) torn(id plumbing.Hash) {
	name := id.String()
	if os.Remove(filepath.Join(s.dir, "objects", name[:2], name[2:])) != nil {
		s.packs = tooMany
	}
}

func (s *store) has(id plumbing.Hash) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.fresh[id]; ok {
		return true
	}
	return s.gs.HasEncodedObject(id) == nil
}

// commit returns a parsed commit or errMissing.
func (s *store) commit(id plumbing.Hash) (*commit, error) {
	s.mu.Lock()
	c := s.commits[id]
	s.mu.Unlock()
	if c != nil {
		return c, nil
	}
	o, err := s.get(id)
	if err != nil {
		return nil, err
	}
	if o.kind != plumbing.CommitObject {
		return nil, promo.Errorf(promo.CodeNotFound, "%s is a %s, not a commit", id, o.kind)
	}
	if c, err = parseCommit(id, o.data); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.commits) >= maxCommits {
		clear(s.commits) // rare and cheap to fill again; an order of use is not worth its cost
	}
	s.commits[id] = c
	return c, nil
}

// add makes objects known. They reach the disk with the next persist.
func (s *store) add(objects map[plumbing.Hash]object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	maps.Copy(s.fresh, objects)
}

// addPack writes a pack that is too large for memory straight to disk. It must not be thin. The lock is not held
// while it comes in.
func (s *store) addPack(pack io.Reader) error {
	buffered := bufio.NewReaderSize(pack, 1<<20)
	if _, err := buffered.Peek(1); errors.Is(err, io.EOF) {
		return nil // the server had nothing to send
	}
	err := s.writePack(func(w io.Writer) error {
		_, err := io.Copy(w, buffered)
		return err
	})
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	s.packs++
	s.reopen()
	return nil
}

// writePack adds a pack with its index to the files. What is known of the files does not change.
func (s *store) writePack(write func(w io.Writer) error) error {
	w, err := dotgit.New(osfs.New(s.dir)).NewObjectPack()
	if err != nil {
		return err
	}
	err = write(w)
	if cerr := w.Close(); err == nil {
		err = cerr
	}
	return err
}

// persist writes what is only in memory: few objects as files of their own, many as a pack.
func (s *store) persist() error {
	s.mu.Lock()
	batch := make(map[plumbing.Hash]object, len(s.fresh))
	maps.Copy(batch, s.fresh)
	s.mu.Unlock()
	if len(batch) == 0 {
		return nil
	}
	var err error
	if len(batch) >= packFrom {
		err = s.persistPack(batch)
	} else {
		for id, o := range batch {
			if err = s.persistLoose(id, o); err != nil {
				break
			}
		}
	}
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "writing to the mirror: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range batch {
		delete(s.fresh, id)
	}
	return nil
}

func (s *store) persistPack(batch map[plumbing.Hash]object) error {
	objects := make([]newObject, 0, len(batch))
	for id, o := range batch {
		objects = append(objects, newObject{object: o, id: id})
	}
	pack, err := encodePack(objects)
	if err != nil {
		return err
	}
	return s.addPack(bytes.NewReader(pack))
}

func (s *store) persistLoose(id plumbing.Hash, o object) error {
	var b bytes.Buffer
	z, err := zlib.NewWriterLevel(&b, zlib.BestSpeed) // a cache: time matters, size hardly
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(z, "%s %d\x00", o.kind, len(o.data)); err != nil {
		return err
	}
	if _, err := z.Write(o.data); err != nil {
		return err
	}
	if err := z.Close(); err != nil {
		return err
	}
	name := id.String()
	dir := filepath.Join(s.dir, "objects", name[:2])
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return err
	}
	if err := writeFile(filepath.Join(dir, name[2:]), b.Bytes()); err != nil {
		return err
	}
	s.mu.Lock()
	s.loose++
	s.mu.Unlock()
	return nil
}

// writeFile replaces a file at once: readers see the old or the new bytes, never half of them.
func writeFile(path string, data []byte) error {
	f, err := os.CreateTemp(filepath.Dir(path), "tmp_*")
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "mirror: %w", err)
	}
	_, err = f.Write(data)
	if cerr := f.Close(); err == nil {
		err = cerr
	}
	if err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		_ = os.Remove(f.Name()) // nothing more to do: the error is told
		return promo.Errorf(promo.CodeInternal, "mirror: %w", err)
	}
	return nil
}

func (s *store) close() error {
	err := s.persist()
	s.mu.Lock()
	defer s.mu.Unlock()
	if cerr := s.gs.Close(); err == nil && cerr != nil {
		err = promo.Errorf(promo.CodeInternal, "closing the mirror: %w", cerr)
	}
	return err
}
