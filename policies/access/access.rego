# Who may do what. Package auth asks decision once per request, with this input:
#
#   principal {name, groups}
#   action    "promotion:run"
#   resource  {kind, project, name, owner}    owner: who started it, where the resource has one
#   bindings  [{role, project, users, groups}]    project "*" is every project and the server itself
#   roles     {name: {actions, own}}    roles that people declared, beside the four of roles.rego
package davit.access

default allow := false

allow if {
	some role in held
	permits(role)
}

# Whoever is signed in may ask who they are and what this server is.
allow if {
	input.principal.name != ""
	input.action == "account:read"
}

decision := {"allow": allow, "held": held, "needed": needed}

# held are the principal's roles where the resource is. A resource without a project belongs to the server:
# only a binding to every project reaches it.
held contains binding.role if {
	some binding in input.bindings
	bound(binding)
	here(binding)
}

# needed are the roles that would permit the action, for the message of a refusal.
needed contains role if {
	some role, definition in roles
	matches(definition.actions)
}

# Declared roles can't change the four that ship.
roles := object.union(object.get(input, "roles", {}), shipped)

permits(role) if matches(roles[role].actions)

# What a role may do only to what the principal started.
permits(role) if {
	input.resource.owner == input.principal.name
	matches(roles[role].own)
}

matches(actions) if input.action in actions

matches(actions) if "*" in actions

matches(actions) if "*:*" in actions

# "promotion:*" is everything about promotions.
matches(actions) if sprintf("%s:*", [split(input.action, ":")[0]]) in actions

# "*:read" is every reading.
matches(actions) if sprintf("*:%s", [split(input.action, ":")[1]]) in actions

bound(binding) if input.principal.name in binding.users

bound(binding) if {
	some group in binding.groups
	group in input.principal.groups
}

here(binding) if binding.project == "*"

here(binding) if {
	input.resource.project != ""
	binding.project == input.resource.project
}
