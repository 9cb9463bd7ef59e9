package pipeline

deployments contains entry.stage.name if {
	some entry in input.pipeline.stages
	entry.stage.type == "Deployment"
}

deny contains msg if {
	some step in input.steps
	step.type == "Http"
	step.stage in deployments
	msg := "Deployment pipeline should not have HTTP step"
}
