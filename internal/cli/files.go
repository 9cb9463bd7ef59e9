package cli

import (
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"sort"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

const (
	// maxFile is the most that a file of definitions may have.
	maxFile = 1 << 20
	// maxFiles and maxAll bound what one apply sends.
	maxFiles = 1000
	maxAll   = 6 << 20
)

// readFiles reads files and directories of definitions; "-" is standard input. Of a directory it takes YAML and
// Rego files, hidden ones and tests of policies left out. Links are not followed.
func (a *app) readFiles(names []string) ([]api.File, error) {
	var out []api.File
	total := 0
	add := func(name string, r io.Reader) error {
		b, err := io.ReadAll(io.LimitReader(r, maxFile+1))
		if err != nil {
			return promo.Errorf(promo.CodeConfiguration, "%q: %w", name, err)
		}
		if len(b) > maxFile {
			return promo.Errorf(promo.CodeConfiguration, "%q is larger than %d bytes", name, maxFile)
		}
		if total += len(b); total > maxAll || len(out) == maxFiles {
			return promo.Errorf(promo.CodeConfiguration, "more than %d files or %d bytes at once", maxFiles, maxAll).WithHint("apply a smaller directory")
		}
		out = append(out, api.File{Path: name, Content: string(b)})
		return nil
	}
	for _, name := range names {
		if name == "-" {
			if err := add("stdin.yaml", a.Stdin); err != nil {
				return nil, err
			}
			continue
		}
		if err := readTree(name, add); err != nil {
			return nil, err
		}
	}
	if len(out) == 0 {
		return nil, usageError{promo.Errorf(promo.CodeConfiguration, "no YAML or Rego file in %q", names)}
	}
	sort.Slice(out, func(i, j int) bool { return out[i].Path < out[j].Path })
	return slices.CompactFunc(out, func(x, y api.File) bool { return x.Path == y.Path }), nil
}

func readTree(name string, add func(string, io.Reader) error) error {
	info, err := os.Stat(name)
	if err != nil {
		return usageError{promo.Errorf(promo.CodeConfiguration, "%w", err)}
	}
	if !info.IsDir() {
		return readOne(filepath.Dir(name), filepath.Base(name), filepath.ToSlash(name), add)
	}
	root, err := os.OpenRoot(name) // nothing below it leads out
	if err != nil {
		return usageError{promo.Errorf(promo.CodeConfiguration, "%w", err)}
	}
	defer func() { _ = root.Close() }()
	return fs.WalkDir(root.FS(), ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return promo.Errorf(promo.CodeConfiguration, "%w", err)
		case p != "." && d.Name()[0] == '.' && d.IsDir():
			return fs.SkipDir
		case !d.Type().IsRegular() || !isDefinition(d.Name()):
			return nil
		}
		f, err := root.Open(p)
		if err != nil {
			return promo.Errorf(promo.CodeConfiguration, "%w", err)
		}
		defer func() { _ = f.Close() }()
		return add(path.Join(filepath.ToSlash(name), p), f)
	})
}

func readOne(dir, base, as string, add func(string, io.Reader) error) error {
	f, err := os.Open(filepath.Join(dir, base)) //nolint:gosec // the person named it
	if err != nil {
		return usageError{promo.Errorf(promo.CodeConfiguration, "%w", err)}
	}
	defer func() { _ = f.Close() }()
	return add(as, f)
}

func isDefinition(name string) bool {
	if name[0] == '.' {
		return false
	}
	switch filepath.Ext(name) {
	case ".yaml", ".yml":
		return true
	case ".rego":
		return len(name) < len("_test.rego") || name[len(name)-len("_test.rego"):] != "_test.rego"
	}
	return false
}
