// Package expression checks and evaluates the expressions of the language: ${{ … }} in texts, and the bare ones of
// `when`, `expect` and `failIf`. The language inside is expr-lang, cut down to what is deterministic (no clock, no
// zone data, no map order) and bounded: in source, nodes, turns of loops, and bytes made.
//
// It must know nothing of YAML, pipelines or Temporal. Secrets are never values of expressions.
//
// Start reading at Resolve (at run time) and Check (when a pipeline is applied).
package expression
