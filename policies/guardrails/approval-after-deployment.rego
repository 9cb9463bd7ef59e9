# Every Deployment stage must be followed by an Approval stage. Written in the older dialect of Rego, which
# Davit takes as well; the first line of a module may say so ("# rego: v0"), but need not.
package davit.guardrails.approval_after_deployment

deny[msg] {
	stage := input.pipeline.stages[i].stage
	stage.type == "Deployment"
	not input.pipeline.stages[i + 1].stage.type == "Approval"
	msg := sprintf("Deployment stage %q must be followed by an Approval stage", [stage.name])
}
