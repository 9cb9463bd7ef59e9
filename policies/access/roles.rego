package davit.access

# The four roles that ship. "own" are actions on what the principal started.
shipped := {
	"viewer": {"actions": reads, "own": []},
	"developer": {"actions": reads | runs, "own": ["promotion:abort"]},
	"approver": {"actions": reads | decides, "own": []},
	"admin": {"actions": ["*"], "own": []},
}

reads := {
	"decision:read", "definition:read", "environment:read", "fleet:read", "policy:evaluate", "promotion:read",
	"pullrequest:read", "repository:read", "rollback:read", "sandbox:read",
}

# Developers change what is released; the gates of the pipeline decide how far it gets.
runs := {"promotion:retry", "promotion:run", "pullrequest:open", "pullrequest:review", "repository:write"}

# Approvers decide about what others started, can stop it, and can put an environment back.
decides := {
	"audit:read", "environment:hold", "environment:pin", "promotion:abort", "promotion:decide", "pullrequest:merge",
	"pullrequest:review", "rollback:run",
}
