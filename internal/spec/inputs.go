package spec

import (
	"encoding/json"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec/expression"
)

// values checks the inputs of a run and fills in defaults. Numbers and booleans may come as text, as from a command
// line.
func values(declared map[string]Input, given map[string]any) (map[string]any, error) {
	for _, name := range sortedKeys(given) {
		if _, ok := declared[name]; !ok {
			return nil, promo.Errorf(promo.CodeConfiguration, "pipeline has no input %q", name).
				WithHint("%s", expression.Suggest(name, sortedKeys(declared), "there are"))
		}
	}
	out := make(map[string]any, len(declared))
	for _, name := range sortedKeys(declared) {
		in := declared[name]
		v, set := given[name]
		switch {
		case !set && in.Required && in.Default == nil:
			return nil, promo.Errorf(promo.CodeConfiguration, "input %q is required", name).WithHint("%s", in.Description)
		case !set && in.Default == nil:
			out[name] = in.empty()
			continue
		case !set:
			v = in.Default
		}
		fit, err := in.fit(v)
		if err != nil {
			return nil, promo.Errorf(promo.CodeConfiguration, "input %q: %w", name, err)
		}
		out[name] = fit
	}
	return out, nil
}

// empty is the value of an optional input without default.
func (in Input) empty() any {
	switch in.Type {
	case "number":
		return 0.0
	case "boolean":
		return false
	}
	return ""
}

// maxInput bounds one input's text, since inputs travel in every plan.
const maxInput = 4096

// fit returns the value as the input's type has it.
func (in Input) fit(v any) (any, error) {
	fit, err := in.convert(v)
	if err != nil {
		return nil, err
	}
	if len(in.Allowed) > 0 && !in.allows(fit) {
		return nil, fmt.Errorf("%v is not allowed, allowed are %s", fit, strings.Join(in.allowedTexts(), ", "))
	}
	text, ok := fit.(string)
	if !ok || in.Pattern == "" {
		return fit, nil
	}
	re, err := regexp.Compile(`^(?:` + in.Pattern + `)$`)
	if err != nil {
		return nil, fmt.Errorf("pattern does not compile: %w", err)
	}
	if !re.MatchString(text) {
		return nil, fmt.Errorf("%q does not match %s", text, in.Pattern)
	}
	return fit, nil
}

func (in Input) convert(v any) (any, error) {
	switch in.Type {
	case "number":
		return toNumber(v)
	case "boolean":
		switch t := v.(type) {
		case bool:
			return t, nil
		case string:
			if t == "true" || t == "false" {
				return t == "true", nil
			}
		}
		return nil, fmt.Errorf("must be true or false, found %s", describeAny(v))
	}
	text, ok := v.(string)
	switch {
	case !ok:
		return nil, fmt.Errorf("must be a text, found %s", describeAny(v))
	case len(text) > maxInput || strings.ContainsRune(text, 0):
		return nil, fmt.Errorf("must be a text of at most %d bytes", maxInput)
	}
	return text, nil
}

func toNumber(v any) (any, error) {
	f := 0.0
	var err error
	switch t := v.(type) {
	case float64:
		f = t
	case int:
		f = float64(t)
	case json.Number:
		f, err = t.Float64()
	case string:
		f, err = strconv.ParseFloat(t, 64)
	default:
		err = strconv.ErrSyntax
	}
	if err != nil || math.IsNaN(f) || math.IsInf(f, 0) {
		return nil, fmt.Errorf("must be a number, found %s", describeAny(v))
	}
	return f, nil
}

func describeAny(v any) string {
	switch t := v.(type) {
	case float64, int:
		return fmt.Sprintf("the number %v", t)
	}
	return describe(v)
}

func (in Input) allows(v any) bool {
	return slices.ContainsFunc(in.Allowed, func(a any) bool {
		fit, err := in.convert(a)
		return err == nil && fit == v
	})
}

func (in Input) allowedTexts() []string {
	out := make([]string, len(in.Allowed))
	for i, a := range in.Allowed {
		out[i] = fmt.Sprint(a)
	}
	return out
}
