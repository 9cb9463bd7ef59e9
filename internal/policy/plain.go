package policy

import (
	"encoding/json"

	"github.com/open-policy-agent/opa/v1/ast"
)

// maxResultValues bounds a rule's value, counted as it unfolds: a list that holds another twice, and so on, is small
// until someone writes it out.
const maxResultValues = 100_000

// plain writes a value out as maps, lists, strings, numbers and booleans. Sets become lists; keys that are no
// strings become their Rego text.
func plain(t *ast.Term) (any, error) {
	left := maxResultValues
	return unfold(t.Value, &left)
}

func unfold(v ast.Value, left *int) (any, error) {
	if *left--; *left < 0 {
		return nil, errTooMuch
	}
	switch v := v.(type) {
	case ast.Null:
		return nil, nil //nolint:nilnil // Rego's null is Go's nil
	case ast.Boolean:
		return bool(v), nil
	case ast.String:
		return string(v), nil
	case ast.Number:
		return json.Number(v), nil
	case *ast.Array:
		return unfoldList(v.Len(), v.Foreach, left)
	case ast.Set:
		return unfoldList(v.Len(), v.Foreach, left)
	case ast.Object:
		return unfoldObject(v, left)
	}
	return v.String(), nil
}

func unfoldList(size int, each func(func(*ast.Term)), left *int) (any, error) {
	out := make([]any, 0, min(size, max(*left, 0)))
	var failed error
	each(func(e *ast.Term) {
		if failed != nil {
			return
		}
		var item any
		if item, failed = unfold(e.Value, left); failed == nil {
			out = append(out, item)
		}
	})
	return out, failed
}

func unfoldObject(o ast.Object, left *int) (any, error) {
	out := make(map[string]any)
	err := o.Iter(func(k, v *ast.Term) error {
		item, err := unfold(v.Value, left)
		if err != nil {
			return err
		}
		key, isString := k.Value.(ast.String)
		if !isString {
			key = ast.String(k.Value.String())
		}
		out[string(key)] = item
		return nil
	})
	return out, err
}
