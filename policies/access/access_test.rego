package davit.access_test

import data.davit.access

bindings := [
	{"role": "viewer", "project": "*", "users": [], "groups": ["everyone"]},
	{"role": "developer", "project": "shop", "users": ["dave"], "groups": []},
	{"role": "approver", "project": "shop", "users": [], "groups": ["release-managers"]},
	{"role": "admin", "project": "*", "users": ["root"], "groups": []},
	{"role": "tester", "project": "shop", "users": ["tina"], "groups": []},
]

request(name, groups, action, resource) := {
	"principal": {"name": name, "groups": groups},
	"action": action, "resource": resource, "bindings": bindings,
	"roles": {
		"tester": {"actions": ["fleet:*"], "own": []},
		"admin": {"actions": [], "own": []},
	},
}

promotion(project, owner) := {"kind": "promotion", "project": project, "name": "shop/checkout/1", "owner": owner}

test_developer_runs_in_the_own_project if {
	access.allow with input as request("dave", [], "promotion:run", promotion("shop", ""))
	not access.allow with input as request("dave", [], "promotion:run", promotion("bank", ""))
}

test_developer_does_not_approve if {
	d := access.decision with input as request("dave", [], "promotion:decide", promotion("shop", ""))
	d == {"allow": false, "held": {"developer"}, "needed": {"approver", "admin"}}
}

test_developer_aborts_only_own_runs if {
	access.allow with input as request("dave", [], "promotion:abort", promotion("shop", "dave"))
	not access.allow with input as request("dave", [], "promotion:abort", promotion("shop", "erin"))
}

test_viewers_own_nothing if {
	not access.allow with input as request("vera", ["everyone"], "promotion:abort", promotion("shop", "vera"))
}

test_approver_by_group if {
	access.allow with input as request("rita", ["release-managers"], "promotion:decide", promotion("shop", "dave"))
	not access.allow with input as request("rita", [], "promotion:decide", promotion("shop", "dave"))
}

test_admin_everywhere if {
	access.allow with input as request("root", [], "token:admin", {"kind": "token", "project": ""})
	access.allow with input as request("root", [], "something:new", promotion("bank", ""))
}

test_the_server_needs_a_binding_to_all if {
	access.allow with input as request("vera", ["everyone"], "fleet:read", {"kind": "fleet", "project": ""})
	not access.allow with input as request("dave", [], "fleet:read", {"kind": "fleet", "project": ""})
}

test_any_noun if {
	some_reader := object.union(request("tina", [], "audit:read", promotion("shop", "")), {"roles": {"tester": {"actions": ["*:read"], "own": []}}})
	access.allow with input as some_reader
	not access.allow with input as object.union(some_reader, {"action": "audit:write"})
	any_at_all := {"roles": {"tester": {"actions": ["*:*"], "own": []}}, "action": "audit:write"}
	access.allow with input as object.union(some_reader, any_at_all)
}

test_declared_roles if {
	access.allow with input as request("tina", [], "fleet:sync", promotion("shop", ""))
	not access.allow with input as request("tina", [], "promotion:read", promotion("shop", ""))
}

test_declared_roles_cannot_weaken_the_shipped if {
	access.allow with input as request("root", [], "promotion:read", promotion("shop", ""))
}

test_strangers_may_nothing if {
	every action in access.reads | access.runs | access.decides {
		not access.allow with input as request("mallory", [], action, promotion("shop", "mallory"))
	}
}

test_everyone_signed_in_may_ask_who_they_are if {
	access.allow with input as request("mallory", [], "account:read", {"kind": "account", "project": ""})
	not access.allow with input as request("", [], "account:read", {"kind": "account", "project": ""})
}

test_nothing_given if {
	not access.allow with input as {}
}
