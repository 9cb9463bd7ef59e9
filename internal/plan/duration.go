package plan

import (
	"fmt"
	"strings"
	"time"
)

// Duration is a length of time as people write it: a number with a unit, such as "90s", "10m", "1h30m" or "3d".
// A bare number is refused, because nobody can tell which unit was meant.
type Duration time.Duration

// day is written "d"; it is always 24 hours, whatever the clocks do.
const day = 24 * time.Hour

// ParseDuration reads a duration. Beside the units of Go it knows "d", 24 hours, in front of the others.
func ParseDuration(s string) (Duration, error) {
	rest, total := strings.TrimSpace(s), time.Duration(0)
	if head, tail, ok := strings.Cut(rest, "d"); ok {
		n, err := parseDays(head)
		if err != nil {
			return 0, fmt.Errorf("%q is no duration", s)
		}
		total, rest = n, tail
		if rest == "" {
			return Duration(total), nil
		}
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 {
		return 0, fmt.Errorf("%q is no duration", s)
	}
	if strings.Trim(rest, "0123456789.") == "" {
		return 0, fmt.Errorf("%q has no unit", s)
	}
	if total > 0 && d > maxDuration-total || d > maxDuration {
		return 0, fmt.Errorf("%q is longer than ten years", s)
	}
	return Duration(total + d), nil
}

// maxDuration bounds every duration: a longer one is a slip of the pen, and sums of a few stay far from overflow.
const maxDuration = 3650 * day

// parseDays reads the digits in front of a "d".
func parseDays(digits string) (time.Duration, error) {
	n := 0
	if digits == "" || len(digits) > 4 || strings.Trim(digits, "0123456789") != "" {
		return 0, fmt.Errorf("%q is no number of days", digits)
	}
	for _, r := range digits {
		n = n*10 + int(r-'0')
	}
	if n > int(maxDuration/day) {
		return 0, fmt.Errorf("%q days are longer than ten years", digits)
	}
	return time.Duration(n) * day, nil
}

// Std returns the duration as the standard library has it.
func (d Duration) Std() time.Duration { return time.Duration(d) }

// String writes the duration as people do, "3d" rather than "72h0m0s".
func (d Duration) String() string {
	std := time.Duration(d)
	if std == 0 {
		return "0s"
	}
	if std%day == 0 {
		return fmt.Sprintf("%dd", std/day)
	}
	s := std.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	return s
}

// MarshalText writes String.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalText reads what ParseDuration reads.
func (d *Duration) UnmarshalText(b []byte) error {
	v, err := ParseDuration(string(b))
	if err != nil {
		return err
	}
	*d = v
	return nil
}
