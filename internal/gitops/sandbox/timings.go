package sandbox

import (
	"cmp"
	"time"
)

// Timings say how long things take. Zero fields take the defaults, which are those measured on a real Argo CD
// where it is fast and shortened where it is slow.
type Timings struct {
	// Pickup is from asking for an operation to its start: 20 ms.
	Pickup time.Duration
	// Apply is how long a sync operation runs: 150 ms.
	Apply time.Duration
	// Stale is how long after a sync the status is that of before: 75 ms.
	Stale time.Duration
	// Rollout is how long all replicas of a workload take to become ready, if the manifest doesn't say: 1.5 s.
	Rollout time.Duration
	// ProgressDeadline is when a Deployment that was told to fail is given up (at the latest; its own
	// progressDeadlineSeconds may be shorter): 5 s. Other Deployments have theirs, 10 minutes by default.
	ProgressDeadline time.Duration
	// SelfHeal is the pause between the end of an operation and a self-heal: 1 s (Argo CD: 2 to 5 s and more).
	SelfHeal time.Duration
	// Poll is how often revisions are resolved unasked: 1 min (Argo CD: 2 to 3 min).
	Poll time.Duration
	// Scrape is the distance of metric samples: 1 s.
	Scrape time.Duration
	// Save is how long changes of state that can be observed again are gathered before they are written: 200 ms.
	Save time.Duration
	// Read bounds one reading of a repository: 20 s.
	Read time.Duration
}

func (t Timings) withDefaults() Timings {
	return Timings{
		Pickup:           cmp.Or(t.Pickup, 20*time.Millisecond),
		Apply:            cmp.Or(t.Apply, 150*time.Millisecond),
		Stale:            cmp.Or(t.Stale, 75*time.Millisecond),
		Rollout:          cmp.Or(t.Rollout, 1500*time.Millisecond),
		ProgressDeadline: cmp.Or(t.ProgressDeadline, 5*time.Second),
		SelfHeal:         cmp.Or(t.SelfHeal, time.Second),
		Poll:             cmp.Or(t.Poll, time.Minute),
		Scrape:           cmp.Or(t.Scrape, time.Second),
		Save:             cmp.Or(t.Save, 200*time.Millisecond),
		Read:             cmp.Or(t.Read, 20*time.Second),
	}
}

type systemClock struct{}

func (systemClock) Now() time.Time                         { return time.Now() }
func (systemClock) After(d time.Duration) <-chan time.Time { return time.After(d) }
