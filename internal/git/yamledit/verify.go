package yamledit

import (
	"encoding/json"
	"slices"

	"gopkg.in/yaml.v3"

	"github.com/davit-cd/davit/internal/promo"
)

// verify reads the new text and compares it with the expected tree, all documents of it.
func (e *editor) verify(out []byte) error {
	if len(out) > MaxBytes {
		return promo.Errorf(promo.CodeConfiguration, "the file would have %d bytes", len(out)).
			WithHint("at most %d are allowed", MaxBytes)
	}
	if e.f.json && !json.Valid(out) {
		return promo.Errorf(promo.CodeInternal, "the result isn't JSON any more")
	}
	docs, err := parseDocuments(out)
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "the result isn't readable: %w", err)
	}
	if len(docs) != len(e.f.docs) {
		return promo.Errorf(promo.CodeInternal, "the result has %d documents, not %d", len(docs), len(e.f.docs))
	}
	for i, d := range docs {
		if n := e.differs(e.f.docs[i], d); n != nil {
			return promo.Errorf(promo.CodeInternal, "the result differs at line %d, column %d", n.Line, n.Column)
		}
	}
	return nil
}

// differs returns the first node of got that means something else than want, nil if there is none.
func (e *editor) differs(want, got *yaml.Node) *yaml.Node {
	if want == e.raw {
		if got.Kind == yaml.AliasNode || want.Anchor != got.Anchor {
			return got
		}
		return nil
	}
	if want == e.grown && len(want.Content) == len(got.Content) && len(want.Content) >= 4 {
		want = newLast(want, got)
	}
	if want.Kind != got.Kind || want.Anchor != got.Anchor || want.Value != got.Value || len(want.Content) != len(got.Content) {
		return got
	}
	if want.Kind != yaml.AliasNode && want.ShortTag() != got.ShortTag() {
		return got
	}
	for i := range want.Content {
		if n := e.differs(want.Content[i], got.Content[i]); n != nil {
			return n
		}
	}
	return nil
}

// newLast returns the map that got a new pair with the pair where got has it: last, or before the last one.
func newLast(want, got *yaml.Node) *yaml.Node {
	n := len(want.Content)
	if got.Kind != yaml.MappingNode || got.Content[n-4].Value != want.Content[n-2].Value {
		return want
	}
	c := *want
	c.Content = slices.Concat(want.Content[:n-4], want.Content[n-2:], want.Content[n-4:n-2])
	return &c
}
