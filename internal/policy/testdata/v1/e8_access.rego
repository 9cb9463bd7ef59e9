package example

ages := {"albert": 40, "beth": 17}

deny contains msg if {
	ages["albert"] > 39
	ages.beth < 18
	msg := sprintf("%s is too young", ["beth"])
}
