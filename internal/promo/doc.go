// Package promo holds the words of the domain: what a promotion, an environment, a target, an application
// and an error are. Everything else in Davit speaks in these types. It knows nothing of Temporal, YAML, Git
// libraries or HTTP and imports only the standard library.
//
// Glossary (one word per idea, from YAML to table column to metric to page):
//
//   - pipeline: a declared way of a release through environments; a promotion is one run of it.
//   - plan: the compiled, frozen form of a pipeline for one promotion (package plan).
//   - stage, step: the parts of a pipeline. A step acts; a gate is a step that waits.
//   - environment, target: an environment (dev, prod) has one target per cluster.
//   - application: what the GitOps engine of a target keeps in step with Git.
//   - wave: the targets of a stage that are changed together.
//   - lane: the right to change one service in one environment; one promotion holds it at a time.
//   - known-good: a commit at which a service in an environment was synced, healthy and verified everywhere.
//   - verdict: a refusal by policy, people, health or verification. It is a result, not an error.
//   - operation: one effect on the outside world; its id is found again where the effect is.
//
// Start reading at Promotion.
package promo
