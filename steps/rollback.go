package steps

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/plan"
)

// Rollback puts the environment back to a known-good commit. Workflow code runs it: it starts the rollback workflow
// as a child and waits for it.
func Rollback() Type {
	return Type{
		Kind:    "Rollback",
		Summary: "puts the environment back to a known-good commit",
		Scope:   plan.ScopeStage,
		Class:   plan.ClassChange,
		Gate:    true,
		Mutates: func(json.RawMessage) bool { return true },
		Timeout: time.Hour, // commit, sync of every target and the wait for health
		Config: func() any {
			return &plan.RollbackSpec{To: "known-good", Verify: true, Shared: "ask"}
		},
		Check: checkRollback,
		Outputs: map[string]string{
			"commit":    "commit that the rollback wrote",
			"knownGood": "commit it went back to",
			"files":     "files that changed",
		},
	}
}

func checkRollback(cfg any) []Problem {
	c, ok := cfg.(*plan.RollbackSpec)
	if !ok || c.To == "known-good" || strings.Contains(c.To, "${{") {
		return nil
	}
	if len(c.To) < 7 || len(c.To) > 64 || strings.Trim(c.To, "0123456789abcdef") != "" {
		return []Problem{{
			Path: "to", Msg: fmt.Sprintf("%q is no commit", c.To), Hint: "write known-good or a commit's hash",
		}}
	}
	return nil
}
