package spec

import (
	"encoding"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/spec/expression"
	"github.com/davit-cd/davit/steps"
)

// decoder fills a struct from the plain values of a document and reports what doesn't fit, with its place.
type decoder struct {
	lang  *Language
	doc   *Document
	diags *Diagnostics
	// uses collects texts with expressions; nil where expressions are not allowed.
	uses  *[]exprUse
	lists int
}

func (d *decoder) report(path, rule, msg, hint string) {
	*d.diags = append(*d.diags, d.doc.at(path, rule, msg, hint))
}

// structure fills a struct.
func (d *decoder) structure(v any, out reflect.Value, path string) {
	m, ok := v.(map[string]any)
	if !ok {
		d.mismatch(v, path, "a map")
		return
	}
	fields := d.lang.fieldsOf(out.Type())
	for _, key := range sortedKeys(m) {
		at := joinPath(path, key)
		i := slices.IndexFunc(fields, func(f field) bool { return f.name == key })
		switch {
		case i < 0:
			d.unknownKey(at, key, fields)
		case fields[i].later:
			*d.diags = append(*d.diags, d.doc.atKey(at, "not-yet", fmt.Sprintf("field %q is %s", key, notYet), "leave it out"))
		default:
			d.field(m[key], out.FieldByIndex(fields[i].index), at, &fields[i])
		}
	}
	for _, f := range fields {
		if _, set := m[f.name]; f.required && !set {
			d.report(path, "required", fmt.Sprintf("%q is missing", f.name), fmt.Sprintf("add %s:", f.name))
		}
	}
	if out.Type() == reflect.TypeFor[Step]() && out.CanAddr() {
		if s, ok := reflect.TypeAssert[*Step](out.Addr()); ok {
			d.stepSpec(s, m, path)
		}
	}
}

func (d *decoder) unknownKey(path, key string, fields []field) {
	var known []string
	for _, f := range fields {
		if !f.later {
			known = append(known, f.name)
		}
	}
	hint := expression.Suggest(key, known, "expected one of")
	if key == "env" || key == "file" {
		hint = "values from the environment or from files are not for applied YAML; use {secret: NAME}"
	}
	*d.diags = append(*d.diags, d.doc.atKey(path, "unknown-key", fmt.Sprintf("unknown key %q", key), hint))
}

// field fills one field and applies the rules of its tags.
func (d *decoder) field(v any, out reflect.Value, path string, f *field) {
	before := len(*d.diags)
	if text, ok := v.(string); ok && len(f.bare) > 0 {
		d.use(exprUse{path: path, text: text, want: expression.KindBoolean, bare: f.bare})
		out.Set(reflect.ValueOf(text).Convert(out.Type()))
		return
	}
	d.value(v, out, path)
	if len(*d.diags) > before || v == nil {
		return
	}
	if text, ok := v.(string); ok && d.uses != nil && expression.Has(text) {
		if len(f.enum) > 0 {
			d.report(path, "value", fmt.Sprintf("%s can't be an expression", f.name), "it shapes the stage; write one of "+strings.Join(f.allowed(), ", "))
		}
		return // known only when it runs
	}
	d.limits(out, path, f)
}

// value fills any value.
func (d *decoder) value(v any, out reflect.Value, path string) {
	if _, refused := v.(unreadable); refused || v == nil && out.Kind() == reflect.Interface {
		return
	}
	if v == nil {
		d.report(path, "type", "value is empty", "give it a value, or leave the key out")
		return
	}
	if text, ok := v.(string); ok && expression.Has(text) && d.expression(text, out.Type(), path) {
		return
	}
	if out.Kind() == reflect.Pointer {
		p := reflect.New(out.Type().Elem())
		d.value(v, p.Elem(), path)
		out.Set(p)
		return
	}
	if d.special(v, out, path) {
		return
	}
	d.plain(v, out, path)
}

// expression notes a text with an expression. It returns true where there is nothing to fill in: because the value is
// known only when it runs, or because no expression may stand here.
func (d *decoder) expression(text string, t reflect.Type, path string) bool {
	if d.uses != nil {
		d.use(exprUse{path: path, text: text, want: wanted(t)})
		kind := deref(t).Kind()
		return kind != reflect.String && kind != reflect.Interface && t != reflect.TypeFor[steps.Text]()
	}
	if strings.HasSuffix(path, ".when") || inInputs(path) {
		return false
	}
	d.report(path, "expression", "no expression is allowed here", "expressions stand in a step's spec and in `when`")
	return true
}

// inInputs reports whether a path lies in a trigger's inputs, whose expressions check_inputs judges.
func inInputs(path string) bool { return strings.HasPrefix(path, "spec.triggers[") }

// special fills types that read themselves.
func (d *decoder) special(v any, out reflect.Value, path string) bool {
	t := out.Type()
	switch {
	case t == reflect.TypeFor[plan.Duration]():
		d.duration(v, out, path)
	case t == reflect.TypeFor[json.RawMessage]():
		if b, err := json.Marshal(v); err == nil {
			out.SetBytes(b)
		}
	case t == reflect.TypeFor[json.Number]():
		return false
	case reflect.PointerTo(t).Implements(reflect.TypeFor[json.Unmarshaler]()):
		d.itself(v, out, path)
	case reflect.PointerTo(t).Implements(reflect.TypeFor[encoding.TextUnmarshaler]()):
		d.itself(v, out, path)
	default:
		return false
	}
	return true
}

func (d *decoder) itself(v any, out reflect.Value, path string) {
	if out.Type() == reflect.TypeFor[steps.Text]() {
		if m, ok := v.(map[string]any); ok {
			var ref SecretRef
			d.structure(m, reflect.ValueOf(&ref).Elem(), path)
			out.Set(reflect.ValueOf(steps.Text{Secret: ref.Secret}))
			return
		}
	}
	b, err := json.Marshal(v)
	if err == nil {
		err = json.Unmarshal(b, out.Addr().Interface())
	}
	if err != nil {
		d.report(path, "type", fmt.Sprintf("value doesn't fit: %v", err), "")
	}
}

func (d *decoder) duration(v any, out reflect.Value, path string) {
	text, ok := v.(string)
	if !ok {
		if n, isNumber := v.(json.Number); isNumber {
			d.report(path, "duration", fmt.Sprintf("duration %s has no unit", n), fmt.Sprintf("write %ss, %sm or %sh", n, n, n))
			return
		}
		d.mismatch(v, path, "a duration")
		return
	}
	dur, err := plan.ParseDuration(text)
	if err != nil {
		d.report(path, "duration", err.Error(), "write a number with a unit, such as 90s, 10m, 1h30m or 3d")
		return
	}
	out.SetInt(int64(dur))
}

// plain fills values of Go's own kinds.
func (d *decoder) plain(v any, out reflect.Value, path string) {
	// the other kinds are no values of the language
	//exhaustive:ignore
	switch out.Kind() {
	case reflect.Struct:
		d.structure(v, out, path)
	case reflect.Map:
		d.mapping(v, out, path)
	case reflect.Slice:
		d.list(v, out, path)
	case reflect.Interface:
		d.free(v, path)
		out.Set(reflect.ValueOf(v))
	case reflect.String:
		d.str(v, out, path)
	case reflect.Bool:
		if b, ok := v.(bool); ok {
			out.SetBool(b)
			return
		}
		d.mismatch(v, path, "true or false")
	case reflect.Int, reflect.Int32, reflect.Int64:
		d.integer(v, out, path)
	case reflect.Float64:
		if n, ok := v.(json.Number); ok {
			f, _ := n.Float64()
			out.SetFloat(f)
			return
		}
		d.mismatch(v, path, "a number")
	default:
		d.report(path, "internal", fmt.Sprintf("the checker knows no %s", out.Type()), "")
	}
}

func (d *decoder) str(v any, out reflect.Value, path string) {
	if s, ok := v.(string); ok {
		out.SetString(s)
		return
	}
	d.mismatch(v, path, "a text")
}

func (d *decoder) integer(v any, out reflect.Value, path string) {
	n, ok := v.(json.Number)
	if !ok {
		d.mismatch(v, path, "a whole number")
		return
	}
	i, err := strconv.ParseInt(n.String(), 10, 32)
	if err != nil {
		d.report(path, "type", fmt.Sprintf("%s is no whole number that fits", n), "")
		return
	}
	out.SetInt(i)
}

func (d *decoder) mapping(v any, out reflect.Value, path string) {
	m, ok := v.(map[string]any)
	if !ok {
		d.mismatch(v, path, "a map")
		return
	}
	out.Set(reflect.MakeMapWithSize(out.Type(), len(m)))
	for _, k := range sortedKeys(m) {
		e := reflect.New(out.Type().Elem()).Elem()
		d.value(m[k], e, joinPath(path, k))
		out.SetMapIndex(reflect.ValueOf(k).Convert(out.Type().Key()), e)
	}
}

func (d *decoder) list(v any, out reflect.Value, path string) {
	l, ok := v.([]any)
	if !ok {
		d.mismatch(v, path, "a list")
		return
	}
	d.lists++
	defer func() { d.lists-- }()
	out.Set(reflect.MakeSlice(out.Type(), len(l), len(l)))
	for i, e := range l {
		d.value(e, out.Index(i), fmt.Sprintf("%s[%d]", path, i))
	}
}

// free notes the expressions below a value of any kind.
func (d *decoder) free(v any, path string) {
	switch t := v.(type) {
	case map[string]any:
		for _, k := range sortedKeys(t) {
			d.freeText(t[k], joinPath(path, k))
		}
	case []any:
		for i, e := range t {
			d.freeText(e, fmt.Sprintf("%s[%d]", path, i))
		}
	}
}

func (d *decoder) freeText(v any, path string) {
	if text, ok := v.(string); ok && d.uses != nil && expression.Has(text) {
		d.use(exprUse{path: path, text: text, want: expression.KindAny})
	}
	d.free(v, path)
}

func (d *decoder) use(u exprUse) {
	if d.uses == nil {
		return
	}
	u.node = d.doc.node(u.path)
	u.list = d.lists > 0
	*d.uses = append(*d.uses, u)
}

// wanted is the kind of value that an expression in a field of this type must have.
func wanted(t reflect.Type) expression.Kind {
	t = deref(t)
	switch {
	case t == reflect.TypeFor[plan.Duration](), t == reflect.TypeFor[steps.Text]():
		return expression.KindString
	case t == reflect.TypeFor[json.RawMessage]():
		return expression.KindAny
	}
	// the other kinds are no values of the language
	//exhaustive:ignore
	switch t.Kind() {
	case reflect.String:
		return expression.KindString
	case reflect.Bool:
		return expression.KindBoolean
	case reflect.Int, reflect.Int32, reflect.Int64, reflect.Float64:
		return expression.KindNumber
	case reflect.Slice:
		return expression.KindList
	case reflect.Map, reflect.Struct:
		return expression.KindMap
	default:
		return expression.KindAny
	}
}

func (d *decoder) mismatch(v any, path, want string) {
	got, hint := describe(v), ""
	if m, ok := v.(map[string]any); ok && len(m) == 1 && m["secret"] != nil {
		hint = "only fields marked as secret take {secret: NAME}"
	}
	if want == "a text" {
		switch v.(type) {
		case bool, json.Number:
			hint = "put it in quotes"
		}
	}
	d.report(path, "type", fmt.Sprintf("needs %s, found %s", want, got), hint)
}

func describe(v any) string {
	switch t := v.(type) {
	case nil:
		return "nothing"
	case string:
		const long = 40
		if len(t) > long {
			return "a text"
		}
		return fmt.Sprintf("the text %q", t)
	case bool:
		return fmt.Sprintf("%v", t)
	case json.Number:
		return "the number " + t.String()
	case []any:
		return "a list"
	}
	return "a map"
}
