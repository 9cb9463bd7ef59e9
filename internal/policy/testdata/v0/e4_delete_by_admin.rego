package example

deny {
	input.action == "delete"
	not user_is_admin
}

user_is_admin {
	input.role == "admin"
}
