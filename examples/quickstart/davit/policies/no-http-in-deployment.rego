# Deployment stages call nobody: not in groups, parallels or rollback steps either.
package guardrails

import rego.v1

deny contains msg if {
	some step in input.steps
	step.type == "Http"
	some s in input.pipeline.stages
	s.stage.name == step.stage
	s.stage.type == "Deployment"
	msg := sprintf("stage %q has the Http step %q", [step.stage, step.name])
}
