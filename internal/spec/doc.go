// Package spec is the language in which people declare pipelines: YAML documents become a tree with positions, the
// tree is checked as a whole, and a pipeline with its inputs is compiled into a plan.
//
// Three verbs, each reporting every problem it can see at once: Parse (text), Check (references and rules between
// documents), Compile (plan). The JSON Schema and `explain` are made from the same structs that Parse fills.
//
// The package does no input or output, and must not know Temporal, the store or any adapter. Step types are given to
// it as values; it knows only those few kinds by name that the language itself has rules for.
//
// # Not in this version
//
// A kind, field or value of the design whose feature isn't built yet is an error, never ignored: fields and values
// carry the tag `davit:"later"`, kinds and step types stand in later.go.
//
// Start reading at Language and Parse; the rules are in check_<rule>.go, one a file.
package spec
