// Package yamledit changes single values in YAML (and JSON) text and keeps every other byte: comments, order,
// quotes, indentation, line ends, anchors, other documents. It never re-encodes a file: it parses for
// positions, splices the bytes of exactly one value, parses again and compares the result with the old tree
// in which just that value changed. A result that differs in anything else is an Internal error, never output.
//
// It must not know of files, Git or pipelines: bytes in, bytes out.
//
// # Paths
//
// "image.tag", `list[0].x`, `list[name=web].image`, `metadata.annotations."davit.dev/promote"`. A prefix
// "$[1]." names a document of a stream by index; without it the one document that has the path's first key
// is meant, else the first.
//
// # Anchors
//
// A path that leads through an alias, or to one, is refused: the value lives elsewhere and others share it.
// A value that carries an anchor itself, or lies below one, may be changed where it is written; the anchor
// stays. A key that is only inherited by a merge key ("<<") is overridden by an own key.
//
// Start reading at Set, then file.places in layout.go.
package yamledit

import (
	"gopkg.in/yaml.v3"

	"github.com/davit-cd/davit/internal/promo"
)

// MaxBytes bounds the text that is read; a larger one is a Configuration error.
const MaxBytes = 5 << 20

// Raw is the exact source text of a scalar or flow collection, quotes included. Set puts it in as it is.
// Position.Raw of an earlier Get, set back, restores the original bytes whatever their style was.
type Raw string

// Position is where a value stands in the text.
type Position struct {
	// Line and Column count from 1; columns count characters.
	Line, Column int
	// Raw is the value's source text without anchor and tag; empty for a value that isn't written at all.
	Raw Raw
}

// Set gives the value at path a new value and returns the new text. The quoting style of the old scalar is
// kept where the new value allows it; a string that would read as another type is quoted. Missing map keys
// are made in the style of their neighbours. If the value is already equal, src itself is returned.
//
// A value is nil, a bool, a number, a string, a time.Time, Raw, or a map[string]any or []any of those. A value
// of another kind than the one it replaces (a map for a scalar) is a Configuration error that names line and
// column; only null may become anything.
func Set(src []byte, path string, value any) ([]byte, error) {
	return edit(src, path, func(e *editor) error { return e.set(value) })
}

// Remove deletes the map entry or list item at path, with the comment on its own line. An absent one is a
// NotFound error. A collection that loses its last entry becomes empty ({} or []).
func Remove(src []byte, path string) ([]byte, error) {
	return edit(src, path, (*editor).remove)
}

// Append adds an item to the end of the list at path, in the list's own style; an absent list is made.
func Append(src []byte, path string, value any) ([]byte, error) {
	return edit(src, path, func(e *editor) error { return e.append(value) })
}

// Get returns the value at path as Go values (aliases and merge keys resolved) and where it stands. An absent
// one is a NotFound error. The path "$" is the whole document.
func Get(src []byte, path string) (any, Position, error) {
	p, err := parsePath(path)
	if err != nil {
		return nil, Position{}, err
	}
	f, err := parseFile(src)
	if err != nil {
		return nil, Position{}, err
	}
	doc, err := f.document(p)
	if err != nil {
		return nil, Position{}, err
	}
	node, err := lookup(doc, p)
	if err != nil {
		return nil, Position{}, err
	}
	pos := Position{Line: node.Line, Column: node.Column}
	if pl, err := f.walk(doc, p); err == nil && len(pl.rest) == 0 {
		s, serr := f.span(pl.place)
		if serr != nil {
			return nil, Position{}, serr
		}
		pos.Raw = Raw(src[s.content:s.end])
	}
	var v any
	if err := node.Decode(&v); err != nil {
		return nil, pos, promo.Errorf(promo.CodeConfiguration, "line %d: %w", node.Line, err)
	}
	return v, pos, nil
}

// lookup finds the node at the path for reading: aliases are followed and merge keys looked into.
func lookup(doc *yaml.Node, p path) (*yaml.Node, error) {
	n := doc
	if doc.Kind == yaml.DocumentNode {
		n = doc.Content[0]
	}
	for i, s := range p.segments {
		n = resolveAlias(n)
		var child *yaml.Node
		switch {
		case s.isKey() && n.Kind == yaml.MappingNode:
			child = lookupKey(n, s.key, 0)
		case !s.isKey() && n.Kind == yaml.SequenceNode:
			idx, err := s.find(n)
			if err != nil {
				return nil, at(err, p.upTo(i))
			}
			child = n.Content[idx]
		}
		if child == nil {
			return nil, promo.Errorf(promo.CodeNotFound, "line %d: %q has no %s", n.Line, p.upTo(i), s.describe())
		}
		n = child
	}
	return resolveAlias(n), nil
}

func resolveAlias(n *yaml.Node) *yaml.Node {
	for n.Kind == yaml.AliasNode && n.Alias != nil {
		n = n.Alias
	}
	return n
}

// lookupKey finds a key, an own one before an inherited one. The depth bounds merge keys of merge keys.
func lookupKey(m *yaml.Node, key string, depth int) *yaml.Node {
	if m.Kind != yaml.MappingNode || depth > 100 {
		return nil
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if isKey(m.Content[i], key) {
			return m.Content[i+1]
		}
	}
	for i := 0; i+1 < len(m.Content); i += 2 {
		if !isMerge(m.Content[i]) {
			continue
		}
		from := resolveAlias(m.Content[i+1])
		sources := []*yaml.Node{from}
		if from.Kind == yaml.SequenceNode {
			sources = from.Content
		}
		for _, s := range sources {
			if v := lookupKey(resolveAlias(s), key, depth+1); v != nil {
				return v
			}
		}
	}
	return nil
}

func isKey(k *yaml.Node, key string) bool {
	return k.Kind == yaml.ScalarNode && k.Value == key && !isMerge(k)
}

func isMerge(k *yaml.Node) bool { return k.Kind == yaml.ScalarNode && k.ShortTag() == "!!merge" }
