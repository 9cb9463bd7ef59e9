package sandbox

import (
	"errors"
	"io/fs"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/davit-cd/davit/internal/gitops/sandbox/render"
	"github.com/davit-cd/davit/internal/promo"
)

// mapTree is a TreeReader over a map; a file named *.link is a symbolic link.
type mapTree map[string]string

func (m mapTree) List(dir string) ([]string, error) {
	prefix, names := "", map[string]bool{}
	if dir != "" {
		prefix = dir + "/"
	}
	for name := range m {
		if rest, ok := strings.CutPrefix(name, prefix); ok {
			base, _, deeper := strings.Cut(rest, "/")
			if deeper {
				base += "/"
			}
			names[base] = true
		}
	}
	if len(names) == 0 {
		return nil, promo.Errorf(promo.CodeNotFound, "no directory %q", dir)
	}
	return slices.Sorted(maps.Keys(names)), nil
}

func (m mapTree) Read(name string) ([]byte, error) {
	if strings.HasSuffix(name, ".link.yaml") {
		return nil, promo.Errorf(promo.CodeConfiguration, "%q is a symbolic link", name)
	}
	text, ok := m[name]
	if !ok {
		return nil, promo.Errorf(promo.CodeNotFound, "no file %q", name)
	}
	return []byte(text), nil
}

func TestTreeFS(t *testing.T) {
	t.Parallel()
	tree := TreeFS(mapTree{"a/b.yaml": "x", "a-b": "y", "a.yaml": "z", "c/d/e": "", ".hidden/f": ""})
	if err := fstest.TestFS(tree, "a/b.yaml", "a-b", "a.yaml", "c/d/e", ".hidden/f"); err != nil {
		t.Error(err)
	}
	if _, err := fs.ReadFile(tree, "a/gone"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("got %v", err)
	}
	_, err := render.Render(TreeFS(mapTree{"app/x.link.yaml": ""}), "app", render.Options{})
	if err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Errorf("a link is refused: %v", err)
	}
	_, err = render.Render(tree, "nowhere", render.Options{})
	if err == nil || !strings.Contains(err.Error(), "app path does not exist") {
		t.Errorf("got %v", err)
	}
}
