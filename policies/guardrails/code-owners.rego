# Only the owners of the code may run the pipeline. Change the set to your people.
package davit.guardrails.code_owners

code_owners := {"albert", "beth", "claire"}

deny contains msg if {
	user := object.get(input, "triggered_by", "") # nobody is no owner either
	not user in code_owners
	msg := sprintf("user %q is not a code owner", [user])
}
