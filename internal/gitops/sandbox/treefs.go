package sandbox

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// TreeReader reads the files of a commit; the trees of package git are such readers.
type TreeReader interface {
	// List returns the names in a directory ("" is the root); those of directories end in a slash.
	List(dir string) ([]string, error)
	// Read returns a file's bytes and refuses a symbolic link. A missing file is NotFound.
	Read(path string) ([]byte, error)
}

// TreeFS shows a TreeReader as a file system for GitSource.Tree. Sizes are not known before a file is read and
// show as 0. It is for one goroutine if the reader is.
func TreeFS(r TreeReader) fs.FS { return treeFS{r} }

type treeFS struct{ r TreeReader }

// Open opens a file or a directory.
func (t treeFS) Open(name string) (fs.File, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrInvalid}
	}
	e := treeEntry{name: path.Base(name), mode: fs.ModeDir | 0o755}
	if name != "." {
		siblings, err := t.ReadDir(path.Dir(name))
		if err != nil {
			return nil, err
		}
		found := false
		for _, s := range siblings {
			if s.Name() == e.name {
				e.mode, found = s.Type()|0o644, true
			}
		}
		if !found {
			return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
		}
	}
	if e.IsDir() {
		e.mode = fs.ModeDir | 0o755
		entries, err := t.ReadDir(name)
		return &treeDir{treeEntry: e, rest: entries}, err
	}
	data, err := t.r.Read(name)
	if err != nil {
		return nil, asPathError("open", name, err)
	}
	return &treeFile{Reader: bytes.NewReader(data), entry: e}, nil
}

// ReadDir lists a directory, sorted by name.
func (t treeFS) ReadDir(name string) ([]fs.DirEntry, error) {
	if !fs.ValidPath(name) {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrInvalid}
	}
	dir := name
	if dir == "." {
		dir = ""
	}
	names, err := t.r.List(dir)
	if err != nil {
		return nil, asPathError("readdir", name, err)
	}
	entries := make([]fs.DirEntry, len(names))
	for i, n := range names {
		e := treeEntry{name: n, mode: 0o644}
		if dir, ok := strings.CutSuffix(n, "/"); ok {
			e = treeEntry{name: dir, mode: fs.ModeDir | 0o755}
		}
		entries[i] = e
	}
	// Git sorts a directory as if its name ended in a slash; io/fs sorts by the bare name.
	sortEntries(entries)
	return entries, nil
}

func asPathError(op, name string, err error) error {
	var known *promo.Error
	if errors.As(err, &known) && known.Code == promo.CodeNotFound {
		err = fs.ErrNotExist
	}
	return &fs.PathError{Op: op, Path: name, Err: err}
}

// treeEntry is a directory entry and its own FileInfo.
type treeEntry struct {
	name string
	mode fs.FileMode
}

func (e treeEntry) Name() string               { return e.name }
func (e treeEntry) Size() int64                { return 0 }
func (e treeEntry) Mode() fs.FileMode          { return e.mode }
func (e treeEntry) Type() fs.FileMode          { return e.mode.Type() }
func (e treeEntry) IsDir() bool                { return e.mode.IsDir() }
func (e treeEntry) ModTime() time.Time         { return time.Time{} }
func (e treeEntry) Sys() any                   { return nil }
func (e treeEntry) Info() (fs.FileInfo, error) { return e, nil }

type treeFile struct {
	*bytes.Reader
	entry treeEntry
}

func (f *treeFile) Stat() (fs.FileInfo, error) { return f.entry, nil }
func (f *treeFile) Close() error               { return nil }

type treeDir struct {
	treeEntry
	rest []fs.DirEntry
}

func (d *treeDir) Stat() (fs.FileInfo, error) { return d.treeEntry, nil }
func (d *treeDir) Close() error               { return nil }
func (d *treeDir) Read([]byte) (int, error) {
	return 0, &fs.PathError{Op: "read", Path: d.name, Err: errors.New("is a directory")}
}

// ReadDir follows fs.ReadDirFile.
func (d *treeDir) ReadDir(n int) ([]fs.DirEntry, error) {
	if n > 0 && len(d.rest) == 0 {
		return nil, io.EOF
	}
	if n <= 0 || n > len(d.rest) {
		n = len(d.rest)
	}
	out := d.rest[:n:n]
	d.rest = d.rest[n:]
	return out, nil
}

func sortEntries(entries []fs.DirEntry) {
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
}
