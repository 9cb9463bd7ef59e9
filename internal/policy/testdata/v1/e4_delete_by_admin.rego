package example

deny if {
	input.action == "delete"
	not user_is_admin
}

user_is_admin if input.role == "admin"
