package davit.guardrails.no_http_in_deployment_test

import data.davit.guardrails.no_http_in_deployment as policy

pipeline(type) := {"stages": [{"stage": {"name": "prod", "type": type}}]}

step(path) := {"stage": "prod", "path": path, "type": "Http", "name": "call"}

denied[path] := reasons if {
	some path in ["call", "group/call", "rollbackSteps/call"]
	reasons := policy.deny with input as {"pipeline": pipeline("Deployment"), "steps": [step(path)]}
}

test_denied_wherever_it_is_nested if {
	count(denied) == 3
	every path, reasons in denied {
		reasons == {sprintf("Deployment stage \"prod\" must not have the HTTP step %q", [path])}
	}
}

test_allowed_in_other_stages if {
	count(policy.deny) == 0 with input as {"pipeline": pipeline("Custom"), "steps": [step("call")]}
}

test_other_steps_are_allowed if {
	other := object.union(step("call"), {"type": "Sync"})
	count(policy.deny) == 0 with input as {"pipeline": pipeline("Deployment"), "steps": [other]}
}
