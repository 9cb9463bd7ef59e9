package expression

import (
	"maps"
	"reflect"
	"slices"

	"github.com/expr-lang/expr/types"
)

// Kind is the kind of a value.
type Kind string

// The kinds. KindAny fits everything: its type is known only at run time.
const (
	KindAny     Kind = "anything"
	KindString  Kind = "a text"
	KindNumber  Kind = "a number"
	KindBoolean Kind = "true or false"
	KindMap     Kind = "a map"
	KindList    Kind = "a list"
)

// Type is the static type of a value.
type Type struct {
	Kind Kind
	// Fields are those of a map; Extra, where set, is the type of every other field.
	Fields map[string]Type
	Extra  *Type
	// Absent says why a known name can't be used here; such a name is an error with this reason.
	Absent string
}

// Scope holds the variables that an expression may use.
type Scope map[string]Type

// Any is the type of what is known only at run time.
func Any() Type { return Type{Kind: KindAny} }

// String is the type of texts.
func String() Type { return Type{Kind: KindString} }

// Number is the type of numbers.
func Number() Type { return Type{Kind: KindNumber} }

// Boolean is the type of true and false.
func Boolean() Type { return Type{Kind: KindBoolean} }

// Map is the type of a map with known fields.
func Map(fields map[string]Type) Type { return Type{Kind: KindMap, Fields: fields} }

// Strings is the type of a map from any name to a text, such as labels.
func Strings() Type {
	s := String()
	return Type{Kind: KindMap, Extra: &s}
}

// Absent is a known name that can't be used here, and why.
func Absent(why string) Type { return Type{Kind: KindAny, Absent: why} }

// With returns the scope with more variables.
func (s Scope) With(more Scope) Scope {
	out := maps.Clone(s)
	maps.Copy(out, more)
	return out
}

// names lists what may be written, sorted.
func names(fields map[string]Type) []string {
	var out []string
	for _, n := range slices.Sorted(maps.Keys(fields)) {
		if fields[n].Absent == "" {
			out = append(out, n)
		}
	}
	return out
}

// native is the type as the evaluator's checker knows it.
func (t Type) native() types.Type {
	switch t.Kind {
	case KindString:
		return types.String
	case KindNumber:
		return types.Float64
	case KindBoolean:
		return types.Bool
	case KindList:
		return types.TypeOf([]any{})
	case KindMap:
		m := types.Map{}
		for n, f := range t.Fields {
			m[n] = f.native()
		}
		if t.Extra != nil {
			m[types.Extra] = t.Extra.native()
		}
		return m
	case KindAny:
	}
	return types.Any
}

// native has what the expression names: of a map only the fields that are used, where it is used by fields.
func (s Scope) native(used *usage) types.Map {
	m := types.Map{}
	for n, fields := range used.fields {
		t, ok := s[n]
		if !ok {
			continue
		}
		if len(fields) > 0 && !used.whole[n] && t.Kind == KindMap {
			some := Type{Kind: KindMap, Fields: map[string]Type{}, Extra: t.Extra}
			for f := range fields {
				if ft, known := t.Fields[f]; known {
					some.Fields[f] = ft
				}
			}
			t = some
		}
		m[n] = t.native()
	}
	return m
}

// kindOf says of which kind an expression's result is.
func kindOf(t reflect.Type) Kind {
	if t == nil {
		return KindAny
	}
	// the other kinds are no values of the language
	//exhaustive:ignore
	switch t.Kind() {
	case reflect.String:
		return KindString
	case reflect.Bool:
		return KindBoolean
	case reflect.Int, reflect.Int8, reflect.Int16, reflect.Int32, reflect.Int64,
		reflect.Uint, reflect.Uint8, reflect.Uint16, reflect.Uint32, reflect.Uint64,
		reflect.Float32, reflect.Float64:
		return KindNumber
	case reflect.Map:
		return KindMap
	case reflect.Slice, reflect.Array:
		return KindList
	default:
		return KindAny
	}
}
