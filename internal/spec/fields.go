package spec

import (
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// field is one field of a config struct, with what its tags say. The tags are those of the schema, so that the
// checker and the schema can't disagree.
type field struct {
	name     string
	index    []int
	typ      reflect.Type
	required bool
	enum     []string
	later    bool     // the field
	laterOf  []string // values
	pattern  *regexp.Regexp
	min, max *float64
	minItems int
	bare     []string // names in scope of an expression without braces
}

// fieldsOf is the function of that name, once per type. The list is shared: callers don't alter it.
func (l *Language) fieldsOf(t reflect.Type) []field {
	if known, ok := l.fields.Load(t); ok {
		if list, ok := known.([]field); ok {
			return list
		}
	}
	list := fieldsOf(t)
	l.fields.Store(t, list)
	return list
}

// fieldsOf lists the fields of a struct that JSON sees, embedded ones included.
func fieldsOf(t reflect.Type) []field {
	var out []field
	for i := range t.NumField() {
		f := t.Field(i)
		name, _, _ := strings.Cut(f.Tag.Get("json"), ",")
		if f.Anonymous && name == "" {
			for _, inner := range fieldsOf(deref(f.Type)) {
				inner.index = append([]int{i}, inner.index...)
				out = append(out, inner)
			}
			continue
		}
		if !f.IsExported() || name == "-" {
			continue
		}
		if name == "" {
			name = f.Name
		}
		fd := field{name: name, index: []int{i}, typ: f.Type}
		fd.readSchemaTag(f.Tag.Get("jsonschema"))
		fd.readOwnTag(f.Tag.Get("davit"))
		out = append(out, fd)
	}
	return out
}

func deref(t reflect.Type) reflect.Type {
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	return t
}

func (f *field) readSchemaTag(tag string) {
	for _, part := range splitTag(tag) {
		key, value, _ := strings.Cut(part, "=")
		switch key {
		case "required":
			f.required = true
		case "enum":
			f.enum = append(f.enum, value)
		case "pattern":
			f.pattern, _ = regexp.Compile(value)
		case "minimum":
			f.min = number(value)
		case "maximum":
			f.max = number(value)
		case "minItems":
			f.minItems, _ = strconv.Atoi(value)
		}
	}
}

// splitTag cuts at commas that no backslash precedes, as the schema's reader does.
func splitTag(tag string) []string {
	if tag == "" {
		return nil
	}
	var out []string
	start := 0
	for i := 0; i < len(tag); i++ {
		if tag[i] == ',' && (i == 0 || tag[i-1] != '\\') {
			out = append(out, strings.ReplaceAll(tag[start:i], `\,`, ","))
			start = i + 1
		}
	}
	return append(out, strings.ReplaceAll(tag[start:], `\,`, ","))
}

func number(s string) *float64 {
	v, err := strconv.ParseFloat(s, 64)
	if err != nil {
		return nil
	}
	return &v
}

func (f *field) readOwnTag(tag string) {
	for part := range strings.SplitSeq(tag, ",") {
		key, value, has := strings.Cut(part, "=")
		switch {
		case key == "later" && !has:
			f.later = true
		case key == "later":
			f.laterOf = strings.Split(value, "|")
		case key == "expr":
			f.bare = strings.Split(value, "|")
		}
	}
}

// allowed lists the values of an enum that this version has.
func (f *field) allowed() []string {
	return slices.DeleteFunc(slices.Clone(f.enum), func(v string) bool { return slices.Contains(f.laterOf, v) })
}
