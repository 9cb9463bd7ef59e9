package steps

import (
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/plan"
)

// Approval waits for people. It is a gate: workflow code runs it.
func Approval() Type {
	return Type{
		Kind:    "Approval",
		Summary: "waits for people",
		Scope:   plan.ScopeStage,
		Class:   plan.ClassQuick,
		Gate:    true,
		Mutates: never,
		Timeout: 24 * time.Hour, // over a night and a morning, not over a weekend: an old diff is not looked at again
		Config: func() any {
			return &plan.ApprovalSpec{
				Approvers: plan.Approvers{Minimum: 1}, OnTimeout: "fail", Each: "stage", From: "davit",
			}
		},
		Check: checkApproval,
		Outputs: map[string]string{
			"approvedBy": "names of the people who approved, in order",
			"comment":    "comment of the last approval",
			"inputs.*":   "values that the approvers gave",
			"digest":     "digest of the change that was looked at",
		},
	}
}

// never is Mutates of types that leave the environment as it is.
func never(json.RawMessage) bool { return false }

func checkApproval(cfg any) []Problem {
	c, ok := cfg.(*plan.ApprovalSpec)
	if !ok {
		return nil
	}
	var out []Problem
	if len(c.Approvers.Groups)+len(c.Approvers.Users) == 0 {
		out = append(out, Problem{
			Path: "approvers", Msg: "nobody may approve",
			Hint: "name groups or users, such as approvers: {groups: [release-managers]}",
		})
	}
	if n := len(c.Approvers.Users); len(c.Approvers.Groups) == 0 && n > 0 && n < c.Approvers.Minimum {
		out = append(out, Problem{
			Path: "approvers.minimum",
			Msg:  fmt.Sprintf("needs %d people where only %d may approve", c.Approvers.Minimum, n),
			Hint: "name a group or more users",
		})
	}
	seen := map[string]bool{}
	for i, in := range c.Inputs {
		at := fmt.Sprintf("inputs[%d]", i)
		out = append(out, checkApprovalInput(at, in)...)
		if seen[in.Name] {
			out = append(out, Problem{Path: at + ".name", Msg: fmt.Sprintf("input %q is declared twice", in.Name)})
		}
		seen[in.Name] = true
	}
	return out
}

func checkApprovalInput(at string, in plan.ApprovalInput) []Problem {
	var out []Problem
	if !isName(in.Name) {
		out = append(out, Problem{
			Path: at + ".name", Msg: fmt.Sprintf("%q is no name", in.Name),
			Hint: "small letters, digits and hyphens, a letter first, at most 63",
		})
	}
	if in.Default != "" && len(in.Allowed) > 0 && !slices.Contains(in.Allowed, in.Default) {
		out = append(out, Problem{
			Path: at + ".default", Msg: fmt.Sprintf("default %q is not allowed", in.Default),
			Hint: "allowed are " + strings.Join(in.Allowed, ", "),
		})
	}
	re, err := regexp.Compile(`^(?:` + in.Pattern + `)$`)
	if err != nil {
		return append(out, Problem{Path: at + ".pattern", Msg: fmt.Sprintf("pattern does not compile: %v", err)})
	}
	if in.Default != "" && in.Pattern != "" && !re.MatchString(in.Default) {
		out = append(out, Problem{Path: at + ".default", Msg: fmt.Sprintf("default %q does not match the pattern", in.Default)})
	}
	return out
}

// isName reports whether s may name a thing of the language.
func isName(s string) bool {
	if s == "" || len(s) > 63 || s[0] < 'a' || s[0] > 'z' {
		return false
	}
	return strings.Trim(s, "abcdefghijklmnopqrstuvwxyz0123456789-") == ""
}
