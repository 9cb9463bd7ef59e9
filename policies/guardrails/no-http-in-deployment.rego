# No Http step in a Deployment stage. It looks at input.steps, which holds every step whatever it is nested in:
# a policy over stages[i].stage.spec.execution.steps[j] is evaded by parallel, group and rollbackSteps.
package davit.guardrails.no_http_in_deployment

deployments contains entry.stage.name if {
	some entry in input.pipeline.stages
	entry.stage.type == "Deployment"
}

deny contains msg if {
	some step in input.steps
	step.type == "Http"
	step.stage in deployments
	msg := sprintf("Deployment stage %q must not have the HTTP step %q", [step.stage, step.path])
}
