package spec

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"

	"gopkg.in/yaml.v3"

	"github.com/davit-cd/davit/internal/spec/expression"
)

// Parse reads a file of documents and reports everything that can be seen without looking at other documents.
// The file is never nil; it holds the documents that could be read.
func (l *Language) Parse(name string, src []byte) (*File, Diagnostics) {
	f := &File{Name: name}
	var diags Diagnostics
	if len(src) > maxFile {
		d := f.place(1, 1, 1, Diagnostic{
			Rule: "size", Msg: fmt.Sprintf("file has %d bytes", len(src)), Hint: fmt.Sprintf("at most %d; cut it into several", maxFile),
		})
		return f, Diagnostics{d}
	}
	f.lines = strings.Split(strings.TrimPrefix(string(src), "\ufeff"), "\n")
	if !utf8.Valid(src) {
		return f, Diagnostics{f.place(1, 1, 1, Diagnostic{Rule: "yaml", Msg: "file is not UTF-8 text"})}
	}
	dec := yaml.NewDecoder(bytes.NewReader(src))
	for n := 0; ; n++ {
		var root yaml.Node
		err := dec.Decode(&root)
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil && n >= maxDocuments {
			diags = append(diags, f.place(root.Line, 1, 1, Diagnostic{
				Rule: "size", Msg: fmt.Sprintf("file has more than %d documents", maxDocuments), Hint: "cut it into several",
			}))
			break
		}
		if err != nil {
			diags = append(diags, f.syntax(err))
			break
		}
		if doc := l.document(f, &root, &diags); doc != nil {
			f.Documents = append(f.Documents, doc)
		}
	}
	f.cutTexts()
	return f, diags.sorted()
}

// syntax gives an error of the YAML reader its line.
func (f *File) syntax(err error) Diagnostic {
	msg := strings.TrimPrefix(err.Error(), "yaml: ")
	line := 1
	if m := regexp.MustCompile(`^line (\d+): `).FindStringSubmatch(msg); m != nil {
		line, _ = strconv.Atoi(m[1])
		msg = strings.TrimPrefix(msg, m[0])
	}
	return f.place(line, 1, 1, Diagnostic{Rule: "yaml", Msg: "not valid YAML: " + msg, Hint: "look at indentation, quotes and colons around here"})
}

// document reads one document; nil where it is empty or of no known kind.
func (l *Language) document(f *File, root *yaml.Node, diags *Diagnostics) *Document {
	if len(root.Content) == 0 {
		return nil
	}
	top, before := root.Content[0], len(*diags)
	doc := &Document{file: f, Line: top.Line, nodes: map[string]*yaml.Node{}, keys: map[string]*yaml.Node{}}
	if top.Kind == yaml.ScalarNode && top.ShortTag() == "!!null" {
		return nil // an empty document between two separators
	}
	s := &scanner{doc: doc, diags: diags}
	v := s.scan(top, "", 0)
	if s.full {
		return nil
	}
	m, ok := v.(map[string]any)
	d := &decoder{lang: l, doc: doc, diags: diags}
	if !ok {
		d.mismatch(v, "", "a document with apiVersion, kind, metadata and spec")
		return nil
	}
	doc.JSON, _ = json.Marshal(m)
	if !d.header(m) {
		return nil
	}
	spec := newSpec(doc.Kind)
	if _, set := m["spec"]; set {
		d.value(m["spec"], reflect.ValueOf(spec).Elem(), "spec")
	} else if doc.Kind != KindProject {
		d.report("", "required", `"spec" is missing`, "add spec:")
	}
	doc.Spec = spec
	doc.broken = (*diags)[before:].HasErrors()
	return doc
}

// header reads what all kinds have in common. It returns false where the rest can't be understood.
func (d *decoder) header(m map[string]any) bool {
	known := []string{"apiVersion", "kind", "metadata", "spec"}
	for _, k := range sortedKeys(m) {
		if !slices.Contains(known, k) {
			*d.diags = append(*d.diags, d.doc.atKey(k, "unknown-key", fmt.Sprintf("unknown key %q", k),
				expression.Suggest(k, known, "expected one of")))
		}
	}
	d.apiVersion(m)
	ok := d.kind(m)
	if _, set := m["metadata"]; !set {
		d.report("", "required", `"metadata" is missing`, "add metadata: {name: …}")
		return false
	}
	d.value(m["metadata"], reflect.ValueOf(&d.doc.Metadata).Elem(), "metadata")
	d.project()
	return ok
}

func (d *decoder) apiVersion(m map[string]any) {
	v, set := m["apiVersion"]
	switch {
	case !set:
		d.report("", "required", `"apiVersion" is missing`, "add apiVersion: "+APIVersion)
	case v != APIVersion:
		d.report("apiVersion", "value", fmt.Sprintf("apiVersion can't be %s", describe(v)), "write "+APIVersion)
	}
}

func (d *decoder) kind(m map[string]any) bool {
	v, set := m["kind"]
	kind, isText := v.(string)
	switch {
	case !set:
		d.report("", "required", `"kind" is missing`, "one of "+strings.Join(Kinds(), ", "))
	case !isText:
		d.mismatch(v, "kind", "a text")
	case slices.Contains(laterKinds(), kind):
		d.report("kind", "not-yet", fmt.Sprintf("kind %q is %s", kind, notYet), "leave the document out")
	case !slices.Contains(Kinds(), kind):
		d.report("kind", "value", fmt.Sprintf("unknown kind %q", kind), expression.Suggest(kind, Kinds(), "expected one of"))
	default:
		d.doc.Kind = kind
		return true
	}
	return false
}

// project fills in the default project; a Project belongs to itself.
func (d *decoder) project() {
	md := &d.doc.Metadata
	switch {
	case d.doc.Kind == KindProject && md.Project != "":
		d.report("metadata.project", "reference", "a Project belongs to no project", "leave it out")
	case d.doc.Kind == KindProject:
		md.Project = md.Name
	case md.Project == "":
		md.Project = DefaultProject
	case strings.HasPrefix(md.Project, "org/"):
		d.report("metadata.project", "not-yet", "organisations are "+notYet, "name a project")
	case !isName(md.Project):
		d.report("metadata.project", "names", fmt.Sprintf("project can't be %q", md.Project),
			"small letters, digits and hyphens, a letter first, at most 63")
	}
}

// isName reports whether s may name a thing of the language.
func isName(s string) bool {
	return s != "" && len(s) <= 63 && s[0] >= 'a' && s[0] <= 'z' &&
		strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}

// cutTexts gives every document the lines that belong to it.
func (f *File) cutTexts() {
	for i, doc := range f.Documents {
		end := len(f.lines)
		if i+1 < len(f.Documents) {
			end = f.Documents[i+1].Line - 1
		}
		start := min(doc.Line-1, end)
		for start > 0 && strings.HasPrefix(strings.TrimSpace(f.lines[start-1]), "#") {
			start-- // a comment just above belongs to the document
		}
		for j := doc.Line; j < end; j++ {
			if line := strings.TrimRight(f.lines[j], "\r"); line == "---" || line == "..." || strings.HasPrefix(line, "--- ") {
				end = j
			}
		}
		doc.Line = start + 1
		doc.Text = strings.TrimRight(strings.Join(f.lines[start:end], "\n"), "\n\r \t") + "\n"
	}
}
