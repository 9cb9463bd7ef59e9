package expression

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/checker"
	"github.com/expr-lang/expr/conf"
	"github.com/expr-lang/expr/file"
	"github.com/expr-lang/expr/parser"
)

// Check parses one expression, without its braces, and checks its names and types against what is in scope.
// It returns the kind of its value.
func Check(source string, scope Scope) (Kind, *Error) {
	if len(source) > maxSource {
		return KindAny, &Error{Msg: fmt.Sprintf("expression is longer than %d bytes", maxSource), Length: 1}
	}
	if strings.TrimSpace(source) == "" {
		return KindAny, &Error{Msg: "expression is empty", Length: 1}
	}
	config := conf.CreateNew()
	for _, opt := range options(&meter{}) {
		opt(config)
	}
	for name := range config.Disabled {
		delete(config.Builtins, name)
	}
	config.Check()
	tree, err := parser.ParseWithConfig(source, config)
	if err != nil {
		return KindAny, located(source, err)
	}
	if bad := checkNames(source, tree.Node, scope); bad != nil {
		return KindAny, bad
	}
	config.WithEnv(scope.native(usedNames(tree.Node)))
	config.Strict = true
	t, err := checker.Check(tree, config)
	if err != nil {
		return KindAny, located(source, err)
	}
	return kindOf(t), nil
}

// CheckText checks every expression in a text. The kind is that of the value where the text is one expression, else
// that of a text.
func CheckText(text string, scope Scope) (Kind, []*Error) {
	if p, ok := Whole(text); ok {
		kind, bad := Check(p.Text, scope)
		if bad != nil {
			return kind, []*Error{bad.shift(p.Offset)}
		}
		return kind, nil
	}
	parts, bad := Split(text)
	if bad != nil {
		return KindAny, []*Error{bad}
	}
	var all []*Error
	for _, p := range parts {
		if !p.Expr {
			continue
		}
		if _, bad := Check(p.Text, scope); bad != nil {
			all = append(all, bad.shift(p.Offset))
		}
	}
	return KindString, all
}

// located gives an error of the evaluator its place in bytes.
func located(source string, err error) *Error {
	out := &Error{Msg: firstLine(err.Error()), Length: 1}
	var fe *file.Error
	if !errors.As(err, &fe) {
		return out
	}
	out.Msg = fe.Message
	out.Offset = byteOffset(source, fe.From)
	out.Length = max(1, byteOffset(source, fe.To)-out.Offset)
	if name, ok := strings.CutPrefix(out.Msg, "unknown name "); ok && callAt(source, out.Offset+len(name)) {
		out.Msg = fmt.Sprintf("unknown function %q", name)
		out.Hint = suggest(name, Functions(), "functions")
	}
	return out
}

func callAt(source string, at int) bool {
	return at <= len(source) && strings.HasPrefix(strings.TrimLeft(source[at:], " "), "(")
}

// byteOffset turns a count of characters into one of bytes.
func byteOffset(s string, runes int) int {
	for i := range s {
		if runes == 0 {
			return i
		}
		runes--
	}
	return len(s)
}

// names of variables declared by `let` are no business of the scope.
type declared struct{ names []string }

// Visit implements ast.Visitor.
func (d *declared) Visit(node *ast.Node) {
	if v, ok := (*node).(*ast.VariableDeclaratorNode); ok {
		d.names = append(d.names, v.Name)
	}
}

// usage notes which variables an expression names, and which of their fields; a scope may know thousands.
type usage struct {
	fields map[string]map[string]bool // nil for a variable that is used as a whole
	whole  map[string]bool
}

func usedNames(root ast.Node) *usage {
	u := &usage{fields: map[string]map[string]bool{}, whole: map[string]bool{}}
	ast.Walk(&root, u)
	return u
}

// Visit implements ast.Visitor. Children come first, so a variable counts as whole until its member is seen.
func (u *usage) Visit(node *ast.Node) {
	member, ok := (*node).(*ast.MemberNode)
	if !ok {
		if id, isID := (*node).(*ast.IdentifierNode); isID && u.fields[id.Value] == nil {
			u.fields[id.Value] = map[string]bool{}
		}
		return
	}
	id, ok := member.Node.(*ast.IdentifierNode)
	if !ok {
		return
	}
	if prop, isName := member.Property.(*ast.StringNode); isName {
		u.fields[id.Value][prop.Value] = true
		return
	}
	u.whole[id.Value] = true
}

// nameCheck walks member chains such as steps.update.outputs.sha and finds the first name that means nothing.
type nameCheck struct {
	source string
	scope  Scope
	lets   []string
	called map[ast.Node]bool
	first  *Error
}

func checkNames(source string, root ast.Node, scope Scope) *Error {
	var d declared
	ast.Walk(&root, &d)
	c := &nameCheck{source: source, scope: scope, lets: d.names, called: map[ast.Node]bool{}}
	ast.Walk(&root, c)
	return c.first
}

// Visit implements ast.Visitor. Children come before their parents, so the innermost wrong name is met first.
func (c *nameCheck) Visit(node *ast.Node) {
	if c.first != nil {
		return
	}
	switch n := (*node).(type) {
	case *ast.IdentifierNode:
		c.identifier(n)
	case *ast.MemberNode:
		c.member(n)
	}
}

func (c *nameCheck) identifier(n *ast.IdentifierNode) {
	if slices.Contains(c.lets, n.Value) || slices.Contains(own(), n.Value) {
		return
	}
	at := byteOffset(c.source, n.Location().From)
	t, ok := c.scope[n.Value]
	switch {
	case !ok && callAt(c.source, at+len(n.Value)):
		return // a function: the evaluator's checker knows better
	case !ok:
		c.first = &Error{
			Offset: at, Length: len(n.Value), Msg: fmt.Sprintf("unknown name %q", n.Value),
			Hint: suggest(n.Value, names(c.scope), "names here"),
		}
	case t.Absent != "":
		c.first = &Error{Offset: at, Length: len(n.Value), Msg: fmt.Sprintf("%q can't be used here: %s", n.Value, t.Absent)}
	}
}

func (c *nameCheck) member(n *ast.MemberNode) {
	prop, ok := n.Property.(*ast.StringNode)
	if !ok {
		return
	}
	parent, chain, ok := c.typeOf(n.Node)
	if !ok || parent.Kind != KindMap {
		return
	}
	f, known := parent.Fields[prop.Value]
	at := byteOffset(c.source, prop.Location().From)
	bad := &Error{Offset: at, Length: max(1, len(prop.Value))}
	switch {
	case known && f.Absent != "":
		bad.Msg = fmt.Sprintf("%s.%s can't be used here: %s", chain, prop.Value, f.Absent)
	case known || parent.Extra != nil:
		return
	default:
		bad.Msg = fmt.Sprintf("%s has no %q", chain, prop.Value)
		bad.Hint = hyphenated(chain, prop.Value, names(parent.Fields))
		if bad.Hint == "" {
			bad.Hint = suggest(prop.Value, names(parent.Fields), "it has")
		}
	}
	c.first = bad
}

// hyphenated helps with steps.sign-off, which reads as a subtraction.
func hyphenated(chain, name string, known []string) string {
	for _, k := range known {
		if strings.HasPrefix(k, name+"-") {
			return fmt.Sprintf("a name with a hyphen is written %s[%q]", chain, k)
		}
	}
	return ""
}

// typeOf returns the static type of a chain of names, and how it is written.
func (c *nameCheck) typeOf(node ast.Node) (Type, string, bool) {
	switch n := node.(type) {
	case *ast.IdentifierNode:
		t, ok := c.scope[n.Value]
		return t, n.Value, ok && !slices.Contains(c.lets, n.Value)
	case *ast.ChainNode:
		return c.typeOf(n.Node)
	case *ast.MemberNode:
		prop, isName := n.Property.(*ast.StringNode)
		parent, chain, ok := c.typeOf(n.Node)
		if !ok || !isName || parent.Kind != KindMap {
			return Type{}, "", false
		}
		if f, known := parent.Fields[prop.Value]; known {
			return f, chain + "." + prop.Value, true
		}
		if parent.Extra != nil {
			return *parent.Extra, chain + "." + prop.Value, true
		}
	}
	return Type{}, "", false
}
