# The last stage of a pipeline must be an Approval.
package davit.guardrails.last_stage_approval

deny contains "the last stage must be an Approval stage" if {
	last := count(input.pipeline.stages) - 1
	not input.pipeline.stages[last].stage.type == "Approval"
}
