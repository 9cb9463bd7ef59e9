package example

allow := true {
	input.user == "alex"
}
