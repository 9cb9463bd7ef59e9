package policy

import (
	"slices"
	"strings"

	"github.com/open-policy-agent/opa/v1/ast"
)

// forbiddenPrefixes are families of builtins that reach out of the evaluation or make no sense in a decision
// that must be replayable.
func forbiddenPrefixes() []string {
	return []string{
		"http.",      // network
		"net.",       // resolves names
		"opa.",       // opa.runtime shows configuration and environment variables
		"providers.", // signs cloud requests
		"rand.",      // a replay would differ
		"graphql.",   // parsers without a bound, of no use here
	}
}

// forbiddenNames are single builtins that no policy needs and that cannot be bounded.
func forbiddenNames() []string {
	return []string{
		"rego.parse_module",     // a parser inside the policy
		"graph.reachable_paths", // exponential and not cancellable
		"regex.globs_match",     // likewise
		"bits.lsh",              // one call can ask for any amount of memory
		"numbers.range_step",    // numbers.range is cancellable and enough
	}
}

// allowed reports whether a policy may call the builtin. Non-deterministic builtins are refused as a class, so
// that one added by a later OPA is refused too; time.now_ns is given the time of the decision.
func allowed(b *ast.Builtin) bool {
	if b.Name == ast.NowNanos.Name {
		return true
	}
	if b.Nondeterministic || slices.Contains(forbiddenNames(), b.Name) {
		return false
	}
	return !slices.ContainsFunc(forbiddenPrefixes(), func(p string) bool { return strings.HasPrefix(b.Name, p) })
}

// capabilities lists what modules of the dialect may use: every builtin that is pure and bounded.
func capabilities(v ast.RegoVersion) *ast.Capabilities {
	caps := ast.CapabilitiesForThisVersion(ast.CapabilitiesRegoVersion(v))
	caps.Builtins = slices.DeleteFunc(slices.Clone(caps.Builtins), func(b *ast.Builtin) bool { return !allowed(b) })
	caps.AllowNet = []string{} // empty: no host; nil would allow every host
	return caps
}
