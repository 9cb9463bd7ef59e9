package yamledit

import (
	"errors"
	"fmt"
	"strconv"

	"gopkg.in/yaml.v3"

	"github.com/davit-cd/davit/internal/promo"
)

// walked is how far a path leads.
type walked struct {
	place  place // the deepest node that exists
	parent place // the collection around it
	index  int   // the entry of parent that holds it
	rest   []segment
}

// document chooses the document that a path means; text without any gets an empty one.
func (f *file) document(p path) (*yaml.Node, error) {
	if p.doc >= 0 {
		if p.doc >= len(f.docs) {
			return nil, promo.Errorf(promo.CodeNotFound, "path %q: the text has no document %d", p.text, p.doc).
				WithHint("it has %d, counted from 0", len(f.docs))
		}
		return f.docs[p.doc], nil
	}
	if len(f.docs) == 0 {
		line, column := f.position(len(f.src))
		null := &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!null", Line: line, Column: column}
		f.docs = []*yaml.Node{{Kind: yaml.DocumentNode, Line: 1, Column: 1, Content: []*yaml.Node{null}}}
		return f.docs[0], nil
	}
	found := -1
	for i, d := range f.docs {
		if len(p.segments) == 0 || !p.segments[0].isKey() || len(f.docs) == 1 {
			break
		}
		root := d.Content[0]
		if root.Kind != yaml.MappingNode || lookupKey(root, p.segments[0].key, 0) == nil {
			continue
		}
		if found >= 0 {
			return nil, promo.Errorf(promo.CodeConfiguration, "lines %d and %d: two documents have the key %q",
				f.docs[found].Content[0].Line, root.Line, p.segments[0].key).
				WithHint("name the document: $[%d].%s", found, p.upTo(len(p.segments)))
		}
		found = i
	}
	return f.docs[max(found, 0)], nil
}

// walk follows the path as far as it is written in the text; aliases and merge keys are not followed.
func (f *file) walk(doc *yaml.Node, p path) (walked, error) {
	root := doc.Content[0]
	w := walked{place: place{node: root, indent: -1}, rest: p.segments}
	var err error
	if w.place.slot, err = f.offset(root.Line, root.Column); err != nil {
		return w, err
	}
	for len(w.rest) > 0 {
		s, n := w.rest[0], w.place.node
		index := -1
		switch {
		case s.isKey() && n.Kind == yaml.MappingNode:
			if index, err = ownKey(n, s.key); err != nil {
				return w, err
			}
		case !s.isKey() && n.Kind == yaml.SequenceNode:
			if index, err = s.find(n); err != nil {
				return w, at(err, p.upTo(len(p.segments)-len(w.rest)))
			}
		case n.Kind == yaml.SequenceNode:
			return w, promo.Errorf(promo.CodeConfiguration, "line %d, column %d: %q is a list, so it has no %s",
				n.Line, n.Column, p.upTo(len(p.segments)-len(w.rest)), s.describe()).
				WithHint("name the item by [0] or [name=…]")
		case !s.isKey() && n.Kind != yaml.AliasNode && !isNull(n):
			return w, promo.Errorf(promo.CodeConfiguration, "line %d, column %d: %q is %s, so it has no %s",
				n.Line, n.Column, p.upTo(len(p.segments)-len(w.rest)), kindName(n), s.describe())
		}
		if index < 0 {
			return w, nil
		}
		c, err := f.collection(w.place)
		if err != nil {
			return w, err
		}
		w = walked{place: c.entries[index].value, parent: w.place, index: index, rest: w.rest[1:]}
	}
	return w, nil
}

// ownKey returns the index of the pair with the key, -1 if there is none.
func ownKey(m *yaml.Node, key string) (int, error) {
	found := -1
	for i := 0; i+1 < len(m.Content); i += 2 {
		if !isKey(m.Content[i], key) {
			continue
		}
		if found >= 0 {
			return -1, promo.Errorf(promo.CodeConfiguration, "lines %d and %d: the key %q stands twice",
				m.Content[found*2].Line, m.Content[i].Line, key)
		}
		found = i / 2
	}
	return found, nil
}

func isNull(n *yaml.Node) bool { return n.Kind == yaml.ScalarNode && n.ShortTag() == "!!null" }

// kindName describes a node's value for messages.
func kindName(n *yaml.Node) string {
	switch n.Kind {
	case yaml.MappingNode:
		return "a map"
	case yaml.SequenceNode:
		return "a list"
	case yaml.AliasNode:
		return "the alias *" + n.Value
	case yaml.ScalarNode:
		switch n.ShortTag() {
		case "!!str":
			return "a string"
		case "!!int", "!!float":
			return "a number"
		case "!!bool":
			return "a boolean"
		case "!!null":
			return "null"
		}
		return "a " + n.ShortTag() + " value"
	case yaml.DocumentNode:
		return "a document"
	}
	return "nothing"
}

// at adds the place in the path to an error of a segment.
func at(err error, where string) error {
	if e, ok := errors.AsType[*promo.Error](err); ok {
		c := *e
		c.Msg = fmt.Sprintf("%q: %s", where, e.Msg)
		return &c
	}
	return err
}

func notFound(n *yaml.Node, where string, s segment) error {
	return promo.Errorf(promo.CodeNotFound, "line %d: %q has no %s", n.Line, where, s.describe())
}

func itoa(n int) string { return strconv.Itoa(n) }

// kindErrorHint is kindError with a hint.
func (e *editor) kindErrorHint(n *yaml.Node, hint, format string, a ...any) error {
	err := promo.Errorf(promo.CodeConfiguration, "line %d, column %d: %s", n.Line, n.Column, fmt.Sprintf(format, a...))
	return err.WithHint("%s", hint)
}
