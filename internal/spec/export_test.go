package spec

import "gopkg.in/yaml.v3"

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
