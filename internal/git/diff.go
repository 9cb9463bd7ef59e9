package git

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"slices"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"
	"github.com/rogpeppe/go-internal/diff"

	"github.com/davit-cd/davit/internal/promo"
)

const (
	// maxChanged bounds the files of one change: more are not a promotion.
	maxChanged = 100_000
	// maxDiffFile bounds a file whose lines are compared; larger ones are named.
	maxDiffFile = 1 << 20
	// maxDiffFiles bounds the files whose lines are compared; the others are named.
	maxDiffFiles = 500
)

// DiffOf says what head adds to base: from where their histories parted (three dots) to head, so that what others
// added to base since does not show. Base in the answer is that commit. No paths means all.
func (r *Repo) DiffOf(ctx context.Context, base, head string, paths ...string) (Change, error) {
	b, err := commitID(base)
	if err != nil {
		return Change{}, err
	}
	h, err := commitID(head)
	if err != nil {
		return Change{}, err
	}
	if b != h {
		how, err := r.paint(ctx, b, h)
		if err != nil {
			return Change{}, err
		}
		if how.base.IsZero() {
			return Change{}, promo.Errorf(promo.CodeConflict, "commits %s and %s of repository %q have no common history", short(b), short(h), r.name)
		}
		b = how.base
	}
	out := Change{Base: b.String(), Head: h.String()}
	err = r.describe(ctx, &out, b, h, paths)
	out.Changed = len(out.Files) > 0
	return out, err
}

// describe fills in files, digest and diff.
func (r *Repo) describe(ctx context.Context, out *Change, base, head plumbing.Hash, paths []string) error {
	files, err := r.changes(ctx, base, head, paths)
	if err != nil {
		return err
	}
	out.Files, out.Digest = files, digest(files)
	out.Diff, err = r.unified(ctx, files)
	return err
}

// digest covers modes too: a file that becomes executable or a link is another change.
func digest(files []FileChange) string {
	h := sha256.New()
	for _, f := range files {
		fmt.Fprintf(h, "%s\x00%s %s\x00%s %s\n", f.Path, f.OldMode, f.Old, f.NewMode, f.New) //nolint:errcheck // a hash never fails to write
	}
	return "sha256:" + hex.EncodeToString(h.Sum(nil))
}

// changes lists what differs between the trees of two commits, sorted by path. Equal subtrees are not opened.
func (r *Repo) changes(ctx context.Context, a, b plumbing.Hash, paths []string) ([]FileChange, error) {
	if a == b {
		return nil, nil
	}
	old, err := r.treeAt(ctx, a)
	if err != nil {
		return nil, err
	}
	now, err := r.treeAt(ctx, b)
	if err != nil {
		return nil, err
	}
	for _, p := range paths {
		if _, err := splitPath(p); err != nil {
			return nil, err
		}
	}
	d := treeDiff{t: now, paths: paths}
	if old.root.id != now.root.id {
		err = d.dirs(old.root, now.root, "")
	}
	slices.SortFunc(d.files, func(a, b FileChange) int { return strings.Compare(a.Path, b.Path) })
	return d.files, err
}

// treeDiff compares two directories side by side.
type treeDiff struct {
	t     *Tree
	paths []string
	files []FileChange
}

func (d *treeDiff) dirs(old, now *directory, prefix string) error {
	var a, b []*node
	if old != nil {
		a = old.nodes
	}
	if now != nil {
		b = now.nodes
	}
	for len(a) > 0 || len(b) > 0 {
		var x, y *node
		switch {
		case len(b) == 0 || len(a) > 0 && a[0].key() < b[0].key():
			x, a = a[0], a[1:]
		case len(a) == 0 || b[0].key() < a[0].key():
			y, b = b[0], b[1:]
		default:
			x, y, a, b = a[0], b[0], a[1:], b[1:]
		}
		if err := d.pair(x, y, prefix); err != nil {
			return err
		}
	}
	return nil
}

// pair compares two entries of one name and kind; one of them may be nil.
func (d *treeDiff) pair(x, y *node, prefix string) error {
	if x != nil && y != nil && x.id == y.id && x.mode == y.mode {
		return nil
	}
	some := x
	if some == nil {
		some = y
	}
	path := prefix + some.name
	if some.mode != filemode.Dir {
		if !wanted(path, d.paths) {
			return nil
		}
		if len(d.files) >= maxChanged {
			return promo.Errorf(promo.CodeConfiguration, "change touches more than %d files", maxChanged)
		}
		f := FileChange{Path: path}
		if x != nil {
			f.Old, f.OldMode = x.id.String(), octal(x.mode)
		}
		if y != nil {
			f.New, f.NewMode = y.id.String(), octal(y.mode)
		}
		d.files = append(d.files, f)
		return nil
	}
	if !wanted(path, d.paths) && !leads(path, d.paths) {
		return nil
	}
	var subs [2]*directory
	for i, n := range []*node{x, y} {
		if n == nil {
			continue
		}
		var err error
		if subs[i], err = d.t.open(n); err != nil {
			return err
		}
	}
	return d.dirs(subs[0], subs[1], path+"/")
}

// wanted reports whether a path is one of paths or below one; leads, whether one of them is below it.
func wanted(path string, paths []string) bool {
	return len(paths) == 0 || slices.ContainsFunc(paths, func(p string) bool { return under(path, p) })
}

func leads(path string, paths []string) bool {
	return slices.ContainsFunc(paths, func(p string) bool { return under(p, path) })
}

// unified writes a diff for people, as `git diff` would, within bounds.
func (r *Repo) unified(ctx context.Context, files []FileChange) (string, error) {
	var ids []plumbing.Hash
	for _, f := range files[:min(len(files), maxDiffFiles)] {
		for _, side := range [][2]string{{f.Old, f.OldMode}, {f.New, f.NewMode}} {
			if side[0] != "" && side[1] != octal(filemode.Submodule) {
				ids = append(ids, plumbing.NewHash(side[0]))
			}
		}
	}
	objects, err := r.objects(ctx, ids...)
	if err != nil {
		return "", err
	}
	blobs := map[string][]byte{}
	for i, id := range ids {
		blobs[id.String()] = objects[i].data
	}
	var b bytes.Buffer
	for i, f := range files {
		if b.Len() > r.opts.MaxDiff || i >= maxDiffFiles {
			fmt.Fprintf(&b, "… and %d more files\n", len(files)-i)
			break
		}
		one := fileDiff(f, blobs)
		if b.Len()+len(one) > r.opts.MaxDiff && b.Len()+len(f.Path) < r.opts.MaxDiff {
			one = fmt.Appendf(nil, "diff --git a/%s b/%s\n(left out: the diff is too long)\n", f.Path, f.Path)
		}
		b.Write(one)
	}
	return b.String(), nil
}

func fileDiff(f FileChange, blobs map[string][]byte) []byte {
	var b bytes.Buffer
	fmt.Fprintf(&b, "diff --git a/%s b/%s\n", f.Path, f.Path)
	oldName, newName := "a/"+f.Path, "b/"+f.Path
	switch {
	case f.Old == "":
		fmt.Fprintf(&b, "new file mode %s\n", f.NewMode)
		oldName = "/dev/null"
	case f.New == "":
		fmt.Fprintf(&b, "deleted file mode %s\n", f.OldMode)
		newName = "/dev/null"
	case f.OldMode != f.NewMode:
		fmt.Fprintf(&b, "old mode %s\nnew mode %s\n", f.OldMode, f.NewMode)
	}
	if f.Old == f.New {
		return b.Bytes()
	}
	old, now := blobs[f.Old], blobs[f.New]
	switch {
	case f.OldMode == octal(filemode.Submodule) || f.NewMode == octal(filemode.Submodule):
		fmt.Fprintf(&b, "submodule %s to %s\n", f.Old, f.New)
	case isBinary(old) || isBinary(now):
		fmt.Fprintf(&b, "Binary files %s and %s differ\n", oldName, newName)
	case len(old) > maxDiffFile || len(now) > maxDiffFile:
		fmt.Fprintf(&b, "Files %s and %s differ (%d and %d bytes)\n", oldName, newName, len(old), len(now))
	default:
		_, hunks, _ := bytes.Cut(diff.Diff(oldName, old, newName, now), []byte("\n")) // its first line is not Git's
		b.Write(hunks)
	}
	return b.Bytes()
}

// clash reports whether two branches have changed the same file, differently, since they parted.
func (r *Repo) clash(ctx context.Context, a, b plumbing.Hash) (bool, error) {
	how, err := r.paint(ctx, a, b)
	if err != nil || how.base.IsZero() || how.base == a || how.base == b {
		return how.base.IsZero() && err == nil, err
	}
	ours, err := r.changes(ctx, how.base, a, nil)
	if err != nil {
		return false, err
	}
	theirs, err := r.changes(ctx, how.base, b, nil)
	if err != nil {
		return false, err
	}
	at := map[string]FileChange{}
	for _, f := range ours {
		at[f.Path] = f
	}
	return slices.ContainsFunc(theirs, func(f FileChange) bool {
		o, ok := at[f.Path]
		return ok && (o.New != f.New || o.NewMode != f.NewMode)
	}), nil
}

func joinPath(names []string) string { return strings.Join(names, "/") }
