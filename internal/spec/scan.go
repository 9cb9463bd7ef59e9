package spec

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"

	"gopkg.in/yaml.v3"
)

// The bounds of a file. A pipeline of a hundred stages is a tenth of them.
const (
	maxFile      = 1 << 20 // bytes
	maxNodes     = 50_000  // values of a document, aliases counted as often as they are used
	maxDepth     = 64      // nesting of a document
	maxDocuments = 1_000   // in a file
)

// scanner walks a document once before its meaning is read: it turns it into plain values, notes where everything
// stands, and refuses what the language doesn't have (duplicate keys, merge keys, tags, endless aliases).
type scanner struct {
	doc   *Document
	diags *Diagnostics
	count int
	full  bool // a bound was passed; reported once
}

func (s *scanner) report(n *yaml.Node, rule, msg, hint string) {
	*s.diags = append(*s.diags, s.doc.file.diagnostic(n, rule, msg, hint))
}

// scan returns the plain value: map[string]any, []any, string, bool, json.Number or nil.
func (s *scanner) scan(n *yaml.Node, path string, depth int) any {
	if s.count++; s.full || s.count > maxNodes || depth > maxDepth {
		if !s.full {
			s.full = true
			s.report(n, "size", fmt.Sprintf("document has more than %d values or is nested deeper than %d", maxNodes, maxDepth),
				"cut it into several documents, and use fewer aliases")
		}
		return nil
	}
	if n.Kind == yaml.AliasNode {
		return s.scan(n.Alias, path, depth+1)
	}
	s.doc.nodes[path] = n
	// the other kinds are no values of the language
	//exhaustive:ignore
	switch n.Kind {
	case yaml.MappingNode:
		return s.mapping(n, path, depth)
	case yaml.SequenceNode:
		s.tag(n, "!!seq")
		out := make([]any, 0, len(n.Content))
		for i, c := range n.Content {
			out = append(out, s.scan(c, fmt.Sprintf("%s[%d]", path, i), depth+1))
		}
		return out
	case yaml.ScalarNode:
		return s.scalar(n)
	default:
		return nil
	}
}

func (s *scanner) tag(n *yaml.Node, want string) {
	if n.ShortTag() != want {
		s.report(n, "yaml", fmt.Sprintf("tag %q is not allowed", n.Tag), "leave the tag out")
	}
}

func (s *scanner) mapping(n *yaml.Node, path string, depth int) any {
	s.tag(n, "!!map")
	out := make(map[string]any, len(n.Content)/2)
	for i := 0; i+1 < len(n.Content); i += 2 {
		key := n.Content[i]
		if key.Kind == yaml.AliasNode {
			key = key.Alias
		}
		name, ok := s.key(key)
		if !ok {
			continue
		}
		at := joinPath(path, name)
		if _, twice := out[name]; twice {
			s.report(key, "duplicate-key", fmt.Sprintf("key %q stands twice in this map", name),
				fmt.Sprintf("first on line %d; keep one", s.doc.keys[at].Line))
			continue
		}
		s.doc.keys[at] = key
		out[name] = s.scan(n.Content[i+1], at, depth+1)
	}
	return out
}

func (s *scanner) key(key *yaml.Node) (string, bool) {
	switch {
	case key.Kind != yaml.ScalarNode:
		s.report(key, "yaml", "a key must be a text", "")
	case key.ShortTag() == "!!merge":
		s.report(key, "yaml", "merge keys are "+notYet, "use an alias for the whole value, or write the keys out")
	case strings.Contains(key.Value, "${{"):
		s.report(key, "expression", "an expression can't be a key", "expressions stand in values")
	case key.ShortTag() == "!!str" || key.ShortTag() == "!!int" || key.ShortTag() == "!!bool" || key.ShortTag() == "!!timestamp":
		return key.Value, true // on: and 5: are texts as keys
	default:
		s.report(key, "yaml", fmt.Sprintf("key %q must be a text", key.Value), "put it in quotes")
	}
	return "", false
}

func (s *scanner) scalar(n *yaml.Node) any {
	switch n.ShortTag() {
	case "!!str", "!!timestamp":
		return n.Value
	case "!!null":
		return nil
	case "!!bool":
		var b bool
		if n.Decode(&b) == nil {
			return b
		}
	case "!!int":
		if v, ok := integer(n); ok {
			return v
		}
	case "!!float":
		return s.float(n)
	}
	s.report(n, "yaml", fmt.Sprintf("value %q can't be used", n.Value), "put it in quotes if it is a text")
	return unreadable{}
}

// unreadable stands for a value that was refused already.
type unreadable struct{}

func integer(n *yaml.Node) (json.Number, bool) {
	var i int64
	if n.Decode(&i) == nil {
		return json.Number(strconv.FormatInt(i, 10)), true
	}
	var u uint64
	if n.Decode(&u) == nil {
		return json.Number(strconv.FormatUint(u, 10)), true
	}
	return "", false
}

// float refuses numbers that would not be written back as they stand: 1.10 is most often a version.
func (s *scanner) float(n *yaml.Node) any {
	var f float64
	if n.Decode(&f) != nil || f != f || f > maxFloat || f < -maxFloat {
		s.report(n, "yaml", fmt.Sprintf("value %q is no finite number", n.Value), "put it in quotes if it is a text")
		return unreadable{}
	}
	short := strconv.FormatFloat(f, 'f', -1, 64)
	if strings.Trim(n.Value, "0123456789.") == "" && short != n.Value && short+".0" != n.Value {
		s.report(n, "yaml", fmt.Sprintf("number %s would become %s", n.Value, short),
			"put it in quotes if it is a text, or write "+short)
	}
	return json.Number(strconv.FormatFloat(f, 'g', -1, 64))
}

const maxFloat = 1e300 // beyond it nobody means a number

func joinPath(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
