package pipeline

deny[msg] {
	input.pipeline.stages[i].stage.type == "Deployment"
	not input.pipeline.stages[i + 1].stage.type == "Approval"
	msg := sprintf("deployment stage '%s' must be followed by an approval stage", [input.pipeline.stages[i].stage.name])
}
