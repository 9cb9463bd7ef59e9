package promo

import (
	"encoding/json"
	"testing"
	"time"
)

func TestParseDuration(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]time.Duration{
		"500ms": 500 * time.Millisecond, "90s": 90 * time.Second, "10m": 10 * time.Minute, "1h30m": 90 * time.Minute,
		"3d": 72 * time.Hour, "1w2d": 9 * 24 * time.Hour, "1d 2h": 26 * time.Hour, "0s": 0,
	} {
		got, err := ParseDuration(in)
		if err != nil || got.D() != want {
			t.Errorf("ParseDuration(%q) = %v, %v, want %v", in, got, err, want)
		}
		again, err := ParseDuration(got.String())
		if err != nil || again != got {
			t.Errorf("%q written as %q reads as %v, %v", in, got, again, err)
		}
	}
	for _, in := range []string{"5", "", "0", "-1m", "10sfoo", "d", "1x", "99999w"} {
		if got, err := ParseDuration(in); err == nil {
			t.Errorf("ParseDuration(%q) = %v, want an error", in, got)
		} else if CodeOf(err) != CodeConfiguration {
			t.Errorf("ParseDuration(%q): code %v", in, CodeOf(err))
		}
	}
	var d Duration
	if err := json.Unmarshal([]byte("5"), &d); err == nil {
		t.Error("a bare number was read as a duration")
	}
}
