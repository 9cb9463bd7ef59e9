// Package policies holds the Rego that ships with Davit: access control (access), which package auth evaluates,
// and guardrails, examples for policy sets that work as they are. It is data: it knows nothing, and everything
// may read it. Start reading at README.md.
package policies

import "embed"

// files holds every module that ships, tests included, so that `davit policy test` works on a binary alone.
//
//go:embed access/*.rego guardrails/*.rego
var files embed.FS

// FS returns the shipped modules below "access/" and "guardrails/".
func FS() embed.FS { return files }
