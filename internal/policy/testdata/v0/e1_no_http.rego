package pipeline

# Deny pipelines whose Deployment stages contain an HTTP step.
deny[msg] {
	input.pipeline.stages[i].stage.type == "Deployment"
	input.pipeline.stages[i].stage.spec.execution.steps[j].step.type == "Http"
	msg := "Deployment pipeline should not have HTTP step"
}
