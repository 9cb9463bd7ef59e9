package steps

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// maxState bounds what an Again may carry, maxOutputs what a step may answer; both end in workflow histories.
const (
	maxState   = 4 << 10
	maxOutputs = 16 << 10
)

// readConfig fills the type's config, defaults first, from the resolved spec. Unknown keys are errors here too: a
// plan from another version must not be half understood.
func readConfig[T any](t Type, in In) (*T, error) {
	cfg, ok := t.Config().(*T)
	if !ok {
		return nil, promo.Errorf(promo.CodeInternal, "step type %s has a config of another type", t.Kind)
	}
	if len(in.Spec) == 0 {
		return cfg, nil
	}
	dec := json.NewDecoder(bytes.NewReader(in.Spec))
	dec.DisallowUnknownFields()
	dec.UseNumber() // a replica count of 12345678901234567890 must arrive as it was written
	if err := dec.Decode(cfg); err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "spec of step %q: %w", in.Stage.Step, err)
	}
	return cfg, nil
}

// need answers for a port that the step cannot work without.
func need(have bool, in In, what string) error { //nolint:revive // a fact about what is written, not a mode
	if have {
		return nil
	}
	return promo.Errorf(promo.CodeConfiguration, "step %q needs %s, which this server or agent does not have", in.Stage.Step, what)
}

// answer makes a plain success.
func answer(outputs any, format string, a ...any) (Out, error) {
	raw := plan.Encode(outputs)
	if len(raw) > maxOutputs {
		return Out{}, promo.Errorf(promo.CodeInternal, "outputs have %d bytes", len(raw)).WithHint("at most %d are kept", maxOutputs)
	}
	return Out{Outputs: raw, Message: fmt.Sprintf(format, a...)}, nil
}

// again asks for another call that gets the state back.
func again(a Again, state any, format string, args ...any) (Out, error) {
	if state != nil {
		a.State = plan.Encode(state)
	}
	if len(a.State) > maxState {
		return Out{}, promo.Errorf(promo.CodeInternal, "the step's state has %d bytes", len(a.State)).WithHint("at most %d are kept", maxState)
	}
	return Out{Again: &a, Message: fmt.Sprintf(format, args...)}, nil
}

// readState reads what the last Again left; the zero value at the first call.
func readState[T any](in In) (T, error) {
	var s T
	if len(in.State) == 0 {
		return s, nil
	}
	if err := json.Unmarshal(in.State, &s); err != nil {
		return s, promo.Errorf(promo.CodeInternal, "state of step %q: %w", in.Stage.Step, err)
	}
	return s, nil
}

// unresolved reports whether a text still holds an expression, so that a check must let it pass.
func unresolved(s string) bool { return strings.Contains(s, "${{") }

// always is Mutates of types that change the environment whatever their spec is.
func always(json.RawMessage) bool { return true }
