package policy

import (
	"context"
	"encoding/json"

	"github.com/open-policy-agent/opa/v1/ast"
	"github.com/open-policy-agent/opa/v1/rego"

	"github.com/davit-cd/davit/internal/promo"
)

// Query is a prepared question to modules that belong together and ship with Davit, such as access control.
// Modules of people are compiled by Compile instead, each alone. It is safe for concurrent use.
type Query struct{ prepared rego.PreparedEvalQuery }

// NewQuery compiles the modules (Rego v1) together and prepares the question, for example "data.davit.access.decision".
func NewQuery(ctx context.Context, question string, sources []Source) (*Query, error) {
	modules := map[string]*ast.Module{}
	for _, src := range sources {
		m, failure := parseAs(src, DialectV1)
		if failure != nil {
			return nil, refuse(src, failure)
		}
		modules[src.Name] = m
	}
	compiler := ast.NewCompiler().WithCapabilities(capabilities(ast.RegoV1))
	compiler.Compile(modules)
	if compiler.Failed() {
		return nil, promo.Errorf(promo.CodeConfiguration, "%w", compileError(Source{Name: question}, compiler.Errors))
	}
	q, err := rego.New(rego.Query(question), rego.Compiler(compiler), rego.StrictBuiltinErrors(true)).PrepareForEval(ctx)
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "%q: %w", question, err)
	}
	return &Query{prepared: q}, nil
}

// Ask evaluates the question on the input and decodes the answer into out. An undefined answer is
// promo.CodeInternal. It is bounded by EvalTimeout.
func (q *Query) Ask(ctx context.Context, input, out any) error {
	ctx, cancel := context.WithTimeoutCause(ctx, EvalTimeout, errTooLong)
	defer cancel()
	value, err := ast.InterfaceToValue(input)
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "policy: %w", err)
	}
	rs, err := q.prepared.Eval(ctx, rego.EvalParsedInput(value))
	switch {
	case ctx.Err() != nil:
		return promo.Errorf(promo.CodeTimeout, "policy: %w", context.Cause(ctx))
	case err != nil:
		return promo.Errorf(promo.CodeInternal, "policy: %s", reason(err))
	case len(rs) == 0:
		return promo.Errorf(promo.CodeInternal, "policy: the answer is undefined")
	}
	if answer, ok := out.(*bool); ok { // asked at every request: no detour over JSON
		*answer, ok = rs[0].Expressions[0].Value.(bool)
		if !ok {
			return promo.Errorf(promo.CodeInternal, "policy: the answer is neither true nor false")
		}
		return nil
	}
	raw, err := json.Marshal(rs[0].Expressions[0].Value)
	if err == nil {
		err = json.Unmarshal(raw, out)
	}
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "policy: %w", err)
	}
	return nil
}
