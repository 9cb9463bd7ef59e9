// Package policy evaluates policy as code: it compiles Rego modules of either dialect, builds the document that
// they see, and turns their deny and warn rules into decisions that are recorded and can be replayed.
//
// It must not know of Temporal, the store, HTTP or YAML: definitions come in as plain structs, records go out
// through the Recorder port. It is the only package that knows OPA.
//
// A module is untrusted text. It is compiled alone (two modules never see each other), without builtins that
// reach the network, the process or a random source, and evaluated within EvalTimeout and EvalMemory. What
// cannot be evaluated denies: see "Fail closed" at Module.Eval.
//
// Known limit: some of OPA's own inner loops (writing out a list that holds itself twice, thirty times over) can't
// be interrupted. The caller is answered in time, but the work goes on and may exhaust the process's memory. Who
// may apply a policy set is therefore trusted that far: it needs definition:apply.
//
// Start reading at Engine.Decide; the document is in document.go, what "deny" means in normalise.go.
package policy
