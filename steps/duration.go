package steps

import "github.com/davit-cd/davit/internal/plan"

// Duration is a length of time as people write it: "90s", "10m", "3d". It lives beside the plan, because gates are
// run by workflow code.
type Duration = plan.Duration

// ParseDuration reads a duration.
func ParseDuration(s string) (Duration, error) { return plan.ParseDuration(s) }
