package web

// The actions that routes ask the Authorizer about: "<noun>:<verb>".
const (
	ReadPromotion     = "promotion:read"
	RunPromotion      = "promotion:run"
	DecidePromotion   = "promotion:decide"
	AbortPromotion    = "promotion:abort"
	ReadDefinition    = "definition:read"
	ApplyDefinition   = "definition:apply"
	DeleteDefinition  = "definition:delete"
	ReadEnvironment   = "environment:read"
	PinEnvironment    = "environment:pin"
	HoldEnvironment   = "environment:hold"
	ReadRollback      = "rollback:read"
	RunRollback       = "rollback:run"
	BreakGlass        = "rollback:break-glass"
	ReadFleet         = "fleet:read"
	ReadPullRequest   = "pullrequest:read"
	ReviewPullRequest = "pullrequest:review"
	MergePullRequest  = "pullrequest:merge"
	ReadAgent         = "agent:read"
	AdminAgent        = "agent:admin"
	AdminToken        = "token:admin"
	EvaluatePolicy    = "policy:evaluate"
	ReadDecision      = "decision:read"
	ReadAudit         = "audit:read"
	ReadAccount       = "account:read"
)
