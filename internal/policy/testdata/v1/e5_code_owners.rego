package pipeline

code_owners := {"albert", "beth", "claire"}

deny contains msg if {
	not input.triggered_by in code_owners
	msg := sprintf("user '%s' is not in the code owners group", [input.triggered_by])
}
