package example

ages := {"albert": 40, "beth": 17}

deny[msg] {
	ages["albert"] > 39
	ages.beth < 18
	msg := sprintf("%s is too young", ["beth"])
}
