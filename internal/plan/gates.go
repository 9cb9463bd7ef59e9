package plan

// The specs of the gates live here, and not in package steps, because workflow code reads them. A plan's spec holds
// every default, so a reader need not know them.

// ApprovalSpec is the spec of an Approval.
type ApprovalSpec struct {
	// Approvers says who may decide and how many must agree.
	Approvers Approvers `json:"approvers" jsonschema:"required"`
	// Message is shown to approvers above the diff.
	Message string `json:"message,omitempty"`
	// Inputs are values that approvers give; later expressions read them as outputs `inputs.<name>`.
	Inputs []ApprovalInput `json:"inputs,omitempty"`
	// OnTimeout says what an approval that nobody decided in time becomes.
	OnTimeout string `json:"onTimeout,omitempty" jsonschema:"enum=fail"`
	// RejectOlder rejects the waiting approvals of older promotions of the pipeline when this one is approved.
	RejectOlder bool `json:"rejectOlder,omitempty" davit:"later"`
	// AutoApproveAt approves by itself at this time (RFC 3339).
	AutoApproveAt string `json:"autoApproveAt,omitempty" davit:"later"`
	// Each says whether people are asked once per stage, over the diffs of all waves, or once per wave.
	Each string `json:"each,omitempty" jsonschema:"enum=stage,enum=wave"`
	// From says where the decision is taken.
	From string `json:"from,omitempty" jsonschema:"enum=davit,enum=pull-request-review" davit:"later=pull-request-review"`
}

// Approvers says who may decide an approval.
type Approvers struct {
	// Groups whose members may decide.
	Groups []string `json:"groups,omitempty"`
	// Users who may decide.
	Users []string `json:"users,omitempty"`
	// Minimum is how many different people must approve; one rejection ends the approval.
	Minimum int `json:"minimum,omitempty" jsonschema:"minimum=1,maximum=50"`
	// DisallowExecutor keeps the person who started the promotion from deciding.
	DisallowExecutor bool `json:"disallowExecutor,omitempty"`
	// DisallowAuthor keeps the authors of the change from deciding.
	DisallowAuthor bool `json:"disallowAuthor,omitempty"`
}

// ApprovalInput is a value that approvers must or may give.
type ApprovalInput struct {
	// Name of the value.
	Name string `json:"name" jsonschema:"required"`
	// Description is shown beside the field.
	Description string `json:"description,omitempty"`
	// Required refuses an approval without it.
	Required bool `json:"required,omitempty"`
	// Default is used where the approver leaves it empty.
	Default string `json:"default,omitempty"`
	// Allowed lists the only values that are taken.
	Allowed []string `json:"allowed,omitempty"`
	// Pattern is a regular expression that the whole value must match.
	Pattern string `json:"pattern,omitempty"`
}

// WaitForPRSpec is the spec of a WaitForPR.
type WaitForPRSpec struct {
	// Until says what is waited for: the merge, green checks, or that it is closed.
	Until string `json:"until,omitempty" jsonschema:"enum=merged,enum=checks,enum=closed"`
	// ForeignCommits says whether commits that Davit did not make may be on the branch.
	ForeignCommits string `json:"foreignCommits,omitempty" jsonschema:"enum=refuse,enum=allow"`
}

// WaitSpec is the spec of a Wait: one of the two is set.
type WaitSpec struct {
	// Duration is how long to wait.
	Duration Duration `json:"duration,omitempty"`
	// Until is the time to wait for, in RFC 3339.
	Until string `json:"until,omitempty"`
}

// RollbackSpec is the spec of a Rollback.
type RollbackSpec struct {
	// To is the commit to go back to; "known-good" is the last one known good.
	To string `json:"to,omitempty"`
	// Delivery says how the commit reaches the branch; the service's own setting by default.
	Delivery string `json:"delivery,omitempty" jsonschema:"enum=push,enum=pull-request"`
	// Verify waits until the environment is healthy again.
	Verify bool `json:"verify"`
	// Shared says what to do where files under the shared paths differ too.
	Shared string `json:"shared,omitempty" jsonschema:"enum=ask,enum=include,enum=paths-only"`
}
