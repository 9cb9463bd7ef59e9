package auth

import (
	"slices"
	"strings"
)

// Action is a permission: "<noun>:<verb>". policies/access says which role has which.
type Action = string

// The actions. A route, a service or a step asks for exactly one of them.
const (
	AccountRead Action = "account:read" // whoever is signed in may

	PromotionRead   Action = "promotion:read"
	PromotionRun    Action = "promotion:run"
	PromotionRetry  Action = "promotion:retry"
	PromotionDecide Action = "promotion:decide" // approve or reject what waits
	PromotionAbort  Action = "promotion:abort"

	DefinitionRead   Action = "definition:read"
	DefinitionApply  Action = "definition:apply"
	DefinitionDelete Action = "definition:delete"
	// ConnectorAdmin is needed to apply a Repository or Connector: their hosts are allowed outbound thereby.
	ConnectorAdmin Action = "connector:admin"
	// AccessAdmin is needed to apply or delete a Role or RoleBinding: otherwise whoever may apply could give
	// themselves every permission.
	AccessAdmin Action = "access:admin"

	EnvironmentRead Action = "environment:read"
	EnvironmentHold Action = "environment:hold"
	EnvironmentPin  Action = "environment:pin"

	RollbackRead       Action = "rollback:read"
	RollbackRun        Action = "rollback:run"
	RollbackBreakGlass Action = "rollback:break-glass" // although a policy denies

	FleetRead Action = "fleet:read"
	FleetSync Action = "fleet:sync" // a sync outside any promotion

	SandboxRead  Action = "sandbox:read"
	SandboxAdmin Action = "sandbox:admin" // applications of a sandbox cluster, and its live objects

	PullRequestRead   Action = "pullrequest:read"
	PullRequestOpen   Action = "pullrequest:open"
	PullRequestReview Action = "pullrequest:review"
	PullRequestMerge  Action = "pullrequest:merge"
	PullRequestBypass Action = "pullrequest:bypass" // past branch protection

	RepositoryRead  Action = "repository:read"  // fetch from the local forge
	RepositoryWrite Action = "repository:write" // push to it

	PolicyEvaluate Action = "policy:evaluate"
	DecisionRead   Action = "decision:read"

	AgentRead  Action = "agent:read"
	AgentAdmin Action = "agent:admin"
	TokenAdmin Action = "token:admin"
	AuditRead  Action = "audit:read"
)

// Actions lists every action, grouped as above.
func Actions() []Action {
	return []Action{
		AccountRead,
		PromotionRead, PromotionRun, PromotionRetry, PromotionDecide, PromotionAbort,
		DefinitionRead, DefinitionApply, DefinitionDelete, ConnectorAdmin, AccessAdmin,
		EnvironmentRead, EnvironmentHold, EnvironmentPin,
		RollbackRead, RollbackRun, RollbackBreakGlass,
		FleetRead, FleetSync,
		SandboxRead, SandboxAdmin,
		PullRequestRead, PullRequestOpen, PullRequestReview, PullRequestMerge, PullRequestBypass,
		RepositoryRead, RepositoryWrite,
		PolicyEvaluate, DecisionRead,
		AgentRead, AgentAdmin, TokenAdmin, AuditRead,
	}
}

// KnownPermission reports whether a permission of a declared role names an action, or some by "*" on one side of
// the colon or alone.
func KnownPermission(permission string) bool {
	noun, verb, _ := strings.Cut(permission, ":")
	return permission == "*" || slices.ContainsFunc(Actions(), func(a Action) bool {
		n, v, _ := strings.Cut(a, ":")
		return (noun == "*" || noun == n) && (verb == "*" || verb == v)
	})
}

// The roles that ship. What they may is said in policies/access/roles.rego.
const (
	RoleViewer    = "viewer"
	RoleDeveloper = "developer"
	RoleApprover  = "approver"
	RoleAdmin     = "admin"
)

// Roles lists the roles that ship, weakest first.
func Roles() []string { return []string{RoleViewer, RoleDeveloper, RoleApprover, RoleAdmin} }
