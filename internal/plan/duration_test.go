package plan_test

import (
	"encoding/json"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

func TestDurationText(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		want time.Duration
		text string // what it is written as, "" where in is right
		bad  bool
	}{
		"90s":       {want: 90 * time.Second, text: "1m30s"},
		"10m":       {want: 10 * time.Minute},
		"1h30m":     {want: 90 * time.Minute},
		"2h":        {want: 2 * time.Hour},
		"3d":        {want: 72 * time.Hour},
		"24h":       {want: 24 * time.Hour, text: "1d"},
		"1d12h":     {want: 36 * time.Hour, text: "36h"},
		"500ms":     {want: 500 * time.Millisecond},
		"0s":        {},
		" 5m ":      {want: 5 * time.Minute, text: "5m"},
		"0d":        {text: "0s"},
		"5":         {bad: true},
		"0":         {bad: true},
		"":          {bad: true},
		"-5m":       {bad: true},
		"d":         {bad: true},
		"1.5d":      {bad: true},
		"-1d":       {bad: true},
		"1d-2h":     {bad: true},
		"1d1d":      {bad: true},
		"ten":       {bad: true},
		"3651d":     {bad: true},
		"3650d1s":   {bad: true},
		"99999999d": {bad: true},
		"87601h":    {bad: true},
		"3650d":     {want: 3650 * 24 * time.Hour},
	}
	for in, tc := range cases {
		t.Run(in, func(t *testing.T) {
			t.Parallel()
			got, err := plan.ParseDuration(in)
			if (err != nil) != tc.bad || got.Std() != tc.want {
				t.Fatalf("got %v, %v", got, err)
			}
			if tc.bad {
				return
			}
			want := tc.text
			if want == "" {
				want = in
			}
			raw, err := json.Marshal(got)
			if err != nil || string(raw) != `"`+want+`"` {
				t.Errorf("written as %s (%v), want %q", raw, err, want)
			}
			var back plan.Duration
			if err := json.Unmarshal(raw, &back); err != nil || back != got {
				t.Errorf("read back as %v, %v", back, err)
			}
		})
	}
}

func TestDecodeEncode(t *testing.T) {
	t.Parallel()
	got, err := plan.Decode[plan.WaitSpec](json.RawMessage(`{"duration":"2h","until":"x"}`))
	if err != nil || got.Duration.Std() != 2*time.Hour || got.Until != "x" {
		t.Errorf("got %+v, %v", got, err)
	}
	if got, err := plan.Decode[plan.WaitSpec](nil); err != nil || got != (plan.WaitSpec{}) {
		t.Errorf("of nothing: got %+v, %v", got, err)
	}
	_, err = plan.Decode[plan.WaitSpec](json.RawMessage(`{"duration":5}`))
	if err == nil || promo.CodeOf(err) != promo.CodeConfiguration {
		t.Errorf("a wrong spec: got %v", err)
	}
	if got := string(plan.Encode(map[string]int{"b": 1, "a": 2})); got != `{"a":2,"b":1}` {
		t.Errorf("got %s", got)
	}
	if !json.Valid(plan.Encode(make(chan int))) {
		t.Error("outputs that can't be written are not JSON either")
	}
	if _, err := plan.ParseTime("tomorrow"); err == nil || promo.CodeOf(err) != promo.CodeConfiguration {
		t.Errorf("got %v", err)
	}
	if got, err := plan.ParseTime("2026-01-31T09:00:00Z"); err != nil || !got.Equal(time.Date(2026, 1, 31, 9, 0, 0, 0, time.UTC)) {
		t.Errorf("got %v, %v", got, err)
	}
}
