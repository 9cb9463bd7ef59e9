package spec

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"

	"github.com/davit-cd/davit/internal/spec/expression"
)

// stepSpec reads a step's spec by its type. Steps of a parallel group and of a group have been read before.
func (d *decoder) stepSpec(s *Step, m map[string]any, path string) {
	if s.Parallel != nil || s.Group != nil {
		return
	}
	if s.Type == "" {
		return // check_names says what is missing
	}
	t, ok := d.lang.types[s.Type]
	switch {
	case ok:
	case slices.Contains(laterSteps(), s.Type):
		d.report(path+".type", "not-yet", fmt.Sprintf("step type %q is %s", s.Type, notYet), "")
		return
	default:
		d.report(path+".type", "step-type", fmt.Sprintf("unknown step type %q", s.Type),
			expression.Suggest(s.Type, d.lang.kinds, "there are"))
		return
	}
	parsed := &stepSpec{config: t.Config(), declared: map[string]any{}}
	s.parsed = parsed
	before := len(*d.diags)
	inner := &decoder{lang: d.lang, doc: d.doc, diags: d.diags, uses: &parsed.uses}
	value, set := m["spec"]
	if set {
		parsed.declared, _ = value.(map[string]any)
	} else {
		value = map[string]any{}
	}
	at := path
	if set {
		at = path + ".spec"
	}
	inner.value(value, reflect.ValueOf(parsed.config).Elem(), at)
	if len(*d.diags) == before && t.Check != nil {
		for _, p := range t.Check(parsed.config) {
			d.report(joinPath(path+".spec", p.Path), "step-spec", p.Msg, p.Hint)
		}
	}
	parsed.full = fullSpec(parsed)
}

// fullSpec is the configuration with every default, so that a plan does not change its meaning when defaults do.
func fullSpec(p *stepSpec) json.RawMessage {
	b, err := json.Marshal(p.config)
	if err != nil {
		return nil
	}
	var defaults any
	if json.Unmarshal(b, &defaults) != nil {
		return nil
	}
	full, err := json.Marshal(overlay(defaults, p.declared))
	if err != nil {
		return nil
	}
	return full
}

// overlay puts what was declared over what the typed configuration has.
func overlay(under, over any) any {
	switch o := over.(type) {
	case map[string]any:
		u, ok := under.(map[string]any)
		if !ok {
			return over
		}
		for k, v := range o {
			u[k] = overlay(u[k], v)
		}
		return u
	case []any:
		u, ok := under.([]any)
		if !ok || len(u) != len(o) {
			return over
		}
		for i := range o {
			u[i] = overlay(u[i], o[i])
		}
		return u
	case nil:
		return under
	}
	return over
}
