package spec

import (
	"encoding/json"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/davit-cd/davit/internal/spec/expression"
)

// File is a parsed file.
type File struct {
	Name      string
	Documents []*Document
	lines     []string
}

// Document is one document of a file.
type Document struct {
	Kind     string
	Metadata Metadata
	// Spec is a pointer to the kind's spec, such as *PipelineSpec; nil where it could not be read.
	Spec any
	// Text is the document as written, without the lines that separate documents.
	Text string
	// Line is where Text begins in its file.
	Line int
	// JSON is the document's content, comments aside.
	JSON json.RawMessage

	// broken is true where Parse found an error in it; such a document is never compiled.
	broken bool

	file  *File
	nodes map[string]*yaml.Node // values by path, such as spec.stages[0].name
	keys  map[string]*yaml.Node // keys by the path of their value
}

// ID is how the document is found: "<project>/<name>".
func (d *Document) ID() string { return d.Metadata.Project + "/" + d.Metadata.Name }

// File returns the name of the file that holds the document.
func (d *Document) File() string { return d.file.Name }

// node returns the value at a path, or the nearest thing around it.
func (d *Document) node(path string) *yaml.Node {
	for path != "" {
		if n := d.nodes[path]; n != nil {
			return n
		}
		path = path[:max(0, strings.LastIndexAny(path, ".["))]
	}
	if n := d.nodes[""]; n != nil {
		return n
	}
	return &yaml.Node{Line: d.Line, Column: 1}
}

// at starts a diagnostic for the value at a path.
func (d *Document) at(path, rule, msg, hint string) Diagnostic {
	return d.file.diagnostic(d.node(path), rule, msg, hint)
}

// atKey starts a diagnostic for the key at a path.
func (d *Document) atKey(path, rule, msg, hint string) Diagnostic {
	if k := d.keys[path]; k != nil {
		return d.file.diagnostic(k, rule, msg, hint)
	}
	return d.at(path, rule, msg, hint)
}

// diagnostic places a message at a node.
func (f *File) diagnostic(n *yaml.Node, rule, msg, hint string) Diagnostic {
	width := utf8.RuneCountInString(n.Value)
	if n.Style&(yaml.DoubleQuotedStyle|yaml.SingleQuotedStyle) != 0 {
		width += 2
	}
	if n.Kind != yaml.ScalarNode || strings.Contains(n.Value, "\n") || n.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
		width = 1
	}
	return f.place(n.Line, n.Column, max(1, width), Diagnostic{Rule: rule, Msg: msg, Hint: hint})
}

// place fills in file, place and source line, kept within the file.
func (f *File) place(line, column, width int, d Diagnostic) Diagnostic {
	d.File = f.Name
	d.Line = min(max(1, line), max(1, len(f.lines)))
	if d.Line <= len(f.lines) {
		d.Source = strings.TrimSuffix(f.lines[d.Line-1], "\r")
	}
	length := utf8.RuneCountInString(d.Source)
	d.Column = min(max(1, column), length+1)
	d.EndColumn = min(d.Column+width, max(length+1, d.Column+1))
	return d
}

// inText places a message inside a scalar, at an offset of its value. The value is searched for in the source, as
// quotes, escapes and indentation stand between the two.
func (f *File) inText(n *yaml.Node, e *expression.Error, rule, msg string) Diagnostic {
	d := Diagnostic{Rule: rule, Msg: msg, Hint: e.Hint}
	parts, _ := expression.Split(n.Value)
	nth := 0
	for _, p := range parts {
		if p.Expr && p.Offset <= e.Offset {
			nth++
		}
	}
	line := n.Line - 1
	column := n.Column - 1
	for i := line; i < len(f.lines) && i < line+strings.Count(n.Value, "\n")+8; i++ {
		rest := cutRunes(f.lines[i], column)
		for at := 0; nth > 0; {
			open := strings.Index(rest[at:], "${{")
			if open < 0 {
				break
			}
			at += open + len("${{")
			if nth--; nth == 0 {
				return f.inExpression(i, column+utf8.RuneCountInString(rest[:at]), rest[at:], n.Value, e, d)
			}
		}
		column = 0
	}
	return f.place(n.Line, n.Column, 1, d)
}

// inExpression places a message after the opening braces that stand before rest.
func (f *File) inExpression(line, column int, rest, value string, e *expression.Error, d Diagnostic) Diagnostic {
	offset := min(e.Offset, len(value))
	begin := strings.LastIndex(value[:offset], "${{")
	if begin < 0 {
		begin = 0
	} else {
		begin += len("${{")
	}
	inside := value[begin:offset]
	if strings.HasPrefix(rest, inside) { // verbatim, on one line
		column += utf8.RuneCountInString(inside)
	}
	width := utf8.RuneCountInString(value[offset:min(len(value), offset+max(1, e.Length))])
	return f.place(line+1, column+1, max(1, width), d)
}

func cutRunes(s string, n int) string {
	for i := range s {
		if n == 0 {
			return s[i:]
		}
		n--
	}
	return ""
}
