package policy

import (
	"encoding/json"
	"fmt"
	"slices"
	"unicode/utf8"
)

const (
	// maxReasons bounds how many reasons a result holds; nobody reads the thousandth.
	maxReasons = 1000
	// maxReasonBytes bounds one reason, so that a policy can't return its whole input.
	maxReasonBytes = 2 << 10
)

// normalise turns the value of a deny or warn rule of any kind into reasons. Undefined, null, false, 0, "" and
// empty collections are none. True is one reason that names the rule. A collection that is not empty always
// gives at least one reason, whatever is in it. In an object, empty collections do not count: they are what
// "deny.a contains …" leaves behind when nothing matched.
func normalise(value any, rule, verb string) []string {
	byRule := fmt.Sprintf("%s by %s", verb, rule)
	var reasons []string
	switch v := value.(type) {
	case nil:
	case bool:
		if v {
			reasons = append(reasons, byRule)
		}
	case string:
		if v != "" {
			reasons = append(reasons, v)
		}
	case json.Number:
		if f, err := v.Float64(); err != nil || f != 0 {
			reasons = append(reasons, byRule+": "+v.String())
		}
	case []any:
		reasons = elements(v, byRule)
	case map[string]any:
		reasons = entries(v, byRule)
	default:
		reasons = append(reasons, byRule)
	}
	return tidy(reasons)
}

func elements(list []any, byRule string) []string {
	reasons := make([]string, 0, len(list))
	for _, e := range list {
		reasons = append(reasons, text(e, byRule))
	}
	return reasons
}

// entries reads an object: a message of its own ({"msg": …}) or one reason per key.
func entries(object map[string]any, byRule string) []string {
	if msg, ok := message(object); ok {
		return []string{msg}
	}
	var reasons []string
	for key, value := range object {
		switch v := value.(type) {
		case bool:
			if v {
				reasons = append(reasons, orPlain(key, byRule))
			} else {
				reasons = append(reasons, key+": false")
			}
		case []any:
			reasons = append(reasons, elements(v, byRule)...)
		case map[string]any:
			reasons = append(reasons, entries(v, byRule)...)
		default:
			reasons = append(reasons, key+": "+text(value, byRule))
		}
	}
	return reasons
}

// text gives one element of a collection as a reason.
func text(value any, byRule string) string {
	switch v := value.(type) {
	case string:
		return orPlain(v, byRule)
	case bool:
		if v {
			return byRule
		}
	case map[string]any:
		if msg, ok := message(v); ok {
			return msg
		}
	}
	raw, err := json.Marshal(value)
	if err != nil {
		return byRule
	}
	return string(raw)
}

// message finds the text in the object shapes that other tools taught people to return.
func message(object map[string]any) (string, bool) {
	for _, key := range []string{"msg", "message", "reason"} {
		if s, ok := object[key].(string); ok && s != "" {
			return s, true
		}
	}
	return "", false
}

func orPlain(s, byRule string) string {
	if s == "" {
		return byRule
	}
	return s
}

// tidy sorts, removes duplicates and bounds; it never returns nil, so that JSON shows a list.
func tidy(reasons []string) []string {
	out := make([]string, 0, len(reasons))
	for _, r := range reasons {
		out = append(out, cut(r))
	}
	slices.Sort(out)
	out = slices.Compact(out)
	if extra := len(out) - maxReasons; extra > 0 {
		out = append(out[:maxReasons], fmt.Sprintf("… and %d more", extra))
	}
	return out
}

func cut(s string) string {
	if len(s) <= maxReasonBytes {
		return s
	}
	end := maxReasonBytes
	for end > 0 && !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
