package plan

import (
	"encoding/json"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// ApprovalSpec is the spec of an Approval step.
type ApprovalSpec struct {
	// Who may decide.
	Approvers Approvers `json:"approvers"`
	// What the approvers are told.
	Message string `json:"message,omitempty"`
	// Values that approvers give; later steps read them as outputs.
	Inputs []promo.ApprovalInput `json:"inputs,omitempty"`
	// What happens when nobody decides in time.
	OnTimeout string `json:"onTimeout,omitempty" jsonschema:"enum=fail,enum=approve,default=fail"`
	// An approval rejects older promotions of the pipeline that wait at the same step.
	RejectOlder bool `json:"rejectOlder,omitempty"`
	// Approves by itself at this time (RFC 3339).
	AutoApproveAt string `json:"autoApproveAt,omitempty"`
	// Asked once per stage, over the changes of all waves, or once per wave.
	Each string `json:"each,omitempty" jsonschema:"enum=stage,enum=wave,default=stage"`
	// Where people decide.
	From string `json:"from,omitempty" jsonschema:"enum=davit,default=davit"`
}

// Approvers says who may decide.
type Approvers struct {
	// Members of any of these groups may decide.
	Groups []string `json:"groups,omitempty"`
	// These users may decide.
	Users []string `json:"users,omitempty"`
	// So many approvals are needed.
	Minimum int `json:"minimum,omitempty" jsonschema:"default=1"`
	// Whoever started the promotion may not decide.
	DisallowExecutor bool `json:"disallowExecutor,omitempty"`
	// The author of the change may not decide.
	DisallowAuthor bool `json:"disallowAuthor,omitempty"`
}

// WaitSpec is the spec of a Wait step; one of the two is set.
type WaitSpec struct {
	// How long to wait.
	Duration promo.Duration `json:"duration,omitempty"`
	// The time to wait for (RFC 3339).
	Until string `json:"until,omitempty"`
}

// WaitForPRSpec is the spec of a WaitForPR step.
type WaitForPRSpec struct {
	// What to wait for.
	Until string `json:"until,omitempty" jsonschema:"enum=merged,enum=checks,enum=closed,default=merged"`
}

// RollbackSpec is the spec of a Rollback step.
type RollbackSpec struct {
	// The commit to go back to: "known-good" or a commit id.
	To string `json:"to,omitempty" jsonschema:"default=known-good"`
	// How the commit reaches the branch; default: the service's rollback.delivery.
	Delivery string `json:"delivery,omitempty" jsonschema:"enum=push,enum=pull-request"`
	// Run the stage's Verify steps afterwards.
	Verify *bool `json:"verify,omitempty" jsonschema:"default=true"`
	// What to do where files under the service's shared paths differ from the known-good commit.
	Shared string `json:"shared,omitempty" jsonschema:"enum=ask,enum=include,enum=paths-only,default=ask"`
}

// Decode reads a gate's resolved spec.
func Decode[T any](spec json.RawMessage) (T, error) {
	var v T
	if len(spec) == 0 {
		return v, nil
	}
	if err := json.Unmarshal(spec, &v); err != nil {
		return v, promo.Errorf(promo.CodeConfiguration, "spec: %w", err)
	}
	return v, nil
}

// ParseTime reads an RFC 3339 time.
func ParseTime(s string) (time.Time, error) {
	t, err := time.Parse(time.RFC3339, s)
	if err != nil {
		return time.Time{}, promo.Errorf(promo.CodeConfiguration, "%q is not a time", s).WithHint("write RFC 3339, such as 2026-01-31T18:00:00Z")
	}
	return t, nil
}
