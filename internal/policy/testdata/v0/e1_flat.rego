package pipeline

deployments[name] {
	stage := input.pipeline.stages[_].stage
	stage.type == "Deployment"
	name := stage.name
}

deny[msg] {
	step := input.steps[_]
	step.type == "Http"
	deployments[step.stage]
	msg := "Deployment pipeline should not have HTTP step"
}
