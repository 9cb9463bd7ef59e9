package steps

import (
	"time"

	"github.com/davit-cd/davit/internal/plan"
)

// WaitForPR waits until the stage's pull request is merged, closed or has its checks green. It is a gate:
// workflow code runs it.
func WaitForPR() Type {
	return Type{
		Kind:    "WaitForPR",
		Summary: "waits until a pull request is merged, closed or has its checks green",
		Scope:   plan.ScopeStage,
		Class:   plan.ClassNetwork,
		Gate:    true,
		Mutates: never, // a person merges; the stage takes its lane before the next step that changes something
		Timeout: 7 * 24 * time.Hour,
		Config: func() any {
			return &plan.WaitForPRSpec{Until: "merged", ForeignCommits: "refuse"}
		},
		Outputs: map[string]string{"sha": "commit on the target branch, or the head whose checks are green"},
	}
}
