package spec

import (
	"encoding/json"
	"fmt"
	"reflect"
	"strings"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/steps"
)

// Explain describes a kind of document or a step type for people: fields with type, default and meaning, and for
// steps what they give and where they run.
func (l *Language) Explain(kind string) (string, bool) {
	e := &explainer{comments: commentMap()}
	if t, ok := l.types[kind]; ok {
		e.step(t)
		return e.out.String(), true
	}
	if spec := newSpec(kind); spec != nil {
		fmt.Fprintf(&e.out, "%s (kind of document)\n\n", kind)
		e.text(deref(reflect.TypeOf(spec)))
		e.out.WriteString("spec:\n")
		e.fields(reflect.ValueOf(spec).Elem(), "  ", map[reflect.Type]bool{})
		return e.out.String(), true
	}
	return "", false
}

type explainer struct {
	out      strings.Builder
	comments map[string]string
}

func (e *explainer) step(t steps.Type) {
	fmt.Fprintf(&e.out, "%s (step type): %s\n\n", t.Kind, t.Summary)
	where := "on the server"
	switch {
	case t.Gate:
		where = "in the run itself; waiting costs nothing"
	case t.Agent:
		where = "on the target's agent"
	}
	often := map[plan.Scope]string{
		plan.ScopeStage: "once for the stage", plan.ScopeTarget: "once per target", plan.ScopeChange: "once per change (see changes:)",
	}
	fmt.Fprintf(&e.out, "runs %s, %s; timeout %s\n\nspec:\n", often[t.Scope], where, plan.Duration(t.Timeout))
	e.fields(reflect.ValueOf(t.Config()).Elem(), "  ", map[reflect.Type]bool{})
	if len(t.Outputs) > 0 {
		e.out.WriteString("\noutputs:\n")
		for _, name := range sortedKeys(t.Outputs) {
			fmt.Fprintf(&e.out, "  %-24s %s\n", name, t.Outputs[name])
		}
	}
	e.out.WriteString("\nfailures: " + failures(t) + "\n")
}

// failures lists the codes with which a step of this type may end, as strategies name them.
func failures(t steps.Type) string {
	switch t.Kind {
	case typeApproval:
		return "Approval (rejected or expired)"
	case typePolicy:
		return "Policy (denied), Configuration, Timeout"
	case typeWait:
		return "Timeout"
	case "Verify":
		return "Verification (judged bad), Connectivity, RateLimit, Configuration, Timeout"
	case "Sync":
		return "Sync, Health, Conflict (overtaken), Connectivity, NotFound, Configuration, Timeout"
	}
	switch t.Scope {
	case plan.ScopeChange:
		return "Configuration, Conflict, NotFound, Authentication, Authorization, RateLimit, Connectivity, Timeout"
	case plan.ScopeStage, plan.ScopeTarget:
	}
	return "Configuration, NotFound, Authorization, Connectivity, RateLimit, Timeout"
}

func (e *explainer) text(t reflect.Type) {
	if c := e.comments[t.PkgPath()+"."+t.Name()]; c != "" {
		fmt.Fprintf(&e.out, "%s\n\n", c)
	}
}

// fields writes the fields of a struct, structs inside it indented. A struct inside itself is named only.
func (e *explainer) fields(v reflect.Value, indent string, open map[reflect.Type]bool) {
	t := v.Type()
	open[t] = true
	defer delete(open, t)
	for _, f := range fieldsOf(t) {
		if f.later {
			continue
		}
		value := v.FieldByIndex(f.index)
		head := fmt.Sprintf("%s%s (%s%s)", indent, f.name, typeText(&f), facts(&f, value))
		fmt.Fprintf(&e.out, "%s\n", head)
		if doc := e.doc(t, &f); doc != "" {
			fmt.Fprintf(&e.out, "%s    %s\n", indent, doc)
		}
		if inner := structOf(f.typ); inner != nil && !open[inner] {
			e.fields(innerValue(value, inner), indent+"    ", open)
		}
	}
}

// doc is a field's comment in the words of the file: it begins with the key, not with Go's name for it.
func (e *explainer) doc(t reflect.Type, f *field) string {
	name := t.FieldByIndex(f.index).Name
	doc := strings.ReplaceAll(e.comments[t.PkgPath()+"."+t.Name()+"."+name], "\n", " ")
	if rest, ok := strings.CutPrefix(doc, name+" "); ok {
		return f.name + " " + rest
	}
	return doc
}

// innerValue is the struct itself where it is there, so that its defaults are seen.
func innerValue(v reflect.Value, t reflect.Type) reflect.Value {
	if v.Type() == t {
		return v
	}
	return reflect.New(t).Elem()
}

// structOf is the struct that a field holds, in a list or map perhaps; nil where it holds none.
func structOf(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer || t.Kind() == reflect.Slice || t.Kind() == reflect.Map {
		if t == reflect.TypeFor[json.RawMessage]() {
			return nil
		}
		t = t.Elem()
	}
	if t.Kind() != reflect.Struct || t == reflect.TypeFor[steps.Text]() || reflect.PointerTo(t).Implements(unmarshaler()) {
		return nil
	}
	return t
}

func typeText(f *field) string {
	if len(f.enum) > 0 {
		return strings.Join(f.allowed(), " | ")
	}
	return goType(f.typ)
}

func goType(t reflect.Type) string {
	switch {
	case t == reflect.TypeFor[plan.Duration]():
		return "duration"
	case t == reflect.TypeFor[steps.Text]():
		return "text or {secret: NAME}"
	case t == reflect.TypeFor[json.RawMessage](), t.Kind() == reflect.Interface:
		return "any"
	}
	// the other kinds are no values of the language
	//exhaustive:ignore
	switch t.Kind() {
	case reflect.Pointer:
		return goType(t.Elem())
	case reflect.Slice:
		return "list of " + goType(t.Elem())
	case reflect.Map:
		return "map to " + goType(t.Elem())
	case reflect.Struct:
		return "map"
	case reflect.Bool:
		return "true | false"
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
		return "number"
	default:
		return "text"
	}
}

// facts says whether a field is required and what its default is.
func facts(f *field, v reflect.Value) string {
	if f.required {
		return ", required"
	}
	if v.IsZero() || structOf(f.typ) != nil {
		return ""
	}
	if v.Type() == reflect.TypeFor[plan.Duration]() {
		return fmt.Sprintf(", default %s", plan.Duration(v.Int()))
	}
	// the other kinds are no values of the language
	//exhaustive:ignore
	switch v.Kind() {
	case reflect.String, reflect.Bool, reflect.Int, reflect.Int64, reflect.Float64:
		return fmt.Sprintf(", default %v", v.Interface())
	default:
		return ""
	}
}
