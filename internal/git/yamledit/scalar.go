package yamledit

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"sort"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/davit-cd/davit/internal/promo"
)

// scalarWays lists the texts that a new scalar may have in the place of an old one, best first.
func (f *file) scalarWays(p place, s span, want *yaml.Node) []string {
	if want.Tag != "!!str" {
		return []string{want.Value}
	}
	v, style := want.Value, p.node.Style
	double := doubleQuote(v)
	var ways []string
	switch {
	case f.json:
	case style&yaml.SingleQuotedStyle != 0 && singleQuotable(v):
		ways = append(ways, singleQuote(v))
	case style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		ways = f.blockWays(f.block(s.content, p.indent), s, v)
	case style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) == 0 && plainSafe(v, p.flow, false):
		ways = append(ways, v)
	}
	return append(ways, double)
}

// blockWays writes text below the old header ("|", ">-") with the old indentation; only the sign for the
// final line breaks follows the new text.
func (f *file) blockWays(b blockScalar, s span, v string) []string {
	body := strings.TrimRight(v, "\n")
	breaks := len(v) - len(body)
	if body == "" || strings.ContainsFunc(v, func(r rune) bool { return r != '\n' && r != '\t' && !printable(r) }) {
		return nil
	}
	chomp := ""
	switch {
	case breaks == 0:
		chomp = "-"
	case breaks > 1 || b.chomp == '+':
		chomp = "+"
	}
	header := string(f.src[s.content:b.header])
	if (chomp == "" && b.chomp != 0) || (chomp != "" && b.chomp != chomp[0]) {
		header = chomped(header, chomp)
	}
	header += string(f.src[b.header:f.lineEnd(b.header)])
	indent := strings.Repeat(" ", b.indent)
	literal := func(lines string) string {
		var out strings.Builder
		out.WriteString(header)
		for line := range strings.SplitSeq(lines, "\n") {
			out.WriteString(f.eol)
			if line != "" {
				out.WriteString(indent + line)
			}
		}
		for range breaks - 1 {
			out.WriteString(f.eol)
		}
		return out.String()
	}
	if header[0] == '>' {
		folded := literal(strings.ReplaceAll(body, "\n", "\n\n"))
		header = "|" + header[1:]
		return []string{folded, literal(body)}
	}
	return []string{literal(body)}
}

// chomped gives a block scalar's indicators ("|2+") another sign for the final line breaks.
func chomped(header, sign string) string {
	return strings.NewReplacer("+", "", "-", "").Replace(header) + sign
}

// ambiguous are words and numbers that some YAML reader (1.1 or 1.2) takes for something other than a string.
func ambiguous(s string) bool {
	switch strings.ToLower(s) {
	case "", "y", "n", "yes", "no", "on", "off", "true", "false", "null", "~", "=", "<<", ".nan", ".inf", "+.inf", "-.inf":
		return true
	}
	return numbers.MatchString(s)
}

// numbers matches the integers, floats, base-60 numbers and dates of YAML 1.1 and 1.2.
var numbers = regexp.MustCompile(`^(?:[-+]?0b[01_]+|[-+]?0o?[0-7_]+|[-+]?0x[0-9a-fA-F_]+|[-+]?[0-9][0-9_]*(?::[0-5]?[0-9])+(?:\.[0-9_]*)?|` +
	`[-+]?(?:[0-9][0-9_]*\.?|\.)[0-9_]*(?:[eE][-+]?[0-9]+)?|[0-9]{4}-[0-9]{1,2}-[0-9]{1,2}.*)$`)

// plainSafe reports whether the string may stand without quotes: the parser itself is asked.
func plainSafe(s string, flow, key bool) bool { //nolint:revive // a fact about what is written, not a mode
	if s == "" || len(s) > 4096 || ambiguous(s) || strings.ContainsFunc(s, func(r rune) bool { return !printable(r) }) {
		return false
	}
	text, index := "k: "+s, 1
	if key {
		text, index = s+": v", 0
	}
	if flow {
		text = "{" + text + "}"
	}
	docs, err := parseDocuments([]byte(text))
	if err != nil || len(docs) != 1 || len(docs[0].Content) != 1 {
		return false
	}
	m := docs[0].Content[0]
	if m.Kind != yaml.MappingNode || len(m.Content) != 2 {
		return false
	}
	n := m.Content[index]
	return n.Kind == yaml.ScalarNode && n.Style == 0 && n.Anchor == "" && n.Value == s && n.ShortTag() == "!!str"
}

// printable reports whether the character may stand in YAML text as it is, on one line.
func printable(r rune) bool {
	switch {
	case r == utf8.RuneError, r == '\u0085', r == '\u2028', r == '\u2029', r == '\ufeff':
		return false
	case r < 0x20 || r == 0x7f || r >= 0x80 && r < 0xa0:
		return false
	}
	return !unicode.Is(unicode.Cs, r) && r&0xfffe != 0xfffe
}

func singleQuotable(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return !printable(r) })
}

func singleQuote(s string) string { return "'" + strings.ReplaceAll(s, "'", "''") + "'" }

// doubleQuote writes a string that YAML and JSON read alike.
func doubleQuote(s string) string {
	var b strings.Builder
	b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			b.WriteByte('\\')
			b.WriteRune(r)
		case r == '\n':
			b.WriteString(`\n`)
		case r == '\t':
			b.WriteString(`\t`)
		case r == '\r':
			b.WriteString(`\r`)
		case printable(r):
			b.WriteRune(r)
		case r > 0xffff:
			fmt.Fprintf(&b, `\U%08x`, r)
		default:
			fmt.Fprintf(&b, `\u%04x`, r)
		}
	}
	b.WriteByte('"')
	return b.String()
}

func keyNode(key string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: key}
}

func mapNode(key string, value *yaml.Node) *yaml.Node {
	return &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map", Content: []*yaml.Node{keyNode(key), value}}
}

func scalarNode(tag, value string) *yaml.Node {
	return &yaml.Node{Kind: yaml.ScalarNode, Tag: tag, Value: value}
}

// pairs is a map with an order.
type pairs []pair

type pair struct {
	key   string
	value any
}

// toNode turns a Go value into the tree that the new text must have.
func toNode(value any) (*yaml.Node, error) {
	switch v := value.(type) {
	case nil:
		return scalarNode("!!null", "null"), nil
	case bool:
		return scalarNode("!!bool", strconv.FormatBool(v)), nil
	case string:
		if !utf8.ValidString(v) {
			return nil, promo.Errorf(promo.CodeConfiguration, "the new value isn't UTF-8 text")
		}
		return scalarNode("!!str", v), nil
	case time.Time:
		return scalarNode("!!timestamp", v.Format(time.RFC3339Nano)), nil
	case map[string]any:
		var p pairs
		for k, c := range v {
			p = append(p, pair{k, c})
		}
		sort.Slice(p, func(i, j int) bool { return p[i].key < p[j].key })
		return toNode(p)
	case map[string]string:
		m := make(map[string]any, len(v))
		for k, c := range v {
			m[k] = c
		}
		return toNode(m)
	case pairs:
		n := &yaml.Node{Kind: yaml.MappingNode, Tag: "!!map"}
		for _, p := range v {
			c, err := toNode(p.value)
			if err != nil {
				return nil, err
			}
			n.Content = append(n.Content, keyNode(p.key), c)
		}
		return n, nil
	case []string:
		return listNode(len(v), func(i int) any { return v[i] })
	case []any:
		return listNode(len(v), func(i int) any { return v[i] })
	}
	return numberNode(value)
}

func listNode(n int, item func(int) any) (*yaml.Node, error) {
	list := &yaml.Node{Kind: yaml.SequenceNode, Tag: "!!seq"}
	for i := range n {
		c, err := toNode(item(i))
		if err != nil {
			return nil, err
		}
		list.Content = append(list.Content, c)
	}
	return list, nil
}

func numberNode(value any) (*yaml.Node, error) {
	switch v := value.(type) {
	case int, int8, int16, int32, int64, uint, uint8, uint16, uint32, uint64:
		return scalarNode("!!int", fmt.Sprint(v)), nil
	case float32:
		return floatNode(float64(v)), nil
	case float64:
		return floatNode(v), nil
	case json.Number:
		if n, err := strconv.ParseInt(v.String(), 10, 64); err == nil {
			return scalarNode("!!int", strconv.FormatInt(n, 10)), nil
		}
		if x, err := v.Float64(); err == nil {
			return floatNode(x), nil
		}
	}
	return nil, promo.Errorf(promo.CodeConfiguration, "a value of type %T can't be written", value).
		WithHint("strings, numbers, booleans, null, lists and maps can")
}

// floatNode writes whole numbers without a fraction: JSON knows no other way to say 3.
func floatNode(x float64) *yaml.Node {
	switch {
	case math.IsNaN(x):
		return scalarNode("!!float", ".nan")
	case math.IsInf(x, 1):
		return scalarNode("!!float", ".inf")
	case math.IsInf(x, -1):
		return scalarNode("!!float", "-.inf")
	case x == math.Trunc(x) && math.Abs(x) < 1<<53:
		return scalarNode("!!int", strconv.FormatInt(int64(x), 10))
	}
	return scalarNode("!!float", strconv.FormatFloat(x, 'g', -1, 64))
}

// sameValue reports whether an old node already means the new value, whatever its style.
func sameValue(old, want *yaml.Node) bool {
	if old.Kind != want.Kind || old.Kind == yaml.AliasNode {
		return false
	}
	if old.Kind == yaml.ScalarNode {
		if old.ShortTag() != want.ShortTag() {
			return false
		}
		var a, b any
		if old.Value == want.Value {
			return true
		}
		if want.Tag == "!!str" || old.Decode(&a) != nil || want.Decode(&b) != nil {
			return false
		}
		return a == b
	}
	if len(old.Content) != len(want.Content) {
		return false
	}
	if old.Kind == yaml.SequenceNode {
		return slices.EqualFunc(old.Content, want.Content, sameValue)
	}
	for i := 0; i+1 < len(want.Content); i += 2 {
		j, err := ownKey(old, want.Content[i].Value)
		if err != nil || j < 0 || !sameValue(old.Content[2*j+1], want.Content[i+1]) {
			return false
		}
	}
	return true
}
