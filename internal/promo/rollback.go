package promo

import "time"

// Rollback is one way back: a service in an environment put back to a known-good commit.
type Rollback struct {
	// ID is "<project>/<service>/<environment>/<number>".
	ID          string `json:"id"`
	Project     string `json:"project"`
	Service     string `json:"service"`
	Environment string `json:"environment"`
	Number      int    `json:"number"`
	// To is the commit gone back to; From is the branch's head before.
	To   string `json:"to"`
	From string `json:"from,omitempty"`
	// Commit is the commit that the rollback wrote; equal to From where nothing had to change.
	Commit     string    `json:"commit,omitempty"`
	StartedBy  string    `json:"startedBy"`
	Reason     string    `json:"reason,omitempty"`
	Promotion  string    `json:"promotion,omitempty"` // the promotion whose failure started it
	Automatic  bool      `json:"automatic,omitempty"`
	Phase      Phase     `json:"phase"`
	Message    string    `json:"message,omitempty"`
	Error      *Error    `json:"error,omitempty"`
	Preview    *Preview  `json:"preview,omitempty"`
	Steps      []Step    `json:"steps,omitempty"`
	StartedAt  time.Time `json:"startedAt"`
	FinishedAt time.Time `json:"finishedAt,omitzero"`
	// WaitsFor names the events that would wake the rollback, sorted.
	WaitsFor []string `json:"waitsFor,omitempty"`
	Sequence int64    `json:"sequence"`
}

// Preview is what a rollback would do, shown before it does it.
type Preview struct {
	To      string `json:"to"`
	Version string `json:"version,omitempty"`
	From    string `json:"from"`
	// Files are those under the owned paths that would change.
	Files []string `json:"files"`
	// Shared are files under the service's shared paths that differ from the known-good commit; Readers are the
	// other environments that read them. The owned paths alone don't bring that state back.
	Shared  []string `json:"shared,omitempty"`
	Readers []string `json:"readers,omitempty"`
	// Foreign are commits of other people since the known-good one that would be undone.
	Foreign []Commit `json:"foreign,omitempty"`
	// Diff is unified, capped.
	Diff string `json:"diff,omitempty"`
	// Prunes lists, per target, objects that the sync would delete.
	Prunes map[string][]string `json:"prunes,omitempty"`
	// Refusal says why it can't be done, "" where it can.
	Refusal string `json:"refusal,omitempty"`
}

// Commit is a commit as people see it.
type Commit struct {
	SHA       string    `json:"sha"`
	Author    string    `json:"author"`
	Subject   string    `json:"subject"`
	At        time.Time `json:"at"`
	Operation string    `json:"operation,omitempty"`
}

// Hold keeps automatic promotions out of a service's environment until a person releases it.
type Hold struct {
	Project     string    `json:"project"`
	Service     string    `json:"service"`
	Environment string    `json:"environment"`
	Reason      string    `json:"reason"`
	By          string    `json:"by"`
	At          time.Time `json:"at"`
}
