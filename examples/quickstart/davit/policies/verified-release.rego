# A warning where a stage does not verify what it rolled out.
package verified_release

import rego.v1

deny contains msg if {
	not verifies
	msg := sprintf("stage %q does not verify the release", [input.stage.name])
}

verifies if {
	some step in input.steps
	step.stage == input.stage.name
	step.type == "Verify"
}
