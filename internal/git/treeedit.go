package git

import (
	"context"
	"errors"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/davit-cd/davit/internal/promo"
)

// errNoEntry says that a name is not in its directory. It never leaves the package.
var errNoEntry = errors.New("no such entry")

// Prefetch brings the files at or below the paths into the mirror in one request, where Read would make one for
// each. A path that does not exist has none.
func (t *Tree) Prefetch(paths ...string) error {
	var ids []plumbing.Hash
	take := func(e Entry) error {
		if id := plumbing.NewHash(e.ID); e.Kind != KindSubmodule && t.blobs[id] == nil {
			ids = append(ids, id)
		}
		return nil
	}
	for _, p := range paths {
		e, err := t.Stat(p)
		switch {
		case isCode(err, promo.CodeNotFound):
		case err != nil:
			return err
		case e.Kind == KindDir:
			err = t.Walk(p, take)
		default:
			err = take(e)
		}
		if err != nil && !isCode(err, promo.CodeNotFound) {
			return err
		}
	}
	_, err := t.load(ids...)
	return err
}

// lookup finds the entry at a path. Only directories are passed on the way.
func (t *Tree) lookup(names []string) (*node, error) {
	d := t.root
	for i, name := range names {
		n := d.find(name)
		if n == nil {
			return nil, errNoEntry
		}
		if i == len(names)-1 {
			return n, nil
		}
		if err := passable(names[:i+1], n.mode); err != nil {
			return nil, err
		}
		var err error
		if d, err = t.open(n); err != nil {
			return nil, err
		}
	}
	return nil, errNoEntry
}

// passable says whether a path may lead through an entry.
func passable(names []string, mode filemode.FileMode) error {
	p := strings.Join(names, "/")
	switch {
	case mode == filemode.Dir:
		return nil
	case isFile(mode):
		return promo.Errorf(promo.CodeConfiguration, "%q is a file, not a directory", p)
	}
	return notPlain(p, mode)
}

func (t *Tree) open(n *node) (*directory, error) {
	if n.dir == nil {
		d, err := t.openID(n.id)
		if err != nil {
			return nil, err
		}
		n.dir = d
	}
	return n.dir, nil
}

func (t *Tree) openID(id plumbing.Hash) (*directory, error) {
	objects, err := t.load(id)
	if err != nil {
		return nil, err
	}
	if objects[0].kind != plumbing.TreeObject {
		return nil, promo.Errorf(promo.CodeInternal, "object %s is a %s, not a tree", id, objects[0].kind)
	}
	return parseTree(id, objects[0].data)
}

// openDir opens the directory at a path and gives the prefix of what is in it.
func (t *Tree) openDir(path string) (*directory, string, error) {
	names, err := splitPath(path)
	if err != nil || len(names) == 0 {
		return t.root, "", err
	}
	n, err := t.lookup(names)
	if err != nil {
		return nil, "", notFound(path, t.base, err)
	}
	if err := passable(names, n.mode); err != nil {
		return nil, "", err
	}
	d, err := t.open(n)
	return d, strings.Join(names, "/") + "/", err
}

// editable checks a path that is to be written.
func (t *Tree) editable(path string) ([]string, error) {
	if t.readOnly {
		return nil, promo.Errorf(promo.CodeInternal, "the tree of %s is for reading", short(t.base))
	}
	names, err := splitPath(path)
	if err == nil && len(names) == 0 {
		err = promo.Errorf(promo.CodeConfiguration, "%q is the repository's root", path)
	}
	return names, err
}

// put sets the entry at a path, making the directories on the way.
func (t *Tree) put(names []string, n *node) error {
	d := t.root
	for i, name := range names[:len(names)-1] {
		d.dirty = true
		sub := d.find(name)
		if sub == nil {
			sub = &node{name: name, mode: filemode.Dir, dir: &directory{dirty: true}}
			d.put(sub)
		}
		if err := passable(names[:i+1], sub.mode); err != nil {
			return err
		}
		next, err := t.open(sub)
		if err != nil {
			return err
		}
		d = next
	}
	d.put(n)
	return nil
}

// remove drops the entry at a path below d, and the directories that it leaves empty.
func (t *Tree) remove(d *directory, names []string) error {
	if len(names) == 1 {
		d.drop(names[0])
		return nil
	}
	n := d.find(names[0])
	if n == nil {
		return nil
	}
	sub, err := t.open(n)
	if err != nil {
		return err
	}
	if err := t.remove(sub, names[1:]); err != nil {
		return err
	}
	d.dirty = true
	if len(sub.nodes) == 0 {
		d.drop(names[0])
	}
	return nil
}

// CopyFrom makes path equal, byte for byte and mode for mode, to what from is at a commit of the same repository:
// a file, a whole directory (by its id, without reading it), or nothing at all. from "" means path.
func (t *Tree) CopyFrom(ctx context.Context, commit, from, path string) error {
	if from == "" {
		from = path
	}
	source, err := t.source(ctx, commit)
	if err != nil {
		return err
	}
	return t.copyFrom(source, from, path)
}

func (t *Tree) copyFrom(source *Tree, from, path string) error {
	names, err := t.editable(path)
	if err != nil {
		return err
	}
	fromNames, err := splitPath(from)
	if err != nil {
		return err
	}
	n, err := source.lookup(fromNames)
	if errors.Is(err, errNoEntry) {
		if _, err := t.lookup(names); errors.Is(err, errNoEntry) {
			return nil
		}
		return t.Remove(path)
	}
	if err != nil {
		return err
	}
	if !isFile(n.mode) && n.mode != filemode.Dir {
		return notPlain(from, n.mode)
	}
	if old, err := t.lookup(names); err == nil && old.id == n.id && old.mode == n.mode && (old.dir == nil || !old.dir.dirty) {
		return nil
	}
	t.copied = append(t.copied, n.id)
	return t.put(names, &node{name: names[len(names)-1], mode: n.mode, id: n.id})
}

// finish turns the edits into objects and returns the root's id with the new objects, blobs first.
func (t *Tree) finish() (plumbing.Hash, []newObject, error) {
	var out []newObject
	seen := map[plumbing.Hash]bool{}
	var tree func(d *directory) (plumbing.Hash, error)
	tree = func(d *directory) (plumbing.Hash, error) {
		for _, n := range d.nodes {
			if n.dir != nil && n.dir.dirty {
				id, err := tree(n.dir)
				if err != nil {
					return plumbing.ZeroHash, err
				}
				n.id = id
			} else if data, ok := t.blobs[n.id]; ok && !seen[n.id] {
				seen[n.id] = true
				out = append(out, newObject{object: object{kind: plumbing.BlobObject, data: data}, id: n.id})
			}
		}
		o := object{kind: plumbing.TreeObject, data: d.encode()}
		id := o.id()
		if id != d.id && !seen[id] {
			seen[id] = true
			out = append(out, newObject{object: o, id: id, base: d.id, from: d.raw})
		}
		return id, nil
	}
	if !t.root.dirty {
		return t.root.id, nil, nil
	}
	id, err := tree(t.root)
	return id, out, err
}
