package plan

import "github.com/davit-cd/davit/internal/promo"

// RollbackTarget says what is put back to which commit.
type RollbackTarget struct {
	Project     string     `json:"project"`
	Service     Service    `json:"service"`
	Repository  Repository `json:"repository"`
	Environment string     `json:"environment"`
	// To is a commit, or the beginning of one in the history; "" for the newest known-good one that differs from
	// the present state.
	To string `json:"to,omitempty"`
	// Not leaves out this commit when the newest known-good one is looked for: the one that just failed.
	Not string `json:"not,omitempty"`
}

// BaselineRequest names the environment and its targets.
type BaselineRequest struct {
	Project     string     `json:"project"`
	Service     Service    `json:"service"`
	Repository  Repository `json:"repository"`
	Environment string     `json:"environment"`
	Targets     []Target   `json:"targets"`
}

// MarkRequest is the outcome of a stage. Entry.KnownGood is what the workflow knows: every target and wave synced
// and healthy, every Verify passed. Synced is the revision by target.
type MarkRequest struct {
	Entry      promo.KnownGood   `json:"entry"`
	Service    Service           `json:"service"`
	Repository Repository        `json:"repository"`
	Synced     map[string]string `json:"synced,omitempty"`
}

// MarkResult says what was recorded, and why it is not known-good where it isn't.
type MarkResult struct {
	KnownGood bool   `json:"knownGood"`
	Reason    string `json:"reason,omitempty"`
}

// RollbackWrite asks for the commit of a rollback.
type RollbackWrite struct {
	RollbackTarget
	Operation     string          `json:"operation"`
	ID            string          `json:"id"`
	IncludeShared bool            `json:"includeShared,omitempty"`
	By            promo.Principal `json:"by"`
	Reason        string          `json:"reason,omitempty"`
	// Delivery is "push" (default) or "pull-request".
	Delivery string `json:"delivery,omitempty"`
}

// RollbackWritten is the commit on the branch, or the pull request that still waits for somebody.
type RollbackWritten struct {
	Commit  string `json:"commit,omitempty"`
	Changed bool   `json:"changed"`
	// Merged is false while the pull request waits; Waiting says for what.
	Merged  bool   `json:"merged"`
	Waiting string `json:"waiting,omitempty"`
	Change  Change `json:"change"`
}

// OwnedPaths are the paths that a rollback puts back.
func (t RollbackTarget) OwnedPaths() []string { return t.Service.Owned[t.Environment] }
