package render

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"

	"sigs.k8s.io/kustomize/kyaml/filesys"
)

var errReadOnly = errors.New("a commit is read-only")

// tree is a commit with a budget: what was read is counted, links are not followed.
type tree struct {
	commit fs.FS
	files  int
	bytes  int
	// refused is the first refusal of vet.
	refused error
}

func newTree(commit fs.FS) *tree { return &tree{commit: commit} }

func (t *tree) readDir(dir string) ([]fs.DirEntry, error) {
	if !fs.ValidPath(dir) {
		return nil, fmt.Errorf("path %q leaves the repository", dir)
	}
	return fs.ReadDir(t.commit, dir)
}

func (t *tree) readFile(name string) ([]byte, error) {
	info, err := t.stat(name)
	switch {
	case err != nil:
		return nil, err
	case !info.Mode().IsRegular():
		return nil, fmt.Errorf("%q is no regular file", name)
	case info.Size() > maxFileBytes:
		return nil, fmt.Errorf("%q has %d bytes, at most %d are read", name, info.Size(), maxFileBytes)
	}
	file, err := t.commit.Open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close() //nolint:errcheck // read only
	data, err := io.ReadAll(io.LimitReader(file, maxFileBytes+1))
	if err != nil {
		return nil, err
	}
	t.files++
	t.bytes += len(data)
	if t.files > maxFiles || t.bytes > maxTotalBytes || len(data) > maxFileBytes {
		return nil, fmt.Errorf("too much to read at %q: at most %d files and %d bytes", name, maxFiles, maxTotalBytes)
	}
	return data, nil
}

// stat looks the entry up in its directory, which, unlike fs.Stat, follows no link.
func (t *tree) stat(name string) (fs.FileInfo, error) {
	if !fs.ValidPath(name) {
		return nil, fmt.Errorf("path %q leaves the repository", name)
	}
	if name == "." {
		return fs.Stat(t.commit, name)
	}
	dir, base := path.Dir(name), path.Base(name)
	if dir != "." { // a link on the way is no directory
		if parent, err := t.stat(dir); err != nil || !parent.IsDir() {
			return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
		}
	}
	entries, err := fs.ReadDir(t.commit, dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if e.Name() == base {
			return e.Info()
		}
	}
	return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
}

// kustomizeFS shows a tree to kustomize, rooted at "/". Kustomization files are vetted when they are read, which
// is before kustomize follows any reference in them; see vet.
type kustomizeFS struct{ *tree }

var _ filesys.FileSystem = kustomizeFS{}

func rel(name string) string {
	clean := strings.TrimPrefix(path.Clean("/"+name), "/")
	if clean == "" {
		return "."
	}
	return clean
}

func (f kustomizeFS) Create(string) (filesys.File, error) { return nil, errReadOnly }
func (f kustomizeFS) Mkdir(string) error                  { return errReadOnly }
func (f kustomizeFS) MkdirAll(string) error               { return errReadOnly }
func (f kustomizeFS) RemoveAll(string) error              { return errReadOnly }
func (f kustomizeFS) WriteFile(string, []byte) error      { return errReadOnly }
func (f kustomizeFS) Open(string) (filesys.File, error)   { return nil, errReadOnly }
func (f kustomizeFS) Glob(string) ([]string, error)       { return nil, errReadOnly }
func (f kustomizeFS) Walk(string, filepath.WalkFunc) error {
	return errReadOnly
}

func (f kustomizeFS) IsDir(name string) bool {
	info, err := f.stat(rel(name))
	return err == nil && info.IsDir()
}

func (f kustomizeFS) Exists(name string) bool {
	_, err := f.stat(rel(name))
	return err == nil
}

func (f kustomizeFS) ReadDir(name string) ([]string, error) {
	entries, err := f.readDir(rel(name))
	if err != nil {
		return nil, err
	}
	names := make([]string, len(entries))
	for i, e := range entries {
		names[i] = e.Name()
	}
	return names, nil
}

func (f kustomizeFS) CleanedAbs(name string) (filesys.ConfirmedDir, string, error) {
	clean := rel(name)
	info, err := f.stat(clean)
	if err != nil {
		return "", "", fmt.Errorf("%q does not exist in the commit: %w", clean, os.ErrNotExist)
	}
	if info.IsDir() {
		return filesys.ConfirmedDir(path.Join("/", clean)), "", nil
	}
	return filesys.ConfirmedDir(path.Join("/", path.Dir(clean))), path.Base(clean), nil
}

func (f kustomizeFS) ReadFile(name string) ([]byte, error) {
	clean := rel(name)
	data, err := f.readFile(clean)
	if err != nil {
		return nil, err
	}
	if err := checkAliases(clean, data); err != nil {
		f.refused = cmp.Or(f.refused, configuration(err))
		return nil, err
	}
	if isKustomization(clean) {
		if err := vet(clean, data); err != nil {
			f.refused = cmp.Or(f.refused, err)
			return nil, err
		}
	}
	return data, nil
}
