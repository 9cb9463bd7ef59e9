package git

import (
	"bytes"
	"slices"
	"strconv"
	"strings"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/davit-cd/davit/internal/promo"
)

// node is an entry of a directory. dir is set once a directory has been opened.
type node struct {
	name string
	mode filemode.FileMode
	id   plumbing.Hash
	dir  *directory
}

// key orders entries as Git does: directories as if their names ended in a slash.
func (n *node) key() string {
	if n.mode == filemode.Dir {
		return n.name + "/"
	}
	return n.name
}

// directory is an opened tree object with edits.
type directory struct {
	id    plumbing.Hash // of the object it was read from; zero for a new one
	raw   []byte
	nodes []*node
	dirty bool
}

func parseTree(id plumbing.Hash, raw []byte) (*directory, error) {
	d := &directory{id: id, raw: raw, nodes: make([]*node, 0, bytes.Count(raw, []byte{0})/2+1)}
	broken := func() error { return promo.Errorf(promo.CodeInternal, "tree %s is broken", id) }
	for rest := raw; len(rest) > 0; {
		space := bytes.IndexByte(rest, ' ')
		if space < 0 {
			return nil, broken()
		}
		mode, err := strconv.ParseUint(string(rest[:space]), 8, 32)
		end := bytes.IndexByte(rest, 0)
		if err != nil || end < space || len(rest) < end+21 {
			return nil, broken()
		}
		n := &node{name: string(rest[space+1 : end]), mode: filemode.FileMode(mode)}
		copy(n.id[:], rest[end+1:end+21])
		d.nodes = append(d.nodes, n)
		rest = rest[end+21:]
	}
	return d, nil
}

func (d *directory) encode() []byte {
	var b bytes.Buffer
	b.Grow(len(d.raw) + 64)
	for _, n := range d.nodes {
		b.WriteString(strconv.FormatUint(uint64(n.mode), 8))
		b.WriteByte(' ')
		b.WriteString(n.name)
		b.WriteByte(0)
		b.Write(n.id[:])
	}
	return b.Bytes()
}

// find returns the entry with the name, of whatever kind. Names are unique whatever the kind, but files and
// directories sort apart, so that both places are looked at.
func (d *directory) find(name string) *node {
	for _, key := range []string{name, name + "/"} {
		if i, ok := d.search(key); ok {
			return d.nodes[i]
		}
	}
	return nil
}

func (d *directory) search(key string) (int, bool) {
	return slices.BinarySearchFunc(d.nodes, key, func(n *node, key string) int { return strings.Compare(n.key(), key) })
}

// put inserts or replaces the entry with n's name.
func (d *directory) put(n *node) {
	d.drop(n.name)
	i, _ := d.search(n.key())
	d.nodes = slices.Insert(d.nodes, i, n)
	d.dirty = true
}

func (d *directory) drop(name string) {
	old := d.find(name)
	if old == nil {
		return
	}
	i, _ := d.search(old.key())
	d.nodes = slices.Delete(d.nodes, i, i+1)
	d.dirty = true
}
