package example

allow := true if {
	input.user == "alex"
}
