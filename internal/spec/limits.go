package spec

import (
	"fmt"
	"reflect"
	"slices"
	"strings"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/spec/expression"
)

// limits applies the limits of a field's tags to its value.
func (d *decoder) limits(out reflect.Value, path string, f *field) {
	out = reflect.Indirect(out)
	// the other kinds are no values of the language
	//exhaustive:ignore
	switch out.Kind() {
	case reflect.Slice:
		if out.Len() < f.minItems {
			d.report(path, "required", "list is empty", fmt.Sprintf("at least %d", f.minItems))
		}
		for i := range out.Len() {
			if e := out.Index(i); e.Kind() == reflect.String {
				d.text(e.String(), fmt.Sprintf("%s[%d]", path, i), f)
			}
		}
	case reflect.String:
		d.text(out.String(), path, f)
	case reflect.Int, reflect.Int64, reflect.Float64:
		d.between(out, path, f)
	default:
	}
}

func (d *decoder) between(out reflect.Value, path string, f *field) {
	if out.Type() == reflect.TypeFor[plan.Duration]() {
		return
	}
	var v float64
	if out.CanInt() {
		v = float64(out.Int())
	} else {
		v = out.Float()
	}
	if f.min != nil && v < *f.min {
		d.report(path, "value", fmt.Sprintf("%v is too small", v), fmt.Sprintf("at least %v", *f.min))
	}
	if f.max != nil && v > *f.max {
		d.report(path, "value", fmt.Sprintf("%v is too large", v), fmt.Sprintf("at most %v", *f.max))
	}
}

func (d *decoder) text(v, path string, f *field) {
	switch {
	case d.uses != nil && expression.Has(v):
	case len(f.enum) > 0 && slices.Contains(f.laterOf, v):
		d.report(path, "not-yet", fmt.Sprintf("%s %q is %s", f.name, v, notYet), "use "+strings.Join(f.allowed(), ", "))
	case len(f.enum) > 0 && !slices.Contains(f.enum, v):
		d.report(path, "value", fmt.Sprintf("%s can't be %q", f.name, v), expression.Suggest(v, f.allowed(), "expected one of"))
	case f.pattern != nil && !f.pattern.MatchString(v):
		hint := fmt.Sprintf("must match %s", f.pattern)
		if strings.HasPrefix(f.pattern.String(), "^[a-z]") {
			hint = "small letters, digits and hyphens, a letter first, at most 63"
		}
		d.report(path, "names", fmt.Sprintf("%s can't be %q", f.name, v), hint)
	}
}
