package pipeline

deny contains msg if {
	arr_len := count(input.pipeline.stages)
	not input.pipeline.stages[arr_len - 1].stage.type == "Approval"
	msg := "Last stage must be an approval stage"
}
