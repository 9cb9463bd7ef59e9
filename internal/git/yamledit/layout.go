package yamledit

import (
	"bytes"
	"unicode/utf8"

	"gopkg.in/yaml.v3"
)

// place is a node and what is known of its surroundings in the text.
type place struct {
	node *yaml.Node
	// slot is where the value may begin: just behind the ":" or "-" that introduces it.
	slot int
	// colon tells, for the value of a map, whether there is a ":".
	colon bool
	// indent is the column (from 0) of the innermost block collection around, -1 at the top.
	indent int
	// flow is set inside {} and [].
	flow bool
}

// span is the extent of a node in bytes.
type span struct {
	start   int // at anchor and tag, where there are any
	props   int // behind anchor and tag; equal to start without
	content int // at the value itself
	end     int // behind the value
}

// entry is one pair of a map or one item of a list.
type entry struct {
	start int // at the key, the "?" or the "-"
	end   int
	key   place // map only
	value place
}

// collection is the layout of a map or list.
type collection struct {
	span
	entries []entry
	flow    bool // written with brackets
	column  int  // of keys or dashes, from 0
}

// unwritten reports whether the node has no text of its own ("key:" without a value).
func unwritten(n *yaml.Node) bool {
	return n.Kind == yaml.ScalarNode && n.Value == "" && n.Style&^yaml.TaggedStyle == 0
}

// span computes the extent of a node. The parser tells only where a node starts; its end follows from the
// rules of its style.
func (f *file) span(p place) (span, error) {
	if p.node.Kind == yaml.MappingNode || p.node.Kind == yaml.SequenceNode {
		c, err := f.collection(p)
		return c.span, err
	}
	s, err := f.begin(p)
	if err != nil {
		return s, err
	}
	if unwritten(p.node) {
		s.content, s.end = s.props, s.props
		return s, nil
	}
	var end int
	var ok bool
	switch {
	case p.node.Kind == yaml.AliasNode:
		end, ok = s.content+1+len(p.node.Value), f.at(s.content) == '*'
	case p.node.Style&yaml.DoubleQuotedStyle != 0:
		end, ok = f.doubleQuoted(s.content)
	case p.node.Style&yaml.SingleQuotedStyle != 0:
		end, ok = f.singleQuoted(s.content)
	case p.node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		b := f.block(s.content, p.indent)
		end, ok = b.end, true
	default:
		end, ok = f.plain(s.content, p.node.Value)
	}
	if !ok || end > len(f.src) {
		return s, f.lost(p.node.Line, p.node.Column)
	}
	s.end = end
	return s, nil
}

// begin finds where a node starts and passes its anchor and tag.
func (f *file) begin(p place) (span, error) {
	if unwritten(p.node) && p.node.Anchor == "" && p.node.Style&yaml.TaggedStyle == 0 {
		return span{start: p.slot, props: p.slot, content: p.slot, end: p.slot}, nil
	}
	start, err := f.offset(p.node.Line, p.node.Column)
	if err != nil {
		return span{}, err
	}
	s := span{start: start, props: start, content: start, end: start}
	anchor, tag := p.node.Anchor != "", true
	for {
		i := f.skip(s.content)
		switch {
		case anchor && f.at(i) == '&':
			anchor = false
			s.props = i + 1 + len(p.node.Anchor)
		case tag && f.at(i) == '!' && (p.node.Kind == yaml.ScalarNode || p.node.Style&yaml.TaggedStyle != 0):
			tag = false
			s.props = f.tagEnd(i)
		default:
			s.content = i
			return s, nil
		}
		s.content = s.props
	}
}

func (f *file) tagEnd(i int) int {
	verbatim := f.at(i+1) == '<'
	for ; i < len(f.src) && f.spaceAt(i) == 0; i++ {
		if verbatim && f.src[i] == '>' {
			return i + 1
		}
		if !verbatim && bytes.IndexByte([]byte(",[]{}"), f.src[i]) >= 0 {
			break
		}
	}
	return i
}

func (f *file) doubleQuoted(i int) (int, bool) {
	if f.at(i) != '"' {
		return i, false
	}
	for i++; i < len(f.src); i++ {
		switch f.src[i] {
		case '\\':
			i++
		case '"':
			return i + 1, true
		}
	}
	return i, false
}

func (f *file) singleQuoted(i int) (int, bool) {
	if f.at(i) != '\'' {
		return i, false
	}
	for i++; i < len(f.src); i++ {
		if f.src[i] != '\'' {
			continue
		}
		if f.at(i+1) != '\'' {
			return i + 1, true
		}
		i++
	}
	return i, false
}

// plain finds the end of an unquoted scalar, also of several lines: without its white space the source is
// the value without its white space, for plain scalars know neither escapes nor comments.
func (f *file) plain(i int, value string) (int, bool) {
	v := &file{src: []byte(value)}
	for j := 0; j < len(v.src); {
		if n := v.spaceAt(j); n > 0 {
			j += n
			continue
		}
		for n := f.spaceAt(i); n > 0; n = f.spaceAt(i) {
			i += n
		}
		_, n := utf8.DecodeRune(v.src[j:])
		if !bytes.HasPrefix(f.src[min(i, len(f.src)):], v.src[j:j+n]) {
			return i, false
		}
		i, j = i+n, j+n
	}
	return i, true
}

// blockScalar is the layout of a literal or folded scalar.
type blockScalar struct {
	header int // behind the indicators ("|2-")
	body   int // start of the first line below the header
	end    int // behind the last line's text
	indent int // of the content
	digit  bool
	chomp  byte // '+', '-' or 0
}

// block follows the parser's own rules for the indentation and the end of a block scalar.
func (f *file) block(i, parent int) blockScalar {
	var b blockScalar
	for i++; ; i++ {
		c := f.at(i)
		if c >= '1' && c <= '9' {
			b.indent, b.digit = max(parent, 0)+int(c-'0'), true
		} else if c == '+' || c == '-' {
			b.chomp = c
		} else {
			break
		}
	}
	b.header, b.end = i, f.lineEnd(i)
	b.body = f.nextLine(i)
	if !b.digit {
		b.indent = f.contentIndent(b.body, parent)
	}
	for line := b.body; line < len(f.src); line = f.nextLine(line) {
		col := line
		for f.at(col) == ' ' && col-line < b.indent {
			col++
		}
		empty := f.breakAt(col) > 0 || col == len(f.src)
		if !empty && col-line < b.indent {
			break
		}
		if !empty || (b.chomp == '+' && col < len(f.src)) {
			b.end = f.lineEnd(line)
		}
	}
	return b
}

// contentIndent is the indentation that the parser detects: the deepest of the leading empty lines and the
// first line with text, at least one more than the parent's.
func (f *file) contentIndent(line, parent int) int {
	deepest := 0
	for line < len(f.src) {
		col := line
		for f.at(col) == ' ' {
			col++
		}
		deepest = max(deepest, col-line)
		if f.breakAt(col) == 0 {
			break
		}
		line = f.nextLine(line)
	}
	return max(deepest, parent+1, 1)
}

// collection computes the layout of a map or list with all its entries.
func (f *file) collection(p place) (collection, error) {
	s, err := f.begin(p)
	c := collection{span: s}
	if err != nil {
		return c, err
	}
	open := f.at(s.content)
	c.flow = p.node.Style&yaml.FlowStyle != 0 && (open == '{' && p.node.Kind == yaml.MappingNode || open == '[' && p.node.Kind == yaml.SequenceNode)
	at := place{indent: p.indent, flow: p.flow || c.flow}
	pos := s.content
	if c.flow {
		pos++
	} else {
		_, column := f.position(s.content)
		c.column = column - 1
		if !p.flow {
			at.indent = c.column
		}
	}
	for i := 0; i < len(p.node.Content); i++ {
		pos = f.skipTo(pos, c.flow)
		var e entry
		if p.node.Kind == yaml.MappingNode {
			e, err = f.pair(pos, at, p.node.Content[i], p.node.Content[i+1])
			i++
		} else {
			e, err = f.item(pos, at, p.node.Content[i], c.flow)
		}
		if err != nil {
			return c, err
		}
		c.entries = append(c.entries, e)
		pos = e.end
	}
	if c.flow {
		pos = f.skipTo(pos, true)
		if want := open + 2; f.at(pos) != want { // '{'+2 is '}', '['+2 is ']'
			return c, f.lostAt(pos)
		}
		pos++
	}
	c.end = pos
	return c, nil
}

// skipTo passes white space and comments, and in flow collections the commas.
func (f *file) skipTo(i int, flow bool) int {
	i = f.skip(i)
	for flow && f.at(i) == ',' {
		i = f.skip(i + 1)
	}
	return i
}

func (f *file) pair(pos int, at place, k, v *yaml.Node) (entry, error) {
	e := entry{start: pos, key: at, value: at}
	e.key.node, e.value.node = k, v
	e.key.slot = pos
	if f.at(pos) == '?' && (f.spaceAt(pos+1) > 0 || pos+1 == len(f.src)) {
		e.key.slot = pos + 1
	}
	ks, err := f.span(e.key)
	if err != nil {
		return e, err
	}
	e.value.slot, e.end = ks.end, ks.end
	if i := f.skip(ks.end); f.at(i) == ':' {
		e.value.slot, e.value.colon = i+1, true
	}
	vs, err := f.span(e.value)
	e.end = vs.end
	return e, err
}

func (f *file) item(pos int, at place, n *yaml.Node, flow bool) (entry, error) { //nolint:revive // a fact about what is written, not a mode
	e := entry{start: pos, value: at}
	e.value.node, e.value.slot = n, pos
	if !flow {
		if f.at(pos) != '-' {
			return e, f.lostAt(pos)
		}
		e.value.slot = pos + 1
	}
	s, err := f.span(e.value)
	e.end = s.end
	return e, err
}
