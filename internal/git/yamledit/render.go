package yamledit

import (
	"strings"

	"gopkg.in/yaml.v3"
)

// renderer writes new values in the style of the text around them.
type renderer struct {
	eol    string
	step   int  // indentation of a nested map
	dash   int  // indentation of a list below its key
	json   bool // the text is JSON
	keys   yaml.Style
	values yaml.Style
}

// renderer learns the indentation from the document.
func (f *file) renderer(doc *yaml.Node, p place) renderer { //nolint:gocognit // one grammar or protocol, read from top to bottom
	r := renderer{eol: f.eol, step: 2, json: f.json}
	step, dash := 0, -1
	visit(doc, func(n *yaml.Node) {
		if n.Kind != yaml.MappingNode || n.Style&yaml.FlowStyle != 0 {
			return
		}
		for i := 0; i+1 < len(n.Content); i += 2 {
			k, v := n.Content[i], n.Content[i+1]
			if v.Style&yaml.FlowStyle != 0 || v.Anchor != "" || v.Style&yaml.TaggedStyle != 0 || v.Line == k.Line {
				continue
			}
			if v.Kind == yaml.MappingNode && step == 0 && v.Column > k.Column {
				step = v.Column - k.Column
			}
			if v.Kind == yaml.SequenceNode && dash < 0 && v.Column >= k.Column {
				dash = v.Column - k.Column
			}
		}
	})
	if step > 0 {
		r.step = step
	}
	r.dash = max(dash, 0) // as Kubernetes' own tools write lists
	if r.json || p.flow && p.node.Kind == yaml.MappingNode {
		r.neighbours(p.node)
	}
	return r
}

// neighbours takes over the quotes that all the other keys and strings of a collection have.
func (r *renderer) neighbours(n *yaml.Node) {
	width := 1
	if n.Kind == yaml.MappingNode {
		width = 2
	}
	keys, values := -1, -1
	note := func(seen *int, c *yaml.Node) {
		style := int(c.Style & (yaml.DoubleQuotedStyle | yaml.SingleQuotedStyle))
		switch {
		case c.Kind != yaml.ScalarNode || c.ShortTag() != "!!str" || c.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0:
		case *seen == -1 || *seen == style:
			*seen = style
		default:
			*seen = 0
		}
	}
	for i := 0; i+width <= len(n.Content); i += width {
		if width == 2 {
			note(&keys, n.Content[i])
		}
		note(&values, n.Content[i+width-1])
	}
	r.keys, r.values = yaml.Style(max(keys, 0)), yaml.Style(max(values, 0))
}

// scalar writes a scalar on one line.
func (r renderer) scalar(n *yaml.Node, style yaml.Style, flow, key bool) string {
	if n.Tag != "!!str" {
		return n.Value
	}
	switch {
	case r.json || style&yaml.DoubleQuotedStyle != 0:
		return doubleQuote(n.Value)
	case style&yaml.SingleQuotedStyle != 0 && singleQuotable(n.Value):
		return singleQuote(n.Value)
	case plainSafe(n.Value, flow, key):
		return n.Value
	}
	return doubleQuote(n.Value)
}

// flowText writes a value on one line.
func (r renderer) flowText(n *yaml.Node) string {
	var parts []string
	switch n.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(n.Content); i += 2 {
			parts = append(parts, r.flowPair(n.Content[i], n.Content[i+1], false))
		}
		return "{" + strings.Join(parts, ", ") + "}"
	case yaml.SequenceNode:
		for _, c := range n.Content {
			parts = append(parts, r.flowText(c))
		}
		return "[" + strings.Join(parts, ", ") + "]"
	}
	return r.scalar(n, r.values, true, false)
}

func (r renderer) flowPair(k, v *yaml.Node, tight bool) string { //nolint:revive // a fact about what is written, not a mode
	key := r.scalar(k, r.keys, true, true)
	if tight && strings.HasPrefix(key, `"`) {
		return key + ":" + r.flowText(v)
	}
	return key + ": " + r.flowText(v)
}

// blockText writes a value whose first line begins at the column; further lines are indented to it.
func (r renderer) blockText(n *yaml.Node, column int) string {
	if n.Kind == yaml.ScalarNode {
		return r.scalar(n, r.values, false, false)
	}
	if len(n.Content) == 0 {
		return r.flowText(n)
	}
	sep := r.eol + strings.Repeat(" ", column)
	var parts []string
	if n.Kind == yaml.SequenceNode {
		for _, c := range n.Content {
			parts = append(parts, "- "+r.blockText(c, column+2))
		}
		return strings.Join(parts, sep)
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		parts = append(parts, r.pair(n.Content[i], n.Content[i+1], column))
	}
	return strings.Join(parts, sep)
}

func (r renderer) pair(k, v *yaml.Node, column int) string {
	key := r.scalar(k, r.keys, false, true) + ":"
	below := column + r.step
	switch {
	case v.Kind == yaml.ScalarNode || len(v.Content) == 0:
		return key + " " + r.blockText(v, column)
	case v.Kind == yaml.SequenceNode:
		below = column + r.dash
	}
	return key + r.eol + strings.Repeat(" ", below) + r.blockText(v, below)
}
