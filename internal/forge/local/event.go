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

// Events calls fn, from one goroutine and in order, with everything that happens from now on. fn should be quick.
func (f *Forge) Events(fn func(forge.Event)) {
	f.events.mu.Lock()
	defer f.events.mu.Unlock()
	f.events.subs = append(f.events.subs, fn)
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
		e.queue = nil
		e.mu.Unlock()
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
