package pipeline

code_owners = {"albert", "beth", "claire"}

deny[msg] {
	not code_owners[input.triggered_by]
	msg := sprintf("user '%s' is not in the code owners group", [input.triggered_by])
}
