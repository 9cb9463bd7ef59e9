package yamledit

import (
	"fmt"
	"sort"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/davit-cd/davit/internal/promo"
)

// path is a parsed path. doc is the document's index, or -1 when the path names none.
type path struct {
	text     string
	doc      int
	segments []segment
}

// segment is one of: a map key, a list index, a list selector [key=value].
type segment struct {
	kind  segmentKind
	key   string
	value string
	index int
}

type segmentKind int

const (
	segKey segmentKind = iota
	segIndex
	segMatch
)

func (s segment) isKey() bool { return s.kind == segKey }

func (s segment) String() string {
	switch s.kind {
	case segIndex:
		return fmt.Sprintf("[%d]", s.index)
	case segMatch:
		return fmt.Sprintf("[%s=%s]", s.key, s.value)
	case segKey:
		if strings.ContainsAny(s.key, `.[]"'$`) || s.key == "" {
			return strconv.Quote(s.key)
		}
		return s.key
	}
	return ""
}

func (s segment) describe() string {
	switch s.kind {
	case segIndex:
		return fmt.Sprintf("item %d", s.index)
	case segMatch:
		return fmt.Sprintf("item with %s %q", s.key, s.value)
	case segKey:
		return fmt.Sprintf("key %q", s.key)
	}
	return ""
}

// upTo prints the first n segments; "$" for none.
func (p path) upTo(n int) string {
	if n == 0 {
		return "$"
	}
	var b strings.Builder
	for i, s := range p.segments[:n] {
		if i > 0 && s.isKey() {
			b.WriteByte('.')
		}
		b.WriteString(s.String())
	}
	return b.String()
}

// find returns the index of the list item that the segment selects.
func (s segment) find(seq *yaml.Node) (int, error) {
	if s.kind == segIndex {
		if s.index < len(seq.Content) {
			return s.index, nil
		}
		return 0, promo.Errorf(promo.CodeNotFound, "line %d: the list has no %s", seq.Line, s.describe()).
			WithHint("it has %d items, counted from 0", len(seq.Content))
	}
	found, names := -1, []string{}
	for i, item := range seq.Content {
		v := lookupKey(resolveAlias(item), s.key, 0)
		if v == nil || resolveAlias(v).Kind != yaml.ScalarNode {
			continue
		}
		if v = resolveAlias(v); v.Value != s.value {
			names = append(names, strconv.Quote(v.Value))
			continue
		}
		if found >= 0 {
			return 0, promo.Errorf(promo.CodeConfiguration, "lines %d and %d: two items have %s %q",
				seq.Content[found].Line, item.Line, s.key, s.value).WithHint("name the item by its index")
		}
		found = i
	}
	if found < 0 {
		sort.Strings(names)
		return 0, promo.Errorf(promo.CodeNotFound, "line %d: the list has no %s", seq.Line, s.describe()).
			WithHint("values of %q there: %s", s.key, shorten(strings.Join(names, ", ")))
	}
	return found, nil
}

// shorten keeps messages readable when a list is long.
func shorten(s string) string {
	const most = 200
	if len(s) <= most {
		return s
	}
	return strings.ToValidUTF8(s[:most], "") + " …"
}

type pathParser struct {
	in  string
	pos int
}

func (p *pathParser) fail(format string, a ...any) error {
	return promo.Errorf(promo.CodeConfiguration, "path %q, character %d: %s", p.in, p.pos+1, fmt.Sprintf(format, a...)).
		WithHint(`paths look like image.tag, list[0].x, list[name=web].image or a."b.c"`)
}

// parsePath reads a path; see "Paths" in the package comment.
func parsePath(in string) (path, error) { //nolint:gocognit // one grammar or protocol, read from top to bottom
	out := path{text: in, doc: -1}
	p := &pathParser{in: in}
	if in == "$" || strings.HasPrefix(in, "$.") || strings.HasPrefix(in, "$[") {
		p.pos = 1
		if strings.HasPrefix(in, "$[") {
			s, err := p.bracket()
			if err != nil {
				return path{}, err
			}
			if s.kind != segIndex {
				return path{}, p.fail("%s isn't the index of a document", s)
			}
			out.doc = s.index
		}
		if p.pos == len(in) {
			return out, nil
		}
		if in[p.pos] == '.' {
			p.pos++
		}
	}
	for first := true; ; first = false {
		s, err := p.segment(first)
		if err != nil {
			return path{}, err
		}
		out.segments = append(out.segments, s)
		if p.pos == len(in) {
			return out, nil
		}
		if in[p.pos] == '.' {
			p.pos++
			if p.pos < len(in) && in[p.pos] == '[' {
				return path{}, p.fail("a key must follow the dot")
			}
		} else if in[p.pos] != '[' {
			return path{}, p.fail("%q must be followed by a dot or a bracket", s)
		}
	}
}

func (p *pathParser) segment(first bool) (segment, error) { //nolint:revive // a fact about what is written, not a mode
	if p.pos < len(p.in) && p.in[p.pos] == '[' && (first || p.in[p.pos-1] != '.') {
		return p.bracket()
	}
	key, err := p.word(".[]")
	if err != nil {
		return segment{}, err
	}
	return segment{kind: segKey, key: key}, nil
}

// word reads a quoted word or a bare one that ends before any of stop.
func (p *pathParser) word(stop string) (string, error) {
	rest := p.in[p.pos:]
	if rest != "" && (rest[0] == '"' || rest[0] == '\'') {
		return p.quoted(rest)
	}
	n := strings.IndexAny(rest, stop)
	if n < 0 {
		n = len(rest)
	}
	if n == 0 {
		return "", p.fail("a key is missing")
	}
	if i := strings.IndexAny(rest[:n], `"'`); i >= 0 {
		p.pos += i
		return "", p.fail("a quote inside a bare key; quote the whole key")
	}
	p.pos += n
	return rest[:n], nil
}

func (p *pathParser) quoted(rest string) (string, error) {
	if rest[0] == '"' {
		q, err := strconv.QuotedPrefix(rest)
		if err != nil {
			return "", p.fail("the quoted key isn't closed")
		}
		p.pos += len(q)
		return strconv.Unquote(q)
	}
	end := strings.IndexByte(rest[1:], '\'')
	if end < 0 {
		return "", p.fail("the quoted key isn't closed")
	}
	p.pos += end + 2
	return rest[1 : end+1], nil
}

func (p *pathParser) bracket() (segment, error) {
	p.pos++ // the opening bracket
	word, err := p.word("=]")
	if err != nil {
		return segment{}, err
	}
	if p.pos < len(p.in) && p.in[p.pos] == '=' {
		p.pos++
		value := ""
		if p.pos < len(p.in) && p.in[p.pos] != ']' {
			if value, err = p.word("]"); err != nil {
				return segment{}, err
			}
		}
		return segment{kind: segMatch, key: word, value: value}, p.closing()
	}
	index, err := strconv.Atoi(word)
	if err != nil || index < 0 {
		return segment{}, p.fail("%q is neither an index nor key=value", word)
	}
	return segment{kind: segIndex, index: index}, p.closing()
}

func (p *pathParser) closing() error {
	if p.pos >= len(p.in) || p.in[p.pos] != ']' {
		return p.fail("the bracket isn't closed")
	}
	p.pos++
	return nil
}
