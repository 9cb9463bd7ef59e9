package git

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/davit-cd/davit/internal/promo"
)

// Tree is the files of a commit with edits on top. It is for one goroutine. Paths are from the repository's root
// with slashes between names; a path that leaves the repository, names .git, or leads through a symbolic link or
// a submodule is a Configuration error that names it.
type Tree struct {
	base     plumbing.Hash
	root     *directory
	load     loader
	source   func(ctx context.Context, commit string) (*Tree, error) // other commits of the same repository
	readOnly bool
	maxFile  int64
	blobs    map[plumbing.Hash][]byte
	// copied are trees and blobs that were taken over from other commits by their ids.
	copied []plumbing.Hash
}

// loader gives objects, fetching those that are missing in one request.
type loader func(ids ...plumbing.Hash) ([]object, error)

// Kind says what a path is.
type Kind string

// The kinds of entries.
const (
	KindFile      Kind = "file"
	KindDir       Kind = "directory"
	KindSymlink   Kind = "symbolic link"
	KindSubmodule Kind = "submodule"
)

// Entry is a path of a tree.
type Entry struct {
	Path string
	Kind Kind
	// Executable is true for files with the executable bit.
	Executable bool
	// ID is the id of the blob or tree; "" for a directory with edits.
	ID string
}

// Commit returns the id of the commit that the tree was read from.
func (t *Tree) Commit() string { return t.base.String() }

// Read returns a file's bytes. A missing file is NotFound.
func (t *Tree) Read(path string) ([]byte, error) {
	n, err := t.file(path)
	if err != nil {
		return nil, err
	}
	data, ok := t.blobs[n.id]
	if !ok {
		objects, err := t.load(n.id)
		if err != nil {
			return nil, err
		}
		data = objects[0].data
	}
	if int64(len(data)) > t.maxFile {
		return nil, t.tooLarge(path, len(data))
	}
	return bytes.Clone(data), nil
}

// ReadText is Read for a file that must be text: UTF-8 without zero bytes.
func (t *Tree) ReadText(path string) (string, error) {
	data, err := t.Read(path)
	if err != nil {
		return "", err
	}
	if isBinary(data) || !utf8.Valid(data) {
		return "", promo.Errorf(promo.CodeConfiguration, "%q is binary, not text", path)
	}
	return string(data), nil
}

// Write makes or replaces a file; a file that exists keeps its mode.
func (t *Tree) Write(path string, data []byte) error {
	if int64(len(data)) > t.maxFile {
		return t.tooLarge(path, len(data))
	}
	names, err := t.editable(path)
	if err != nil {
		return err
	}
	o := object{kind: plumbing.BlobObject, data: bytes.Clone(data)}
	n := &node{name: names[len(names)-1], mode: filemode.Regular, id: o.id()}
	old, err := t.lookup(names)
	switch {
	case err == nil && old.mode == filemode.Dir:
		return promo.Errorf(promo.CodeConfiguration, "%q is a directory, not a file", path)
	case err == nil && !isFile(old.mode):
		return notPlain(path, old.mode)
	case err == nil && old.id == n.id:
		return nil
	case err == nil:
		n.mode = old.mode
	case !errors.Is(err, errNoEntry):
		return err
	}
	t.blobs[n.id] = o.data
	return t.put(names, n)
}

// Remove removes a file or a whole directory; directories that become empty go too. What does not exist is NotFound.
func (t *Tree) Remove(path string) error {
	names, err := t.editable(path)
	if err != nil {
		return err
	}
	if _, err := t.lookup(names); err != nil {
		return notFound(path, t.base, err)
	}
	return t.remove(t.root, names)
}

// Exists reports whether there is a file or directory at the path.
func (t *Tree) Exists(path string) (bool, error) {
	_, err := t.Stat(path)
	if isCode(err, promo.CodeNotFound) {
		return false, nil
	}
	return err == nil, err
}

// Stat says what is at the path. What does not exist is NotFound.
func (t *Tree) Stat(path string) (Entry, error) {
	names, err := splitPath(path)
	if err != nil {
		return Entry{}, err
	}
	if len(names) == 0 {
		return Entry{Kind: KindDir, ID: t.root.cleanID()}, nil
	}
	n, err := t.lookup(names)
	if err != nil {
		return Entry{}, notFound(path, t.base, err)
	}
	return n.entry(strings.Join(names, "/")), nil
}

// List returns the names in a directory, sorted as Git sorts them; those of directories end in a slash.
func (t *Tree) List(dir string) ([]string, error) {
	d, _, err := t.openDir(dir)
	if err != nil {
		return nil, err
	}
	names := make([]string, len(d.nodes))
	for i, n := range d.nodes {
		names[i] = n.key()
	}
	return names, nil
}

// Walk calls fn for every file, link and submodule below dir, in Git's order. Links are not followed.
func (t *Tree) Walk(dir string, fn func(Entry) error) error {
	d, prefix, err := t.openDir(dir)
	if err != nil {
		return err
	}
	return t.walk(d, prefix, fn)
}

func (t *Tree) walk(d *directory, prefix string, fn func(Entry) error) error {
	for _, n := range d.nodes {
		p := prefix + n.name
		if n.mode != filemode.Dir {
			if err := fn(n.entry(p)); err != nil {
				return err
			}
			continue
		}
		sub, err := t.open(n)
		if err != nil {
			return err
		}
		if err := t.walk(sub, p+"/", fn); err != nil {
			return err
		}
	}
	return nil
}

// ReadAll returns every file below dir by its path, fetching what is missing in one request. Links and
// submodules are left out. More than maxBytes in all is a Configuration error.
func (t *Tree) ReadAll(dir string, maxBytes int64) (map[string][]byte, error) {
	var paths []string
	var ids []plumbing.Hash
	err := t.Walk(dir, func(e Entry) error {
		if e.Kind == KindFile {
			paths, ids = append(paths, e.Path), append(ids, plumbing.NewHash(e.ID))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	stored := make([]plumbing.Hash, 0, len(ids))
	for _, id := range ids {
		if _, ok := t.blobs[id]; !ok {
			stored = append(stored, id)
		}
	}
	objects, err := t.load(stored...)
	if err != nil {
		return nil, err
	}
	out := make(map[string][]byte, len(paths))
	for i, p := range paths {
		data, ok := t.blobs[ids[i]]
		if !ok {
			data, objects = objects[0].data, objects[1:]
		}
		if maxBytes -= int64(len(data)); maxBytes < 0 {
			return nil, promo.Errorf(promo.CodeConfiguration, "the files below %q are larger than allowed in all", dir)
		}
		out[p] = bytes.Clone(data)
	}
	return out, nil
}

func (n *node) entry(path string) Entry {
	e := Entry{Path: path, Kind: KindFile, Executable: n.mode == filemode.Executable, ID: n.id.String()}
	switch n.mode {
	case filemode.Dir:
		e.Kind = KindDir
		if n.dir != nil {
			e.ID = n.dir.cleanID()
		}
	case filemode.Symlink:
		e.Kind = KindSymlink
	case filemode.Submodule:
		e.Kind = KindSubmodule
	default:
	}
	return e
}

func (d *directory) cleanID() string {
	if d.dirty || d.id.IsZero() {
		return ""
	}
	return d.id.String()
}

func (t *Tree) file(path string) (*node, error) {
	names, err := splitPath(path)
	if err != nil {
		return nil, err
	}
	if len(names) == 0 {
		return nil, promo.Errorf(promo.CodeConfiguration, "%q is the repository's root, not a file", path)
	}
	n, err := t.lookup(names)
	switch {
	case err != nil:
		return nil, notFound(path, t.base, err)
	case n.mode == filemode.Dir:
		return nil, promo.Errorf(promo.CodeConfiguration, "%q is a directory, not a file", path)
	case !isFile(n.mode):
		return nil, notPlain(path, n.mode)
	}
	return n, nil
}

func (t *Tree) tooLarge(path string, size int) error {
	return promo.Errorf(promo.CodeConfiguration, "%q has %d bytes; the limit is %d", path, size, t.maxFile)
}

func notFound(path string, at plumbing.Hash, err error) error {
	if errors.Is(err, errNoEntry) {
		return promo.Errorf(promo.CodeNotFound, "there is no %q at commit %s", path, short(at))
	}
	return err
}

func notPlain(path string, mode filemode.FileMode) error {
	if mode == filemode.Submodule {
		return promo.Errorf(promo.CodeConfiguration, "%q is a submodule, not a file", path)
	}
	return promo.Errorf(promo.CodeConfiguration, "%q is a symbolic link; links are not followed", path)
}

func isFile(m filemode.FileMode) bool {
	return m == filemode.Regular || m == filemode.Executable || m == filemode.Deprecated
}

// isBinary decides as Git does: a zero byte near the start.
func isBinary(data []byte) bool { return bytes.IndexByte(data[:min(len(data), 8000)], 0) >= 0 }

func short(id plumbing.Hash) string { return id.String()[:12] }

// Tree returns the files of a commit, for reading.
func (r *Repo) Tree(ctx context.Context, commit string) (*Tree, error) {
	id, err := commitID(commit)
	if err != nil {
		return nil, err
	}
	t, err := r.treeAt(ctx, id)
	if err == nil {
		t.readOnly = true
	}
	return t, err
}

// ReadFile returns one file of a commit.
func (r *Repo) ReadFile(ctx context.Context, commit, path string) ([]byte, error) {
	t, err := r.Tree(ctx, commit)
	if err != nil {
		return nil, err
	}
	return t.Read(path)
}

// TreeHash returns the id of the blob or tree at a path of a commit: equal ids are equal bytes and modes.
func (r *Repo) TreeHash(ctx context.Context, commit, path string) (string, error) {
	t, err := r.Tree(ctx, commit)
	if err != nil {
		return "", err
	}
	e, err := t.Stat(path)
	return e.ID, err
}

func (r *Repo) treeAt(ctx context.Context, id plumbing.Hash) (*Tree, error) {
	c, err := r.complete(ctx, id)
	if err != nil {
		return nil, err
	}
	t := &Tree{base: id, source: r.Tree, maxFile: r.opts.MaxFile, blobs: map[plumbing.Hash][]byte{}}
	t.load = func(ids ...plumbing.Hash) ([]object, error) { return r.objects(ctx, ids...) }
	t.root, err = t.openID(c.tree)
	return t, err
}
