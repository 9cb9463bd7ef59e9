package steps

import (
	"fmt"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/plan"
)

// Wait lets time pass. It is a gate: workflow code runs it.
func Wait() Type {
	return Type{
		Kind:    "Wait",
		Summary: "waits for a duration, or until a time",
		Scope:   plan.ScopeStage,
		Class:   plan.ClassQuick,
		Gate:    true,
		Mutates: never,
		Timeout: 30 * 24 * time.Hour, // a bound against slips; the spec says how long
		Config:  func() any { return &plan.WaitSpec{} },
		Check:   checkWait,
	}
}

func checkWait(cfg any) []Problem {
	c, ok := cfg.(*plan.WaitSpec)
	if !ok {
		return nil
	}
	if c.Duration != 0 && c.Until != "" {
		return []Problem{{Path: "until", Msg: "duration and until exclude each other", Hint: "keep one of them"}}
	}
	if c.Until == "" || strings.Contains(c.Until, "${{") {
		return nil
	}
	if _, err := time.Parse(time.RFC3339, c.Until); err != nil {
		return []Problem{{
			Path: "until", Msg: fmt.Sprintf("%q is no time", c.Until),
			Hint: "write it as RFC 3339, such as 2026-01-31T09:00:00+01:00",
		}}
	}
	return nil
}
