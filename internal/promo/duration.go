package promo

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// Duration is a duration as people write it: "500ms", "90s", "10m", "1h30m", "3d", "2w". A number without a
// unit is an error.
type Duration time.Duration

// ParseDuration reads a duration. Units are ms, s, m, h, d (24 h) and w (7 d).
func ParseDuration(s string) (Duration, error) {
	rest := strings.ReplaceAll(strings.TrimSpace(s), " ", "")
	var days time.Duration
	for _, u := range []struct {
		suffix string
		unit   time.Duration
	}{{"w", 7 * 24 * time.Hour}, {"d", 24 * time.Hour}} {
		head, tail, found := strings.Cut(rest, u.suffix)
		if !found {
			continue
		}
		n, err := strconv.ParseFloat(head, 64)
		if err != nil || n < 0 || n > 5200 {
			return 0, badDuration(s)
		}
		days += time.Duration(n * float64(u.unit))
		rest = tail
	}
	if rest == "" && days > 0 {
		return Duration(days), nil
	}
	d, err := time.ParseDuration(rest)
	if err != nil || d < 0 || (rest == "0" && s != "0s") {
		return 0, badDuration(s)
	}
	return Duration(days + d), nil
}

func badDuration(s string) error {
	return Errorf(CodeConfiguration, "%q is not a duration", s).WithHint(`write a number with a unit, such as "30s", "10m", "1h30m" or "3d"`)
}

// D returns the duration as the standard library knows it.
func (d Duration) D() time.Duration { return time.Duration(d) }

// String writes the duration with the largest units that fit, "3d" or "1h30m".
func (d Duration) String() string {
	t := time.Duration(d)
	var b strings.Builder
	if days := t / (24 * time.Hour); days > 0 {
		fmt.Fprintf(&b, "%dd", days)
		t -= days * 24 * time.Hour
		if t == 0 {
			return b.String()
		}
	}
	s := t.String()
	if strings.HasSuffix(s, "m0s") {
		s = strings.TrimSuffix(s, "0s")
	}
	if strings.HasSuffix(s, "h0m") {
		s = strings.TrimSuffix(s, "0m")
	}
	b.WriteString(s)
	return b.String()
}

// MarshalText writes the duration as people do.
func (d Duration) MarshalText() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON reads a string; a bare number is an error.
func (d *Duration) UnmarshalJSON(b []byte) error {
	var s string
	if err := json.Unmarshal(b, &s); err != nil {
		return badDuration(string(b))
	}
	v, err := ParseDuration(s)
	if err != nil {
		return err
	}
	*d = v
	return nil
}
