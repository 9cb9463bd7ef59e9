package policy

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"runtime/metrics"
	"strings"
	"time"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"
	"github.com/open-policy-agent/opa/v1/topdown"

	"github.com/davit-cd/davit/internal/promo"
)

const (
	// EvalTimeout bounds one evaluation of one module: the language promises that more than 1 s denies.
	EvalTimeout = time.Second
	// EvalMemory is how far the heap may grow during one evaluation. Policies of the field need below 10 MiB.
	EvalMemory = 512 << 20
	// MaxInputBytes bounds the input document as JSON.
	MaxInputBytes = 2 << 20

	// sampleAfter keeps ordinary evaluations from being blamed for what the rest of the process allocates: they
	// end long before, even on a busy machine. sampleEvery is how often the heap is looked at from then on.
	sampleAfter = 100 * time.Millisecond
	sampleEvery = 10 * time.Millisecond
	// grace is what a cancelled evaluation gets to notice; a builtin in the middle of its work may not.
	grace = 50 * time.Millisecond
)

// Result is what a module says about an input. Both lists are sorted, without duplicates and never nil.
type Result struct {
	Deny []string `json:"deny"`
	Warn []string `json:"warn"`
	// Failed says that the evaluation itself failed; Deny then says why.
	Failed bool `json:"-"`
}

// Input is a document ready for evaluation: converted once, evaluated by many modules.
type Input struct {
	// JSON is the canonical form: keys sorted, no insignificant space.
	JSON  []byte
	value ast.Value
}

// NewInput converts a document. It is promo.CodeConfiguration when the document isn't JSON or has more than
// MaxInputBytes.
func NewInput(document any) (*Input, error) {
	raw, err := json.Marshal(document)
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "policy input: %w", err)
	}
	return ParseInput(raw)
}

// ParseInput is NewInput for a document that is JSON already.
func ParseInput(raw []byte) (*Input, error) {
	if len(raw) > MaxInputBytes {
		return nil, promo.Errorf(promo.CodeConfiguration, "policy input has %d bytes", len(raw)).
			WithHint("a policy sees at most %d bytes", MaxInputBytes)
	}
	dec := json.NewDecoder(bytes.NewReader(raw))
	dec.UseNumber() // 1e400 and 2^53+1 stay what they are
	var tree any
	if err := dec.Decode(&tree); err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "policy input: %w", err)
	}
	if dec.More() {
		return nil, promo.Errorf(promo.CodeConfiguration, "policy input holds more than one JSON value")
	}
	canonical, err := json.Marshal(tree)
	if err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "policy input: %w", err)
	}
	value, err := ast.InterfaceToValue(tree)
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "policy input: %w", err)
	}
	return &Input{JSON: canonical, value: value}, nil
}

// Eval asks the module about the document at the present time.
//
// Fail closed: an evaluation that errors (a builtin given a wrong value and a rule with two values included),
// runs past EvalTimeout, or needs more than EvalMemory is a Result that denies and says so. The error is
// non-nil only where the document cannot be used or ctx itself ended, so that nothing was decided.
func (m *Module) Eval(ctx context.Context, document any) (Result, error) {
	in, err := NewInput(document)
	if err != nil {
		return Result{}, err
	}
	return m.EvalAt(ctx, in, time.Now())
}

// EvalAt is Eval for a converted input and with the time that the module's time.now_ns returns; with both
// given, the result is always the same.
func (m *Module) EvalAt(ctx context.Context, in *Input, at time.Time) (Result, error) {
	raw, err := m.run(ctx, in, at)
	switch {
	case err == nil:
		return Result{
			Deny: normalise(raw.deny, m.Package+".deny", "denied"),
			Warn: normalise(raw.warn, m.Package+".warn", "warned"),
		}, nil
	case ctx.Err() != nil:
		return Result{}, promo.Errorf(promo.CodeTimeout, "policy %q: %w", m.Name, context.Cause(ctx))
	default:
		return Result{Deny: []string{fmt.Sprintf("policy %q could not be evaluated: %s", m.Name, reason(err))}, Warn: []string{}, Failed: true}, nil
	}
}

// answers are the raw values of both rules; nil where undefined.
type answers struct{ deny, warn any }

// The ways in which an evaluation meets its bounds.
type limitError string

func (e limitError) Error() string { return string(e) }

const (
	errTooMuch = limitError("its result has too many values")
	errTooLong = limitError("it ran longer than 1s")
	errTooBig  = limitError("it needed more than 512 MiB of memory")
)

// outcome is what the evaluating goroutine hands back.
type outcome struct {
	answers
	err error
}

// run evaluates in a goroutine of its own, because a builtin in the middle of its work cannot be interrupted:
// the caller gets its answer in time, the goroutine ends when the builtin does.
func (m *Module) run(ctx context.Context, in *Input, at time.Time) (answers, error) {
	evalCtx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	done := make(chan outcome, 1)
	go func() {
		a, err := m.both(evalCtx, in, at)
		done <- outcome{a, err}
	}()

	o, why := watch(ctx, done, heapBytes)
	if why == nil {
		return o.answers, o.err
	}
	stop(why)
	late := time.NewTimer(grace)
	defer late.Stop()
	select {
	case <-done:
	case <-late.C:
	}
	return answers{}, why
}

// watch waits for the outcome, or says why it no longer may.
func watch(ctx context.Context, done <-chan outcome, heap func() uint64) (outcome, error) {
	deadline := time.NewTimer(EvalTimeout)
	defer deadline.Stop()
	sample := time.NewTimer(sampleAfter)
	defer sample.Stop()
	before := heap()
	for {
		select {
		case o := <-done:
			return o, nil
		case <-ctx.Done():
			return outcome{}, context.Cause(ctx)
		case <-deadline.C:
			return outcome{}, errTooLong
		case <-sample.C:
			now := heap()
			if now > before+EvalMemory {
				return outcome{}, errTooBig
			}
			before = min(before, now) // garbage of others was collected meanwhile
			sample.Reset(sampleEvery)
		}
	}
}

// heapBytes is the size of live and not yet swept objects; reading it does not stop the world.
func heapBytes() uint64 {
	s := []metrics.Sample{{Name: "/memory/classes/heap/objects:bytes"}}
	metrics.Read(s)
	return s[0].Value.Uint64()
}

func (m *Module) both(ctx context.Context, in *Input, at time.Time) (a answers, err error) {
	defer func() { // OPA has panicked on odd numbers before; a policy must not end the server
		if p := recover(); p != nil {
			err = fmt.Errorf("the evaluation panicked: %v", p)
		}
	}()
	if a.deny, err = ask(ctx, m.deny, in, at); err != nil {
		return answers{}, err
	}
	a.warn, err = ask(ctx, m.warn, in, at)
	return a, err
}

func ask(ctx context.Context, q *rego.PreparedEvalQuery, in *Input, at time.Time) (any, error) {
	if q == nil {
		return nil, nil
	}
	rs, err := q.Eval(ctx, rego.EvalParsedInput(in.value), rego.EvalTime(at), rego.EvalGenerateJSON(
		func(t *ast.Term, _ *rego.EvalContext) (any, error) { return plain(t) }))
	if err != nil || len(rs) == 0 {
		return nil, err
	}
	return rs[0].Expressions[0].Value, nil
}

// reason gives OPA's text on one line, without its internal error code.
func reason(err error) string {
	text := err.Error()
	if e, ok := errors.AsType[*topdown.Error](err); ok {
		text = e.Message
		if e.Location != nil {
			text = fmt.Sprintf("%s:%d: %s", e.Location.File, e.Location.Row, e.Message)
		}
	}
	return strings.Join(strings.Fields(text), " ")
}
