package expression

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"

	"github.com/expr-lang/expr"
	"github.com/expr-lang/expr/ast"
	"github.com/expr-lang/expr/vm"
	"github.com/expr-lang/expr/vm/runtime"
)

// The bounds. They are far above what pipelines need and low enough that the worst expression ends in well under a
// second and in a few megabytes.
const (
	maxSource = 4096    // bytes of one expression
	maxNodes  = 400     // nodes of its tree
	maxTurns  = 50_000  // turns of all its loops together
	maxBytes  = 1 << 18 // bytes of text that it may put together
	maxMemory = 100_000 // elements of lists, as the evaluator counts them
	maxDepth  = 32      // depth of a value that becomes text
)

// deterministic lists the functions that pipelines may call. Others read the clock or zone data, give the keys of
// a map in any order, or let a short expression grow without bound.
func deterministic() []string {
	return []string{
		"all", "none", "any", "one", "filter", "map", "find", "findIndex", "findLast", "findLastIndex", "count", "sum",
		"len", "type", "abs", "ceil", "floor", "round", "int", "float", "trim", "trimPrefix", "trimSuffix",
		"upper", "lower", "split", "indexOf", "lastIndexOf", "hasPrefix", "hasSuffix", "max", "min", "fromJSON",
		"first", "last", "get", "take", "reverse", "sort",
	}
}

// own lists the functions that Davit brings, because the evaluator's own are unbounded.
func own() []string { return []string{"string", "join", "replace", "toJSON"} }

// Functions lists every function that expressions may call.
func Functions() []string { return append(deterministic(), own()...) }

var errBudget = errors.New("expression is too costly: it makes more than it may")

// meter counts what one evaluation makes.
type meter struct{ turns, bytes int }

func (m *meter) turn() error {
	if m.turns++; m.turns > maxTurns {
		return errBudget
	}
	return nil
}

func (m *meter) grow(n int) error {
	if n < 0 || n > maxBytes-m.bytes {
		return errBudget
	}
	m.bytes += n
	return nil
}

// options are the evaluator's options. Functions have static types, so that Check can use the same ones.
func options(m *meter) []expr.Option {
	opts := []expr.Option{
		expr.MaxNodes(maxNodes),
		expr.Optimize(false), // it would unfold constant ranges, which no budget counts
		expr.DisableAllBuiltins(),
	}
	for _, name := range deterministic() {
		opts = append(opts, expr.EnableBuiltin(name))
	}
	return append(opts,
		expr.Function("string", func(args ...any) (any, error) { return m.text(args[0]) }, new(func(any) string)),
		expr.Function("toJSON", func(args ...any) (any, error) { return m.json(args[0]) }, new(func(any) string)),
		expr.Function("join", func(args ...any) (any, error) { return m.join(args) },
			new(func([]any) string), new(func([]any, string) string),
			new(func([]string) string), new(func([]string, string) string)),
		expr.Function("replace", func(args ...any) (any, error) { return m.replace(args) },
			new(func(string, string, string) string)),
	)
}

func (m *meter) text(v any) (string, error) {
	switch t := v.(type) {
	case string:
		return t, nil
	case bool:
		return strconv.FormatBool(t), nil
	case int:
		return strconv.Itoa(t), nil
	case float64:
		return strconv.FormatFloat(t, 'f', -1, 64), nil
	case nil:
		return "", errors.New("it has no value here")
	}
	return m.json(v)
}

func (m *meter) json(v any) (string, error) {
	if err := m.measure(v, 0); err != nil {
		return "", err
	}
	b, err := marshal(v)
	return string(b), err
}

// measure counts a value before it is written: lists may hold the same element many times over.
func (m *meter) measure(v any, depth int) error {
	if depth > maxDepth {
		return errBudget
	}
	if err := m.grow(1); err != nil {
		return err
	}
	switch t := v.(type) {
	case string:
		return m.grow(len(t))
	case float64:
		if math.IsNaN(t) || math.IsInf(t, 0) {
			return errors.New("it is no finite number")
		}
	case []any:
		for _, e := range t {
			if err := m.measure(e, depth+1); err != nil {
				return err
			}
		}
	case map[string]any:
		for k, e := range t {
			if err := m.grow(len(k)); err != nil {
				return err
			}
			if err := m.measure(e, depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

func (m *meter) join(args []any) (string, error) {
	sep := ""
	if len(args) == 2 {
		s, ok := args[1].(string)
		if !ok {
			return "", errors.New("join puts a text between the elements")
		}
		sep = s
	}
	list, err := texts(args[0])
	if err != nil {
		return "", err
	}
	for _, s := range list {
		if err := m.grow(len(s) + len(sep)); err != nil {
			return "", err
		}
	}
	return strings.Join(list, sep), nil
}

func texts(v any) ([]string, error) {
	if list, ok := v.([]string); ok {
		return list, nil
	}
	list, ok := v.([]any)
	if !ok {
		return nil, errors.New("join needs a list")
	}
	out := make([]string, len(list))
	for i, e := range list {
		s, ok := e.(string)
		if !ok {
			return nil, fmt.Errorf("join needs texts, element %d is none", i)
		}
		out[i] = s
	}
	return out, nil
}

func (m *meter) replace(args []any) (string, error) {
	var in [3]string
	for i := range in {
		s, ok := args[i].(string)
		if !ok {
			return "", errors.New("replace needs three texts")
		}
		in[i] = s
	}
	n := strings.Count(in[0], in[1])
	if n > maxBytes || len(in[2]) > maxBytes {
		return "", errBudget
	}
	if err := m.grow(len(in[0]) + n*len(in[2])); err != nil {
		return "", err
	}
	return strings.ReplaceAll(in[0], in[1], in[2]), nil
}

func (m *meter) add(a, b any) (any, error) {
	x, okX := a.(string)
	y, okY := b.(string)
	if okX && okY {
		if err := m.grow(len(x) + len(y)); err != nil {
			return nil, err
		}
		return x + y, nil
	}
	if okX != okY || a == nil || b == nil {
		return nil, fmt.Errorf("cannot add %s and %s", typeName(a), typeName(b))
	}
	return runtime.Add(a, b), nil
}

func typeName(v any) string {
	switch v.(type) {
	case nil:
		return "nothing"
	case string:
		return "a text"
	case bool:
		return "true or false"
	case int, float64:
		return "a number"
	case map[string]any:
		return "a map"
	}
	return "a list"
}

// metered puts the meter into the tree: into every addition and every turn of a loop.
type metered struct{}

const (
	addFunc  = "davit_add"
	turnFunc = "davit_turn"
)

// Visit implements ast.Visitor.
func (metered) Visit(node *ast.Node) {
	switch n := (*node).(type) {
	case *ast.BinaryNode:
		if n.Operator == "+" {
			ast.Patch(node, call(addFunc, n.Left, n.Right))
		}
	case *ast.PredicateNode:
		n.Node = call(turnFunc, n.Node)
	}
}

func call(name string, args ...ast.Node) ast.Node {
	return &ast.CallNode{Callee: &ast.IdentifierNode{Value: name}, Arguments: args}
}

// evaluate runs one expression over the variables.
func evaluate(source string, vars map[string]any) (any, error) {
	if len(source) > maxSource {
		return nil, fmt.Errorf("expression is longer than %d bytes", maxSource)
	}
	m := &meter{}
	opts := append(options(m),
		expr.Env(vars),
		expr.Function(addFunc, func(args ...any) (any, error) { return m.add(args[0], args[1]) }, new(func(any, any) any)),
		expr.Function(turnFunc, func(args ...any) (any, error) { return args[0], m.turn() }, new(func(any) any)),
		expr.Patch(metered{}),
	)
	program, err := expr.Compile(source, opts...)
	if err != nil {
		return nil, errors.New(firstLine(err.Error()))
	}
	machine := vm.VM{MemoryBudget: maxMemory}
	v, err := machine.Run(program, vars)
	if err != nil {
		return nil, errors.New(firstLine(err.Error()))
	}
	return v, nil
}

// firstLine drops the evaluator's picture of the source, which messages show in their own way.
func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	if i := strings.LastIndex(line, " ("); i > 0 && strings.HasSuffix(line, ")") && strings.Trim(line[i+2:len(line)-1], "0123456789:") == "" {
		line = line[:i]
	}
	return line
}

// marshal writes JSON as people wrote it: < and > stay.
func marshal(v any) ([]byte, error) {
	var b strings.Builder
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	if err := enc.Encode(v); err != nil {
		return nil, err
	}
	return []byte(strings.TrimSuffix(b.String(), "\n")), nil
}
