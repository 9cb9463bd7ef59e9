package spec

import (
	"fmt"
	"strings"

	"gopkg.in/yaml.v3"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/spec/expression"
)

// expressions checks every expression of the stage against what is in scope at its place.
func (s *stageCheck) expressions() {
	if w := when(s.stage.When); w.Expr != "" {
		s.condition(s.path+".when", s.stage.When, s.stageScope())
	}
	for i, p := range s.steps {
		conditional := when(p.step.When).Expr != ""
		var uses []exprUse
		if p.step.parsed != nil {
			uses = p.step.parsed.uses
		}
		if !conditional && len(uses) == 0 {
			continue
		}
		scope := s.stepScope(i)
		if conditional {
			s.condition(p.path+".when", p.step.When, scope)
		}
		for _, use := range uses {
			s.use(use, scope, p)
		}
	}
}

// condition checks a `when`.
func (s *stageCheck) condition(path, text string, scope expression.Scope) {
	node := s.doc.node(path)
	source := condition(text)
	kind, bad := expression.Check(source, scope)
	if bad == nil && kind != expression.KindBoolean && kind != expression.KindAny {
		bad = &expression.Error{Msg: fmt.Sprintf("a condition must be true or false, found %s", kind), Length: len(source)}
	}
	if bad == nil {
		return
	}
	if !expression.Has(text) {
		bad.Hint = strings.TrimSpace(bad.Hint)
		*s.diags = append(*s.diags, s.bare(path, text, bad))
		return
	}
	part, _ := expression.Whole(text)
	bad.Offset += part.Offset
	*s.diags = append(*s.diags, s.doc.file.inText(node, bad, "expression", bad.Msg))
}

// bare places a message inside an expression without braces.
func (s *stageCheck) bare(path, text string, bad *expression.Error) Diagnostic {
	node := s.doc.node(path)
	d := s.doc.at(path, "expression", bad.Msg, bad.Hint)
	if strings.Contains(text, "\n") || bad.Offset > len(text) {
		return d
	}
	column := node.Column + len([]rune(text[:bad.Offset]))
	if strings.HasPrefix(cutRunes(d.Source, node.Column-1), `"`) || strings.HasPrefix(cutRunes(d.Source, node.Column-1), "'") {
		column++
	}
	return s.doc.file.place(node.Line, column, max(1, bad.Length), d)
}

// use checks one text of a step's spec.
func (s *stageCheck) use(u exprUse, scope expression.Scope, p placed) {
	if len(u.bare) > 0 {
		s.bareUse(u, scope)
		return
	}
	kind, bad := expression.CheckText(u.text, scope)
	if len(bad) == 0 && !fits(kind, u.want) {
		bad = append(bad, misfit(u, kind))
	}
	if len(bad) == 0 && !u.list && p.typ.Scope == plan.ScopeChange && s.widest() > 1 && expression.Mentions(u.text, expression.VarTarget) {
		bad = append(bad, &expression.Error{
			Offset: strings.Index(u.text, "${{"), Length: len("${{"),
			Msg:  fmt.Sprintf("step %q covers several targets, so `target` is not one of them here", p.step.Name),
			Hint: "use target in the elements of a list, such as files; they are repeated for each target",
		})
	}
	s.inText(u.node, bad)
}

func (s *stageCheck) inText(node *yaml.Node, bad []*expression.Error) {
	for _, e := range bad {
		*s.diags = append(*s.diags, s.doc.file.inText(node, e, "expression", e.Msg))
	}
}

// misfit is an expression whose value is of another kind than its field.
func misfit(u exprUse, kind expression.Kind) *expression.Error {
	bad := &expression.Error{Msg: fmt.Sprintf("needs %s, found %s", u.want, kind), Length: 1}
	if u.want == expression.KindString {
		bad.Hint = "string(…) makes a text of it"
	}
	if part, whole := expression.Whole(u.text); whole {
		bad.Offset, bad.Length = part.Offset, len(part.Text)
	}
	return bad
}

// bareUse checks an expression without braces over names that the step type gives it. With an expression inside it
// is known only at run time.
func (s *stageCheck) bareUse(u exprUse, scope expression.Scope) {
	if expression.Has(u.text) {
		_, bad := expression.CheckText(u.text, scope)
		s.inText(u.node, bad)
		return
	}
	own := expression.Scope{}
	for _, name := range u.bare {
		own[name] = expression.Any()
	}
	kind, bad := expression.Check(u.text, own)
	if bad == nil && !fits(kind, expression.KindBoolean) {
		bad = &expression.Error{Msg: fmt.Sprintf("a condition must be true or false, found %s", kind), Length: len(u.text)}
	}
	if bad != nil {
		*s.diags = append(*s.diags, s.bare(u.path, u.text, bad))
	}
}

func fits(kind, want expression.Kind) bool {
	return kind == want || kind == expression.KindAny || want == expression.KindAny
}
