// Package plan is the compiled form of a pipeline for one promotion: small, versioned, hashed, free of YAML and
// of secrets. Package spec makes it, package workflows interprets it, nobody changes it.
//
// # Plan is frozen
//
// The plan is the workflow's input, so an edit of the pipeline cannot change a promotion that is under way.
// Frozen are steps, expressions, service, targets and inputs. Read live, by activities, are policy sets, holds,
// groups, secrets, connectors' endpoints and agents' presence.
//
// # How a stage with several waves is cut
//
// Stage.Prologue nodes run once for the whole stage, changes in them once per wave (all pull requests are open
// before people are asked); the nodes after it run wave by wave. The compiler decides the number:
// with `changes: per-wave` the prologue ends behind the last gate that is asked once per stage and precedes the
// first step that changes the environment; with `changes: once` it ends before the first target-scoped step.
//
// Start reading at Plan.
package plan
