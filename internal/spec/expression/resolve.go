package expression

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/parser"

	"github.com/davit-cd/davit/internal/promo"
)

// The names of the variables that Resolve treats specially.
const (
	// VarTarget is the one target that a target-scoped step works on.
	VarTarget = "target"
	// VarTargets are the targets that a change covers. Where VarTarget is not set, an element of a list whose
	// expressions name `target` is repeated, once per target.
	VarTargets = "targets"
)

// Resolve evaluates every expression in a step's spec. A value that is one whole expression keeps its type; inside
// text it becomes a string. Errors are of code Configuration and name the field.
func Resolve(raw json.RawMessage, vars map[string]any) (json.RawMessage, error) {
	if len(raw) == 0 {
		return raw, nil
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // 1.10 stays 1.10
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "spec is no JSON: %w", err)
	}
	if _, err := dec.Token(); err != io.EOF {
		return nil, promo.Errorf(promo.CodeConfiguration, "spec is more than one JSON value")
	}
	out, err := resolve(tree, "", vars)
	if err != nil {
		return nil, err
	}
	b, err := marshal(out)
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "resolved spec: %w", err)
	}
	return b, nil
}

func resolve(v any, path string, vars map[string]any) (any, error) {
	switch t := v.(type) {
	case string:
		return resolveText(t, path, vars)
	case []any:
		return resolveList(t, path, vars)
	case map[string]any:
		out := make(map[string]any, len(t))
		for _, k := range slices.Sorted(maps.Keys(t)) { // sorted: the first error is always the same
			r, err := resolve(t[k], join(path, k), vars)
			if err != nil {
				return nil, err
			}
			out[k] = r
		}
		return out, nil
	}
	return v, nil
}

func join(path, key string) string {
	if path == "" {
		return key
	}
	return path + "." + key
}

func resolveList(list []any, path string, vars map[string]any) (any, error) {
	out := make([]any, 0, len(list))
	targets, several := vars[VarTargets].([]any)
	_, one := vars[VarTarget]
	for i, e := range list {
		at := fmt.Sprintf("%s[%d]", path, i)
		if one || !several || !mentionsIn(e, VarTarget) {
			r, err := resolve(e, at, vars)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
			continue
		}
		for _, target := range targets {
			each := maps.Clone(vars)
			each[VarTarget] = target
			r, err := resolve(e, at, each)
			if err != nil {
				return nil, err
			}
			out = append(out, r)
		}
	}
	return out, nil
}

func resolveText(text, path string, vars map[string]any) (any, error) {
	if !Has(text) {
		return text, nil
	}
	vars = withOnlyTarget(vars)
	if p, ok := Whole(text); ok {
		v, err := evaluate(p.Text, vars)
		if err == nil {
			err = (&meter{}).measure(v, 0)
		}
		if err != nil {
			return nil, wrong(path, p.Text, err)
		}
		return v, nil
	}
	parts, bad := Split(text)
	if bad != nil {
		return nil, wrong(path, text, bad)
	}
	var b strings.Builder
	for _, p := range parts {
		if !p.Expr {
			b.WriteString(p.Text)
			continue
		}
		v, err := evaluate(p.Text, vars)
		if err != nil {
			return nil, wrong(path, p.Text, err)
		}
		s, err := (&meter{}).text(v)
		if err != nil {
			return nil, wrong(path, p.Text, err)
		}
		if b.Len()+len(s) > maxBytes {
			return nil, wrong(path, p.Text, errBudget)
		}
		b.WriteString(s)
	}
	return b.String(), nil
}

// withOnlyTarget lets `target` stand for the only one that a change covers.
func withOnlyTarget(vars map[string]any) map[string]any {
	if _, set := vars[VarTarget]; set {
		return vars
	}
	if targets, ok := vars[VarTargets].([]any); ok && len(targets) == 1 {
		vars = maps.Clone(vars)
		vars[VarTarget] = targets[0]
	}
	return vars
}

func wrong(path, source string, err error) error {
	if path == "" {
		return promo.Errorf(promo.CodeConfiguration, "expression %q: %w", source, err)
	}
	return promo.Errorf(promo.CodeConfiguration, "field %q: expression %q: %w", path, source, err)
}

// Bool evaluates a condition: a bare expression, or one in ${{ }}. "" is true.
func Bool(source string, vars map[string]any) (bool, error) {
	if p, ok := Whole(source); ok {
		source = p.Text
	}
	if strings.TrimSpace(source) == "" {
		return true, nil
	}
	v, err := evaluate(source, withOnlyTarget(vars))
	if err != nil {
		return false, wrong("", source, err)
	}
	b, ok := v.(bool)
	if !ok {
		return false, wrong("", source, fmt.Errorf("it must be true or false, it is %s", typeName(v)))
	}
	return b, nil
}

// Mentions reports whether an expression of the text uses the variable.
func Mentions(text, name string) bool {
	if !Has(text) {
		return false
	}
	parts, bad := Split(text)
	if bad != nil {
		return false
	}
	return slices.ContainsFunc(parts, func(p Part) bool { return p.Expr && uses(p.Text, name) })
}

// MentionsJSON reports whether an expression anywhere in a JSON value uses the variable.
func MentionsJSON(raw json.RawMessage, name string) bool {
	var v any
	return json.Unmarshal(raw, &v) == nil && mentionsIn(v, name)
}

func mentionsIn(v any, name string) bool {
	switch t := v.(type) {
	case string:
		return Mentions(t, name)
	case []any:
		return slices.ContainsFunc(t, func(e any) bool { return mentionsIn(e, name) })
	case map[string]any:
		for _, e := range t {
			if mentionsIn(e, name) {
				return true
			}
		}
	}
	return false
}

// uses reports whether the expression names the variable; a text that is no expression names none.
func uses(source, name string) bool {
	if len(source) > maxSource || !strings.Contains(source, name) {
		return false
	}
	tree, err := parser.Parse(source)
	if err != nil {
		return false
	}
	f := finder{name: name}
	ast.Walk(&tree.Node, &f)
	return f.found
}

type finder struct {
	name  string
	found bool
}

// Visit implements ast.Visitor.
func (f *finder) Visit(node *ast.Node) {
	if id, ok := (*node).(*ast.IdentifierNode); ok && id.Value == f.name {
		f.found = true
	}
}
