package davit.guardrails.code_owners_test

import data.davit.guardrails.code_owners as policy

test_owner_may_run if {
	count(policy.deny) == 0 with input as {"triggered_by": "beth"}
}

test_stranger_may_not_run if {
	reasons := policy.deny with input as {"triggered_by": "dave"}
	reasons == {"user \"dave\" is not a code owner"}
}

test_nobody_may_not_run if {
	count(policy.deny) == 1 with input as {}
}
