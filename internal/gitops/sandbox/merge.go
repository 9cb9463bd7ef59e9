package sandbox

import (
	"maps"
	"reflect"

	"github.com/davit-cd/davit/internal/gitops/sandbox/render"
)

// merge returns what live becomes when desired is applied over it, as Kubernetes does: fields that desired names
// take its values, fields that only the last applied version named go away, all others stay. None of the
// arguments is changed.
func merge(live, applied, desired render.Object) render.Object {
	merged, ok := mergeValue(live.Fields, applied.Fields, desired.Fields).(map[string]any)
	if !ok {
		return desired.Clone()
	}
	return render.Object{Fields: merged}.Clone()
}

func mergeValue(live, applied, desired any) any {
	switch want := desired.(type) {
	case map[string]any:
		have, ok := live.(map[string]any)
		if !ok {
			return desired
		}
		before, _ := applied.(map[string]any)
		return mergeMap(have, before, want)
	case []any:
		have, ok := live.([]any)
		if !ok {
			return desired
		}
		before, _ := applied.([]any)
		return mergeList(have, before, want)
	default:
		return desired
	}
}

func mergeMap(have, before, want map[string]any) map[string]any {
	out := maps.Clone(want)
	for key, value := range have {
		if wanted, ok := want[key]; ok {
			out[key] = mergeValue(value, before[key], wanted)
		} else if _, dropped := before[key]; !dropped {
			out[key] = value
		}
	}
	return out
}

// mergeList merges lists whose elements have names (containers, ports, environment variables) by name, as
// Kubernetes' merge keys do; any other list is replaced as a whole.
func mergeList(have, before, want []any) []any {
	haveNamed, ok := byName(have)
	wantNamed, ok2 := byName(want)
	if !ok || !ok2 {
		return want
	}
	beforeNamed, _ := byName(before)
	out := make([]any, 0, len(want))
	for _, element := range want {
		name := nameOf(element)
		if old, exists := haveNamed[name]; exists {
			element = mergeValue(old, beforeNamed[name], element)
		}
		out = append(out, element)
	}
	for _, element := range have {
		name := nameOf(element)
		_, wanted := wantNamed[name]
		if _, dropped := beforeNamed[name]; !wanted && !dropped {
			out = append(out, element)
		}
	}
	return out
}

func nameOf(element any) string {
	m, _ := element.(map[string]any)
	name, _ := m["name"].(string)
	return name
}

func byName(list []any) (map[string]any, bool) {
	out := map[string]any{}
	for _, element := range list {
		name := nameOf(element)
		if _, twice := out[name]; name == "" || twice {
			return nil, false
		}
		out[name] = element
	}
	return out, true
}

func same(a, b render.Object) bool { return reflect.DeepEqual(a.Fields, b.Fields) }
