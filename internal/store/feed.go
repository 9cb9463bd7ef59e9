package store

import (
	"context"
	"sync"
)

// maxPending is how many different events wait for one subscriber before it is told to read everything again:
// more than a page shows, little memory for a stuck browser.
const maxPending = 1024

// Feed fans events out to subscribers in this process. Publishing never blocks; what a slow subscriber has not
// taken yet is kept once per thing. The zero value is ready.
type Feed struct {
	mu   sync.Mutex
	subs map[*subscriber]struct{}
}

type subscriber struct {
	mu      sync.Mutex
	order   []Event
	pending map[Event]struct{}
	lost    bool
	wake    chan struct{}
}

// Subscribe returns a channel of events that ends when ctx does.
func (f *Feed) Subscribe(ctx context.Context) <-chan Event {
	s := &subscriber{pending: map[Event]struct{}{}, wake: make(chan struct{}, 1)}
	f.mu.Lock()
	if f.subs == nil {
		f.subs = map[*subscriber]struct{}{}
	}
	f.subs[s] = struct{}{}
	f.mu.Unlock()

	out := make(chan Event)
	go func() {
		defer close(out)
		defer f.drop(s)
		s.deliver(ctx, out)
	}()
	return out
}

// Publish tells every subscriber.
func (f *Feed) Publish(events ...Event) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for s := range f.subs {
		s.add(events)
	}
}

func (f *Feed) drop(s *subscriber) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.subs, s)
}

func (s *subscriber) add(events []Event) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range events {
		if _, known := s.pending[e]; known || s.lost {
			continue
		}
		if len(s.order) == maxPending {
			s.order, s.pending, s.lost = nil, map[Event]struct{}{}, true
			continue
		}
		s.order = append(s.order, e)
		s.pending[e] = struct{}{}
	}
	select {
	case s.wake <- struct{}{}:
	default:
	}
}

// next takes the oldest pending event.
func (s *subscriber) next() (Event, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.lost {
		s.lost = false
		return Event{Kind: EventLost}, true
	}
	if len(s.order) == 0 {
		return Event{}, false
	}
	e := s.order[0]
	s.order = s.order[1:]
	delete(s.pending, e)
	return e, true
}

func (s *subscriber) deliver(ctx context.Context, out chan<- Event) {
	for {
		e, ok := s.next()
		if !ok {
			select {
			case <-ctx.Done():
				return
			case <-s.wake:
			}
			continue
		}
		select {
		case <-ctx.Done():
			return
		case out <- e:
		}
	}
}
