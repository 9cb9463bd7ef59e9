package sandbox

import (
	"context"
	"time"
)

// schedule holds what is to be done, by key. It is small (a few entries an application), so that looking through
// all of it costs less than keeping it in order.
type schedule map[string]task

type task struct {
	at  time.Time
	run func(context.Context)
}

// at plans run, unless something is already planned under the key for an earlier time. The caller holds c.mu.
func (c *Cluster) at(key string, when time.Time, run func(context.Context)) {
	if old, planned := c.schedule[key]; planned && !old.at.After(when) {
		return
	}
	c.schedule[key] = task{at: when, run: run}
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// next returns the key of the earliest task; ties go by key, so that tests see one order.
func (s schedule) next() (string, task, bool) {
	var (
		key   string
		first task
		found bool
	)
	for k, t := range s {
		if !found || t.at.Before(first.at) || t.at.Equal(first.at) && k < key {
			key, first, found = k, t, true
		}
	}
	return key, first, found
}

// runDue does all that is due and returns how long there is nothing to do.
func (c *Cluster) runDue(ctx context.Context) time.Duration {
	for ctx.Err() == nil {
		c.mu.Lock()
		key, first, found := c.schedule.next()
		wait := time.Hour // as good as for ever: wake ends the wait
		if found {
			wait = first.at.Sub(c.clock.Now())
		}
		if wait > 0 {
			c.mu.Unlock()
			return wait
		}
		delete(c.schedule, key)
		c.mu.Unlock()
		first.run(ctx)
	}
	return 0
}
