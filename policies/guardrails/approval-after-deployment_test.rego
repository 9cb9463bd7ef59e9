package davit.guardrails.approval_after_deployment_test

import data.davit.guardrails.approval_after_deployment as policy

pipeline(types) := {"pipeline": {"stages": [{"stage": {"name": sprintf("s%d", [i]), "type": type}} | some i, type in types]}}

test_followed if {
	count(policy.deny) == 0 with input as pipeline(["Deployment", "Approval", "Deployment", "Approval"])
}

test_followed_by_another_deployment if {
	reasons := policy.deny with input as pipeline(["Deployment", "Deployment", "Approval"])
	reasons == {"Deployment stage \"s0\" must be followed by an Approval stage"}
}

test_followed_by_nothing if {
	reasons := policy.deny with input as pipeline(["Approval", "Deployment"])
	reasons == {"Deployment stage \"s1\" must be followed by an Approval stage"}
}
