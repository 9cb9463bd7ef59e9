package policy

import (
	"encoding/json"
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/open-policy-agent/opa/v1/ast"
)

func TestPlain(t *testing.T) {
	t.Parallel()
	got, err := plain(ast.MustParseTerm(`{"a": [1, null, true, "x"], "s": {2, 1}, 3: {"k": {}}, ["y"]: set()}`))
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]any{
		"a": []any{json.Number("1"), nil, true, "x"}, "s": []any{json.Number("1"), json.Number("2")},
		"3": map[string]any{"k": map[string]any{}}, `["y"]`: []any{},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("-want +got:\n%s", diff)
	}
}

// TestPlainIsBounded: a value of a hundred terms that would be written out as 2^100.
func TestPlainIsBounded(t *testing.T) {
	t.Parallel()
	list, object := ast.NumberTerm("1"), ast.NumberTerm("1")
	for range 100 {
		list = ast.ArrayTerm(list, list)
		object = ast.ObjectTerm([2]*ast.Term{ast.StringTerm("a"), object}, [2]*ast.Term{ast.StringTerm("b"), object})
	}
	for _, term := range []*ast.Term{list, object} {
		if _, err := plain(term); !errors.Is(err, errTooMuch) {
			t.Errorf("want %v, got %v", errTooMuch, err)
		}
	}
}
