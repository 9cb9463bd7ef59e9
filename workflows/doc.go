// Package workflows holds the replayed code: promotions, lanes, rollbacks. It decides and waits; activities touch
// the world. What stands here is run again from recorded histories, so every change of behaviour needs a
// workflow.GetVersion with its change id in versions.go and a newly recorded history.
//
// It must not know Git, forges, YAML, expressions, clocks or randomness; the imports are a closed list.
//
// Start reading at Promotion, then stage.go (how a stage runs), interpret.go (how nodes run), action.go and
// gate.go (what a step does), failure.go (what happens when one fails).
package workflows
