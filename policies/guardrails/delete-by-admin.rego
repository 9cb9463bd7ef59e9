# Only members of the group admins may delete.
package davit.guardrails.delete_by_admin

deny contains msg if {
	input.metadata.action == "delete"
	not user_is_admin
	msg := sprintf("user %q may not delete a %s: only admins may", [input.metadata.user.name, input.metadata.type])
}

user_is_admin if "admins" in input.metadata.user.groups
