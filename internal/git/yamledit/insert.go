package yamledit

import (
	"slices"
	"strings"

	"gopkg.in/yaml.v3"
)

// insert adds a pair (or, without a key, an item) at the end of the collection at the end of the path.
func (e *editor) insert(key, value *yaml.Node) error {
	p := e.w.place
	c, err := e.f.collection(p)
	if err != nil {
		return err
	}
	if p.flow && !c.flow {
		return e.kindErrorHint(p.node, "write it with braces", "%q is a pair without braces inside a list", e.here())
	}
	e.expect = func() {
		if key != nil {
			e.grown = p.node
			p.node.Content = append(p.node.Content, key)
		}
		p.node.Content = append(p.node.Content, value)
	}
	r := e.f.renderer(e.doc, p)
	r.neighbours(p.node)
	if c.flow {
		e.way(e.f.insertFlow(c, r, key, value)...)
		return nil
	}
	text := "- " + r.blockText(value, c.column+2)
	if key != nil {
		text = r.pair(key, value, c.column)
	}
	indent := strings.Repeat(" ", c.column)
	last := c.entries[len(c.entries)-1]
	e.way(e.f.lineAfter(last.end, indent+text))
	if at := e.f.lineStart(last.start); key != nil && e.f.blank(at, last.start) {
		// A last value that runs to the end of the text (a block scalar without a final line break) would
		// grow by what follows; before it there is room.
		e.way(splice{at, at, indent + text + e.f.eol})
	}
	if fix, ok := e.f.stripLast(last.value); ok {
		e.way(fix, e.f.lineAfter(last.end, indent+text))
	}
	return nil
}

// stripLast makes a block scalar that ends the text without a final line break say so ("|-"), so that lines
// may follow and its value stays.
func (f *file) stripLast(p place) (splice, bool) {
	for p.node.Kind == yaml.MappingNode || p.node.Kind == yaml.SequenceNode {
		c, err := f.collection(p)
		if err != nil || c.flow || len(c.entries) == 0 {
			return splice{}, false
		}
		p = c.entries[len(c.entries)-1].value
	}
	s, err := f.span(p)
	if err != nil || p.node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) == 0 {
		return splice{}, false
	}
	b := f.block(s.content, p.indent)
	header := string(f.src[s.content:b.header])
	return splice{s.content, b.header, chomped(header, "-")}, s.end == len(f.src)
}

// lineAfter inserts a line below the one that holds i and keeps a missing final line break missing.
func (f *file) lineAfter(i int, line string) splice {
	end := f.lineEnd(i)
	if n := f.breakAt(end); n > 0 {
		return splice{end + n, end + n, line + f.eol}
	}
	return splice{end, end, f.eol + line}
}

// insertFlow adds an entry inside brackets, on a line of its own where the last one has one.
func (f *file) insertFlow(c collection, r renderer, key, value *yaml.Node) []splice {
	text := r.flowText(value)
	if key != nil {
		text = r.flowPair(key, value, f.tightColon(c))
	}
	if len(c.entries) == 0 {
		return []splice{{c.content + 1, c.content + 1, text}}
	}
	last := c.entries[len(c.entries)-1]
	comma := f.skip(last.end)
	trailing := f.at(comma) == ','
	line := f.lineStart(last.start)
	if line > c.content && f.blank(line, last.start) {
		at := last.end
		if trailing {
			at = comma + 1
			text += ","
		}
		if f.lineStart(c.end-1) != f.lineStart(at) {
			at = f.lineEnd(at)
		}
		text = f.eol + string(f.src[line:last.start]) + text
		if trailing {
			return []splice{{at, at, text}}
		}
		return []splice{{last.end, last.end, ","}, {at, at, text}}
	}
	if trailing {
		return []splice{{comma + 1, comma + 1, " " + text}}
	}
	return []splice{{last.end, last.end, f.comma(c) + text}}
}

// comma returns the separator that the collection uses between its entries.
func (f *file) comma(c collection) string {
	if n := len(c.entries); n > 1 && c.entries[n-2].end+1 == c.entries[n-1].start {
		return ","
	}
	return ", "
}

// tightColon reports whether the last pair is written without a space behind its colon ("a":1).
func (f *file) tightColon(c collection) bool {
	if len(c.entries) == 0 {
		return false
	}
	v := c.entries[len(c.entries)-1].value
	return v.colon && f.spaceAt(v.slot) == 0 && !unwritten(v.node)
}

// remove deletes the entry at the end of the path.
func (e *editor) remove() error {
	if len(e.p.segments) == 0 {
		return e.kindError(e.doc, "a whole document can't be removed")
	}
	if len(e.w.rest) > 0 {
		return e.absent()
	}
	p := e.w.place
	if err := e.sharedBelow(p.node, true); err != nil {
		return err
	}
	parent, index := e.w.parent, e.w.index
	c, err := e.f.collection(parent)
	if err != nil {
		return err
	}
	if parent.flow && !c.flow {
		return e.kindErrorHint(parent.node, "write it with braces", "%q is a pair without braces inside a list", e.p.text)
	}
	e.expect = func() {
		width := 1
		if parent.node.Kind == yaml.MappingNode {
			width = 2
		}
		parent.node.Content = slices.Delete(parent.node.Content, index*width, (index+1)*width)
	}
	switch {
	case len(c.entries) == 1:
		e.way(e.f.emptied(parent, c)...)
	case c.flow:
		e.way(e.f.removeFlow(c, index)...)
	default:
		e.removeBlock(c, index)
	}
	return nil
}

// absent says why there is nothing to remove.
func (e *editor) absent() error {
	n := e.w.place.node
	if n.Kind == yaml.AliasNode {
		return e.aliasError(n)
	}
	if n.Kind == yaml.MappingNode && e.w.rest[0].isKey() {
		if v := lookupKey(n, e.w.rest[0].key, 0); v != nil {
			return e.kindErrorHint(n, "change it at line "+itoa(v.Line), "%q has %s only from a merge key",
				e.here(), e.w.rest[0].describe())
		}
	}
	return notFound(n, e.here(), e.w.rest[0])
}

// removeBlock deletes the entry's lines; the first entry of a nested collection ("- a: 1") leaves the rest
// of its line to the next one.
func (e *editor) removeBlock(c collection, index int) {
	f, it := e.f, c.entries[index]
	line := f.lineStart(it.start)
	if f.blank(line, it.start) {
		end := f.nextLine(it.end)
		if end == len(f.src) && f.lineEnd(it.end) == end && line > 0 {
			e.way(splice{f.breakBefore(line), end, ""}) // a missing final line break stays missing
		}
		e.way(splice{line, end, ""})
		return
	}
	if index+1 < len(c.entries) && f.blank(it.end, c.entries[index+1].start) {
		e.way(splice{it.start, c.entries[index+1].start, ""})
		return
	}
	e.way(splice{it.start, it.end, ""})
}

// breakBefore returns where the line break in front of a line starts.
func (f *file) breakBefore(line int) int {
	for n := 1; n <= 3 && n <= line; n++ {
		if f.breakAt(line-n) == n && (n > 1 || f.breakAt(line-2) != 2 || line < 2) {
			return line - n
		}
	}
	return line
}

func (f *file) removeFlow(c collection, index int) []splice {
	it := c.entries[index]
	if index+1 < len(c.entries) {
		next := c.entries[index+1].start
		comma := f.skip(it.end)
		if f.blank(it.end, comma) && f.blank(comma+1, next) {
			return []splice{{it.start, next, ""}}
		}
		return []splice{{it.start, it.end, ""}, {comma, comma + 1, ""}}
	}
	prev := c.entries[index-1].end
	comma := f.skip(prev)
	if f.blank(prev, comma) && f.blank(comma+1, it.start) {
		return []splice{{prev, it.end, ""}}
	}
	return []splice{{comma, comma + 1, ""}, {it.start, it.end, ""}}
}

// emptied writes {} or [] for a collection that has lost its last entry.
func (f *file) emptied(p place, c collection) []splice {
	empty := "{}"
	if p.node.Kind == yaml.SequenceNode {
		empty = "[]"
	}
	if c.flow {
		return []splice{{c.content + 1, c.end - 1, ""}}
	}
	line := f.lineStart(c.content)
	if p.indent < 0 || line <= p.slot || !f.blank(line, c.content) {
		return []splice{{c.content, c.end, empty}}
	}
	at := p.slot
	if c.props > c.start {
		at = c.props
	}
	end := f.nextLine(c.end)
	if end == len(f.src) && f.lineEnd(c.end) == end {
		line = f.breakBefore(line)
	}
	return []splice{{at, at, " " + empty}, {line, end, ""}}
}
