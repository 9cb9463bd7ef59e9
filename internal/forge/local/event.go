package local

import (
	"log/slog"
	"sync"

	"github.com/davit-cd/davit/internal/forge"
)

// events delivers what happened, in order, without holding up who did it.
type events struct {
	mu      sync.Mutex
	subs    []func(forge.Event)
	queue   []forge.Event
	stopped bool
	wake    chan struct{}
	done    chan struct{}
}

// maxUnheard is how many events wait for the first who asks: what New found undone, and a little more.
const maxUnheard = 1000

// Events calls fn, from one goroutine and in order, with everything that happens from now on; the first one also
// hears what New found that had happened while nobody looked. fn should be quick.
func (f *Forge) Events(fn func(forge.Event)) {
	f.events.mu.Lock()
	defer f.events.mu.Unlock()
	f.events.subs = append(f.events.subs, fn)
	f.events.signal()
}

func (e *events) start(log *slog.Logger) {
	e.wake = make(chan struct{}, 1)
	e.done = make(chan struct{})
	go e.deliver(log)
}

func (e *events) publish(list []forge.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.stopped {
		return
	}
	e.queue = append(e.queue, list...)
	if len(e.subs) == 0 {
		e.queue = e.queue[max(0, len(e.queue)-maxUnheard):]
	}
	e.signal()
}

func (e *events) signal() {
	select {
	case e.wake <- struct{}{}:
	default:
	}
}

func (e *events) stop() {
	e.mu.Lock()
	e.stopped = true
	e.signal()
	e.mu.Unlock()
	<-e.done
}

func (e *events) deliver(log *slog.Logger) {
	defer close(e.done)
	for range e.wake {
		e.mu.Lock()
		batch, subs, stopped := e.queue, e.subs, e.stopped
		if len(subs) > 0 {
			e.queue = nil
		}
		e.mu.Unlock()
		if len(subs) == 0 {
			batch = nil
		}
		for _, ev := range batch {
			log.Debug("forge event", "type", ev.Type, "repository", ev.Repository, "number", ev.Number, "commit", ev.After)
			for _, fn := range subs {
				fn(ev)
			}
		}
		if stopped {
			return
		}
	}
}
