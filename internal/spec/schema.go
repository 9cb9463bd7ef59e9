package spec

import (
	_ "embed"
	"encoding/json"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/steps"
)

// comments holds the comments of the structs that people configure, by "<package>.<type>" and
// "<package>.<type>.<field>". The binary has no sources, so they are taken along.
//
//go:generate go test . -run TestComments -update
//go:embed comments.json
var comments []byte

func commentMap() map[string]string {
	m := map[string]string{}
	if json.Unmarshal(comments, &m) != nil {
		return nil // a test reads the file, so it can be read
	}
	return m
}

const (
	schemaDraft = "https://json-schema.org/draft/2020-12/schema"
	// expressionText matches what may stand for a value of any type in a step's spec.
	expressionText = `\$\{\{`
	durationText   = `^([0-9]{1,4}d)?([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))*$`
)

// Schema returns the JSON Schema of a document, for editors. It knows the shape of documents; references and the
// rules between things only Check knows.
func (l *Language) Schema() []byte {
	b := &schemaBuilder{defs: map[string]any{}, comments: commentMap()}
	root := b.root(l)
	return b.finish(root)
}

// StepSchema returns the JSON Schema of a step type's spec.
func (l *Language) StepSchema(kind string) ([]byte, bool) {
	t, ok := l.types[kind]
	if !ok {
		return nil, false
	}
	b := &schemaBuilder{defs: map[string]any{}, comments: commentMap()}
	root := map[string]any{"title": t.Kind, "description": t.Summary}
	maps.Copy(root, b.ref(deref(reflect.TypeOf(t.Config())), inStep))
	return b.finish(root), true
}

// schemaBuilder collects the definitions that a schema needs.
type schemaBuilder struct {
	defs     map[string]any
	comments map[string]string
}

func (b *schemaBuilder) finish(root map[string]any) []byte {
	root["$schema"] = schemaDraft
	root["$defs"] = b.defs
	out, err := json.MarshalIndent(root, "", "  ")
	if err != nil {
		return nil // maps, lists and texts always marshal
	}
	return append(out, '\n')
}

func (b *schemaBuilder) root(l *Language) map[string]any {
	types := specTypes()
	var cases []any
	for _, kind := range Kinds() {
		then := map[string]any{"properties": map[string]any{"spec": b.ref(types[kind], outside)}}
		if kind != KindProject {
			then["required"] = []any{"spec"}
		}
		cases = append(cases, map[string]any{"if": whereIs("kind", kind), "then": then})
	}
	b.stepCases(l)
	return map[string]any{
		"title":                "Davit",
		"description":          "A document of Davit, " + APIVersion + ".",
		"type":                 "object",
		"required":             []any{"apiVersion", "kind", "metadata"},
		"additionalProperties": false,
		"properties": map[string]any{
			"apiVersion": map[string]any{"const": APIVersion},
			"kind":       map[string]any{"enum": anys(Kinds()), "description": "What the document declares."},
			"metadata":   b.ref(reflect.TypeFor[Metadata](), outside),
			"spec":       true,
		},
		"allOf": cases,
	}
}

// stepCases tells the spec of a step by its type.
func (b *schemaBuilder) stepCases(l *Language) {
	name := defName(reflect.TypeFor[Step](), outside)
	step, ok := b.defs[name].(map[string]any)
	if !ok {
		return
	}
	var cases []any
	for _, kind := range l.kinds {
		t := deref(reflect.TypeOf(l.types[kind].Config()))
		then := map[string]any{"properties": map[string]any{"spec": b.ref(t, inStep)}}
		if slices.ContainsFunc(fieldsOf(t), func(f field) bool { return f.required }) {
			then["required"] = []any{"spec"}
		}
		cases = append(cases, map[string]any{"if": whereIs("type", kind), "then": then})
	}
	step["allOf"] = cases
	if props, ok := step["properties"].(map[string]any); ok {
		props["type"] = map[string]any{"enum": anys(l.kinds), "description": "What the step does."}
	}
}

func whereIs(property, value string) map[string]any {
	return map[string]any{
		"properties": map[string]any{property: map[string]any{"const": value}}, "required": []any{property},
	}
}

func anys(list []string) []any {
	out := make([]any, len(list))
	for i, s := range list {
		out[i] = s
	}
	return out
}

// flavour tells a struct's definition in a step's spec, where expressions may stand for values, from the other ones.
type flavour string

const (
	outside flavour = ""
	inStep  flavour = "step:"
)

// defName names a definition.
func defName(t reflect.Type, f flavour) string {
	pkg := t.PkgPath()[strings.LastIndexByte(t.PkgPath(), '/')+1:]
	return string(f) + strings.TrimSuffix(pkg, "_test") + "." + t.Name()
}

// ref returns a reference to a struct's definition, which it makes if need be.
func (b *schemaBuilder) ref(t reflect.Type, f flavour) map[string]any {
	name := defName(t, f)
	ref := map[string]any{"$ref": "#/$defs/" + name}
	if _, made := b.defs[name]; made {
		return ref
	}
	b.defs[name] = map[string]any{} // a step holds steps
	r := &jsonschema.Reflector{
		Anonymous: true, DoNotReference: true, RequiredFromJSONSchemaTags: true, CommentMap: b.comments,
		Mapper: func(inner reflect.Type) *jsonschema.Schema { return b.mapped(t, inner) },
	}
	def := generic(r.ReflectFromType(t))
	delete(def, "$schema")
	b.structure(def, t, f)
	b.defs[name] = def
	return ref
}

// mapped answers for types that the reflector must not look into: other structs get definitions of their own.
func (b *schemaBuilder) mapped(outer, t reflect.Type) *jsonschema.Schema {
	switch {
	case t == outer:
		return nil
	case t == reflect.TypeFor[plan.Duration]():
		return &jsonschema.Schema{Type: "string", MinLength: new(uint64(1)), Pattern: durationText}
	case t == reflect.TypeFor[json.RawMessage]() || t.Kind() == reflect.Interface:
		return jsonschema.TrueSchema
	case t.Kind() == reflect.Struct || t.Kind() == reflect.Slice || t.Kind() == reflect.Map || t.Kind() == reflect.Pointer:
		return &jsonschema.Schema{} // filled in by typed
	}
	return nil
}

func generic(s *jsonschema.Schema) map[string]any {
	out := map[string]any{}
	b, err := json.Marshal(s)
	if err == nil {
		err = json.Unmarshal(b, &out)
	}
	if err != nil {
		return map[string]any{}
	}
	return out
}

// structure goes over a struct's definition: what this version lacks goes, the types of fields come in full.
func (b *schemaBuilder) structure(def map[string]any, t reflect.Type, in flavour) {
	props, _ := def["properties"].(map[string]any)
	for _, f := range fieldsOf(t) {
		if f.later {
			delete(props, f.name)
			continue
		}
		prop := b.typed(f.typ, &f, in)
		if old, ok := props[f.name].(map[string]any); ok {
			for _, keep := range []string{"description", "default"} {
				if v, has := old[keep]; has {
					prop[keep] = v
				}
			}
		}
		if props == nil {
			props = map[string]any{}
			def["properties"] = props
		}
		props[f.name] = prop
	}
	def["additionalProperties"] = false
}

// typed is the schema of a type, with the limits of the field that has it.
func (b *schemaBuilder) typed(t reflect.Type, f *field, in flavour) map[string]any {
	s := b.exact(t, f, in)
	if in == outside || s["type"] == nil && s["$ref"] == nil && s["anyOf"] == nil {
		return s
	}
	if s["type"] == "string" && (len(s) == 1 || s["enum"] != nil) {
		return s // texts hold expressions anyway; a choice shapes the stage and is fixed
	}
	return map[string]any{"anyOf": []any{s, map[string]any{"type": "string", "pattern": expressionText}}}
}

func (b *schemaBuilder) exact(t reflect.Type, f *field, in flavour) map[string]any {
	switch {
	case t.Kind() == reflect.Pointer:
		return b.exact(t.Elem(), f, in)
	case t == reflect.TypeFor[plan.Duration]():
		return map[string]any{"type": "string", "minLength": 1, "pattern": durationText}
	case t == reflect.TypeFor[steps.Text]():
		return map[string]any{"anyOf": []any{map[string]any{"type": "string"}, b.ref(reflect.TypeFor[SecretRef](), outside)}}
	case t == reflect.TypeFor[json.RawMessage]():
		return map[string]any{}
	case t.Implements(unmarshaler()) || reflect.PointerTo(t).Implements(unmarshaler()):
		return map[string]any{}
	}
	// the other kinds are no values of the language
	//exhaustive:ignore
	switch t.Kind() {
	case reflect.Struct:
		return b.ref(t, in)
	case reflect.Slice:
		s := map[string]any{"type": "array", "items": b.typed(t.Elem(), itemLimits(f), in)}
		if f != nil && f.minItems > 0 {
			s["minItems"] = f.minItems
		}
		return s
	case reflect.Map:
		return map[string]any{"type": "object", "additionalProperties": b.typed(t.Elem(), nil, in)}
	default:
		return scalar(t, f)
	}
}

func unmarshaler() reflect.Type { return reflect.TypeFor[json.Unmarshaler]() }

// itemLimits are the limits of a list's elements: those of the field, but for the number of elements.
func itemLimits(f *field) *field {
	if f == nil {
		return nil
	}
	c := *f
	c.minItems = 0
	return &c
}

func scalar(t reflect.Type, f *field) map[string]any {
	s := map[string]any{}
	// the other kinds are no values of the language
	//exhaustive:ignore
	switch t.Kind() {
	case reflect.String:
		s["type"] = "string"
	case reflect.Bool:
		s["type"] = "boolean"
	case reflect.Int, reflect.Int32, reflect.Int64:
		s["type"] = "integer"
	case reflect.Float64:
		s["type"] = "number"
	default:
		return s
	}
	if f == nil {
		return s
	}
	if t.Kind() == reflect.String {
		if len(f.enum) > 0 {
			s["enum"] = anys(f.allowed())
		}
		if f.pattern != nil {
			s["pattern"] = f.pattern.String()
		}
		return s
	}
	if f.min != nil {
		s["minimum"] = *f.min
	}
	if f.max != nil {
		s["maximum"] = *f.max
	}
	return s
}
