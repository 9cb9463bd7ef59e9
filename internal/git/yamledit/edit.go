package yamledit

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/davit-cd/davit/internal/promo"
)

// splice replaces the bytes from..to.
type splice struct {
	from, to int
	text     string
}

// editor makes one edit. It collects ways to write it, best first; the first that reads back as expected wins.
type editor struct {
	f      *file
	p      path
	doc    *yaml.Node
	w      walked
	ways   [][]splice
	expect func()     // changes the parsed tree to what the new text must mean
	raw    *yaml.Node // replaced by source text: only its surroundings are compared
	grown  *yaml.Node // the map that gets a new pair
}

// edit runs one edit on the text and verifies its result.
func edit(src []byte, text string, change func(*editor) error) ([]byte, error) {
	p, err := parsePath(text)
	if err != nil {
		return nil, err
	}
	f, err := parseFile(src)
	if err != nil {
		return nil, err
	}
	e := &editor{f: f, p: p}
	if e.doc, err = f.document(p); err != nil {
		return nil, err
	}
	if e.w, err = f.walk(e.doc, p); err != nil {
		return nil, err
	}
	if err := change(e); err != nil {
		return nil, err
	}
	if len(e.ways) == 0 {
		return src, nil
	}
	return e.apply()
}

// apply tries the ways in order.
func (e *editor) apply() ([]byte, error) {
	e.expect()
	var last error
	for _, way := range e.ways {
		out, err := e.f.splice(way)
		if err == nil {
			err = e.verify(out)
		}
		if err == nil {
			return out, nil
		}
		last = err
	}
	if promo.CodeOf(last) == promo.CodeConfiguration {
		return nil, last
	}
	return nil, promo.Errorf(promo.CodeInternal, "setting %q would change more than that: %w", e.p.text, last).
		WithHint("nothing was changed; write the value there in a simpler style")
}

// splice applies replacements that don't overlap.
func (f *file) splice(way []splice) ([]byte, error) {
	way = slices.Clone(way)
	slices.SortStableFunc(way, func(a, b splice) int { return a.from - b.from })
	var out bytes.Buffer
	pos := 0
	for _, s := range way {
		if s.from < pos || s.to < s.from || s.to > len(f.src) {
			return nil, f.lostAt(s.from)
		}
		out.Write(f.src[pos:s.from])
		out.WriteString(s.text)
		pos = s.to
	}
	out.Write(f.src[pos:])
	return out.Bytes(), nil
}

func (e *editor) way(s ...splice) { e.ways = append(e.ways, s) }

// kindError says that a value is of another kind than the path or the new value wants.
func (e *editor) kindError(n *yaml.Node, format string, a ...any) error {
	return promo.Errorf(promo.CodeConfiguration, "line %d, column %d: %s", n.Line, n.Column, fmt.Sprintf(format, a...))
}

// set writes the value, making the map keys that are missing.
func (e *editor) set(value any) error {
	if raw, ok := value.(Raw); ok {
		return e.setRaw(raw)
	}
	want, err := toNode(value)
	if err != nil {
		return err
	}
	return e.setNode(want)
}

func (e *editor) setNode(want *yaml.Node) error {
	if len(e.w.rest) == 0 {
		return e.replace(want)
	}
	if err := e.inherited(); err != nil {
		return err
	}
	for i := len(e.w.rest) - 1; i > 0; i-- {
		if !e.w.rest[i].isKey() {
			return e.missing()
		}
		want = mapNode(e.w.rest[i].key, want)
	}
	if !e.w.rest[0].isKey() {
		return e.missing()
	}
	key, n := e.w.rest[0].key, e.w.place.node
	switch {
	case isNull(n):
		return e.replace(mapNode(key, want))
	case n.Kind == yaml.MappingNode:
		return e.insert(keyNode(key), want)
	}
	return e.notThrough(n)
}

// inherited refuses to make a map that would hide an inherited one of the same key.
func (e *editor) inherited() error {
	n := e.w.place.node
	if n.Kind != yaml.MappingNode || len(e.w.rest) < 2 || !e.w.rest[0].isKey() {
		return nil
	}
	if v := lookupKey(n, e.w.rest[0].key, 0); v != nil {
		return e.kindErrorHint(n, "set it at line "+itoa(v.Line)+", or give the map an own one as a whole",
			"key %q of %q comes from a merge key", e.w.rest[0].key, e.here())
	}
	return nil
}

// here names the deepest place of the path that exists.
func (e *editor) here() string { return e.p.upTo(len(e.p.segments) - len(e.w.rest)) }

func (e *editor) missing() error {
	i := slices.IndexFunc(e.w.rest, func(s segment) bool { return !s.isKey() })
	return promo.Errorf(promo.CodeNotFound, "line %d: %q has no list for %s of path %q", e.w.place.node.Line, e.here(),
		e.w.rest[i], e.p.text).WithHint("list items are only made by append")
}

func (e *editor) notThrough(n *yaml.Node) error {
	if n.Kind == yaml.AliasNode {
		return e.aliasError(n)
	}
	return e.kindError(n, "%q is %s, so it has no %s", e.here(), kindName(n), e.w.rest[0].describe())
}

func (e *editor) aliasError(n *yaml.Node) error {
	line := n.Line
	if n.Alias != nil {
		line = n.Alias.Line
	}
	return e.kindErrorHint(n, "the anchored value at line "+itoa(line)+" is shared; change it there",
		"%q is the alias *%s", e.here(), n.Value)
}

// setRaw puts source text in the place of a scalar or flow collection.
func (e *editor) setRaw(raw Raw) error {
	p := e.w.place
	if len(e.w.rest) > 0 {
		return promo.Errorf(promo.CodeNotFound, "line %d: %q has no %s", p.node.Line, e.here(), e.w.rest[0].describe())
	}
	if p.node.Kind == yaml.AliasNode {
		return e.aliasError(p.node)
	}
	s, err := e.f.span(p)
	if err != nil {
		return err
	}
	if string(e.f.src[s.content:s.end]) == string(raw) {
		return nil
	}
	if err := e.sharedBelow(p.node, false); err != nil {
		return err
	}
	e.raw, e.expect = p.node, func() {}
	switch {
	case raw == "" && p.slot > 0:
		from := p.slot
		if s.props > s.start {
			from = s.props
		}
		e.way(splice{from, s.end, ""})
	case unwritten(p.node):
		e.writeUnwritten(p, s, string(raw))
	default:
		e.way(splice{s.content, s.end, string(raw)})
	}
	return nil
}

// writeUnwritten gives "key:" a value on its own line.
func (e *editor) writeUnwritten(p place, s span, text string) {
	if !p.colon && p.flow {
		text = ":" + " " + text
	} else {
		text = " " + text
	}
	e.way(splice{s.props, s.props, text})
}

// sharedBelow refuses to throw away a value that others refer to.
func (e *editor) sharedBelow(n *yaml.Node, itself bool) error { //nolint:revive // a fact about what is written, not a mode
	lost := map[*yaml.Node]bool{}
	inside := map[*yaml.Node]bool{}
	visit(n, func(c *yaml.Node) {
		inside[c] = true
		if c.Anchor != "" && (itself || c != n) {
			lost[c] = true
		}
	})
	if len(lost) == 0 {
		return nil
	}
	var err error
	visit(e.doc, func(c *yaml.Node) {
		if err == nil && c.Kind == yaml.AliasNode && lost[c.Alias] && !inside[c] {
			err = e.kindErrorHint(c.Alias, "the alias at line "+itoa(c.Line)+" needs it",
				"the anchor &%s would be lost", c.Alias.Anchor)
		}
	})
	return err
}

func visit(n *yaml.Node, fn func(*yaml.Node)) {
	fn(n)
	for _, c := range n.Content {
		visit(c, fn)
	}
}

// append adds an item to a list.
func (e *editor) append(value any) error {
	item, err := toNode(value)
	if err != nil {
		return err
	}
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq", Content: []*yaml.Node{item}}
	n := e.w.place.node
	switch {
	case len(e.w.rest) > 0 || isNull(n):
		return e.setNode(list)
	case n.Kind == yaml.AliasNode:
		return e.aliasError(n)
	case n.Kind != yaml.SequenceNode:
		return e.kindError(n, "%q is %s, not a list", e.p.text, kindName(n))
	}
	return e.insert(nil, item)
}

// replace gives the node at the end of the path a new value.
func (e *editor) replace(want *yaml.Node) error {
	p := e.w.place
	old := p.node
	switch {
	case old.Kind == yaml.AliasNode:
		return e.aliasError(old)
	case sameValue(old, want):
		return nil
	case old.Kind != want.Kind && !isNull(old) && (old.Kind != yaml.ScalarNode || !isNull(want)):
		return e.kindErrorHint(old, "set a value below it, or remove it first", "%q is %s; it can't become %s",
			e.p.text, kindName(old), kindName(want))
	}
	if err := e.sharedBelow(old, false); err != nil {
		return err
	}
	tag, err := e.keepTag(old, want)
	if err != nil {
		return err
	}
	s, err := e.f.span(p)
	if err != nil {
		return err
	}
	e.expect = func() {
		anchor := old.Anchor
		*old = *want
		old.Anchor, old.Tag = anchor, tag
	}
	switch {
	case want.Kind == yaml.ScalarNode:
		e.replaceScalar(p, s, want)
	case isNull(old):
		e.fillNull(p, s, want)
	default:
		return e.replaceCollection(p, want)
	}
	return nil
}

// keepTag decides about an explicit tag: one of YAML's own must fit the new value, others (!vault) stay.
func (e *editor) keepTag(old, want *yaml.Node) (string, error) {
	if old.Style&yaml.TaggedStyle == 0 {
		return want.Tag, nil
	}
	tag := old.ShortTag()
	if !strings.HasPrefix(tag, "!!") || tag == want.Tag {
		return old.Tag, nil
	}
	return "", e.kindError(old, "%q has the explicit tag %s; the new value is %s", e.p.text, tag, want.Tag)
}

func (e *editor) replaceScalar(p place, s span, want *yaml.Node) {
	for _, text := range e.f.scalarWays(p, s, want) {
		if unwritten(p.node) {
			e.writeUnwritten(p, s, text)
		} else {
			e.way(splice{s.content, s.end, text})
		}
	}
}

// replaceCollection writes a whole map or list anew, in the style (block or flow) of the old one.
func (e *editor) replaceCollection(p place, want *yaml.Node) error {
	c, err := e.f.collection(p)
	if err != nil {
		return err
	}
	r := e.f.renderer(e.doc, p)
	switch {
	case c.flow || p.flow:
		e.way(splice{c.content, c.end, r.flowText(want)})
	case len(want.Content) == 0:
		e.way(e.f.emptied(p, c)...)
	default:
		e.way(splice{c.content, c.end, r.blockText(want, c.column)})
	}
	return nil
}

// fillNull gives an empty value a map or list.
func (e *editor) fillNull(p place, s span, want *yaml.Node) {
	r := e.f.renderer(e.doc, p)
	flow := r.flowText(want)
	if !p.flow && len(want.Content) > 0 {
		e.way(e.f.blockForNull(p, s, want, r)...)
	}
	if unwritten(p.node) {
		e.writeUnwritten(p, s, flow)
	} else {
		e.way(splice{s.content, s.end, flow})
	}
}

// blockForNull writes a block collection where null is, on the lines below a key, beside a dash.
func (f *file) blockForNull(p place, s span, want *yaml.Node, r renderer) []splice {
	if !p.colon && p.indent < 0 { // a whole document
		text := r.blockText(want, 0)
		if f.lineStart(s.content) != s.content {
			return []splice{{s.content, s.end, f.eol + text}}
		}
		return []splice{{s.content, s.end, text + f.eol}}
	}
	if !p.colon { // a list item
		if unwritten(p.node) {
			return []splice{{s.props, s.props, " " + r.blockText(want, p.indent+2)}}
		}
		_, column := f.position(s.content)
		return []splice{{s.content, s.end, r.blockText(want, column-1)}}
	}
	column := p.indent + r.step
	if want.Kind == yaml.SequenceNode {
		column = p.indent + r.dash
	}
	from, least := s.content, p.slot
	if s.props > s.start {
		least = s.props
	}
	for !unwritten(p.node) && from > least && (f.src[from-1] == ' ' || f.src[from-1] == '\t') && f.blank(s.end, f.lineEnd(s.end)) {
		from--
	}
	at := f.lineEnd(s.end)
	return []splice{{from, s.end, ""}, {at, at, f.eol + strings.Repeat(" ", column) + r.blockText(want, column)}}
}
