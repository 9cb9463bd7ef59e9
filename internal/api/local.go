package api

// ProtectRequest sets what a branch of the local forge demands before it changes; without a demand and without
// names it is not protected. REST takes repository and branch from the path.
type ProtectRequest struct {
	Repository      string   `json:"-"`
	Branch          string   `json:"-"`
	Protected       bool     `json:"protected"` // false lifts the protection
	RequiredReviews int      `json:"requiredReviews,omitempty"`
	DismissStale    bool     `json:"dismissStale,omitempty"`
	RequiredChecks  []string `json:"requiredChecks,omitempty"`
	// AllowPush are the people who may push to it, Davit itself as "davit"; nobody else may.
	AllowPush []string `json:"allowPush,omitempty"`
}

// SandboxConnectRequest ends or restores the connection of a sandbox cluster's agent, as a broken network would.
type SandboxConnectRequest struct {
	Cluster   string `json:"-"`
	Connected bool   `json:"connected"`
}
