package spec

import (
	"reflect"

	"gopkg.in/yaml.v3"
)

// ConfigTypes lists the structs that people fill in, as "<package>.<type>".
func ConfigTypes(l *Language) []string {
	found := map[string]bool{}
	var add func(t reflect.Type)
	add = func(t reflect.Type) {
		t = structOf(t)
		if t == nil || found[t.PkgPath()+"."+t.Name()] {
			return
		}
		found[t.PkgPath()+"."+t.Name()] = true
		for _, f := range fieldsOf(t) {
			add(f.typ)
		}
	}
	add(reflect.TypeFor[Metadata]())
	for _, t := range specTypes() {
		add(t)
	}
	for _, t := range l.types {
		add(reflect.TypeOf(t.Config()))
	}
	return sortedKeys(found)
}

// Plain reads one document as plain values, for the test that compares schema and checker.
func Plain(src []byte) (any, bool) {
	var root yaml.Node
	if yaml.Unmarshal(src, &root) != nil || len(root.Content) == 0 {
		return nil, false
	}
	var diags Diagnostics
	doc := &Document{file: &File{}, nodes: map[string]*yaml.Node{}, keys: map[string]*yaml.Node{}}
	s := &scanner{doc: doc, diags: &diags}
	v := s.scan(root.Content[0], "", 0)
	if len(diags) > 0 {
		return nil, false
	}
	return v, true
}
