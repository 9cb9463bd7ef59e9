package davit.guardrails.last_stage_approval_test

import data.davit.guardrails.last_stage_approval as policy

pipeline(types) := {"pipeline": {"stages": [{"stage": {"type": type}} | some type in types]}}

test_approval_at_the_end if {
	count(policy.deny) == 0 with input as pipeline(["Deployment", "Approval"])
}

test_approval_only_at_the_beginning if {
	reasons := policy.deny with input as pipeline(["Approval", "Deployment"])
	reasons == {"the last stage must be an Approval stage"}
}

test_no_stage_at_all if {
	count(policy.deny) == 1 with input as pipeline([])
}
