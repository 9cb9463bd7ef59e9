package davit.guardrails.delete_by_admin_test

import data.davit.guardrails.delete_by_admin as policy

event(action, groups) := {"metadata": {"action": action, "type": "pipeline", "user": {"name": "dave", "groups": groups}}}

test_developer_may_not_delete if {
	reasons := policy.deny with input as event("delete", ["developers"])
	reasons == {"user \"dave\" may not delete a pipeline: only admins may"}
}

test_nobody_in_particular_may_not_delete if {
	count(policy.deny) == 1 with input as event("delete", [])
}

test_admin_may_delete if {
	count(policy.deny) == 0 with input as event("delete", ["admins"])
}

test_anyone_may_save if {
	count(policy.deny) == 0 with input as event("save", [])
}
