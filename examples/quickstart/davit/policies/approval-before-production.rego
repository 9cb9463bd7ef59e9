# A stage that changes a production environment asks people first.
package production_gate

import rego.v1

deny contains msg if {
	input.stage.environmentType == "Production"
	not has_approval(input.stage.name)
	msg := sprintf("stage %q changes production without an Approval", [input.stage.name])
}

has_approval(stage) if {
	some step in input.steps
	step.stage == stage
	step.type == "Approval"
}
