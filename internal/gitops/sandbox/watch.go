package sandbox

import (
	"context"
	"maps"
	"slices"
	"sync"

	"github.com/davit-cd/davit/internal/promo"
)

// maxQueued bounds what a slow watcher makes the cluster remember. Beyond it older states of the same application
// are left out; the last one never is.
const maxQueued = 256

// watcher is one subscription: a queue between the cluster, which must not wait, and a reader, who may.
type watcher struct {
	key  string // of the application, empty for all
	wake chan struct{}
	done chan struct{}
	once sync.Once

	mu    sync.Mutex
	queue []promo.Application
}

func (w *watcher) stop() { w.once.Do(func() { close(w.done) }) }

func (w *watcher) push(state promo.Application) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) >= maxQueued {
		i := slices.IndexFunc(w.queue, func(old promo.Application) bool { return old.ApplicationRef == state.ApplicationRef })
		if i >= 0 {
			w.queue = slices.Delete(w.queue, i, i+1)
		}
	}
	w.queue = append(w.queue, state)
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (w *watcher) pop() (promo.Application, bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.queue) == 0 {
		return promo.Application{}, false
	}
	state := w.queue[0]
	w.queue = slices.Delete(w.queue, 0, 1)
	return state, true
}

// pump hands the queue to the reader until the watch ends.
func (w *watcher) pump(ctx context.Context, out chan<- promo.Application, end func()) {
	defer close(out)
	defer end()
	for {
		state, ok := w.pop()
		if !ok {
			select {
			case <-w.wake:
				continue
			case <-ctx.Done():
				return
			case <-w.done:
				return
			}
		}
		select {
		case out <- state:
		case <-ctx.Done():
			return
		case <-w.done:
			return
		}
	}
}

// Watch sends the application's present state, then each change. It may leave out states for a reader that lags
// far behind, never the last. The channel closes when ctx ends or the cluster closes.
func (c *Cluster) Watch(ctx context.Context, ref promo.ApplicationRef) (<-chan promo.Application, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	a, err := c.find(ref)
	if err != nil {
		return nil, err
	}
	return c.watch(ctx, a.key(), a), nil
}

// WatchAll is Watch for all applications, those declared later included.
func (c *Cluster) WatchAll(ctx context.Context) (<-chan promo.Application, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.watch(ctx, "", c.sortedApps()...), nil
}

func (c *Cluster) watch(ctx context.Context, key string, present ...*app) <-chan promo.Application {
	w := &watcher{key: key, wake: make(chan struct{}, 1), done: make(chan struct{})}
	for _, a := range present {
		w.push(a.snapshot())
	}
	c.watchers[w] = true
	if c.closed {
		w.stop()
	}
	out := make(chan promo.Application)
	go w.pump(ctx, out, func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.watchers, w)
	})
	return out
}

// publish tells the watchers and remembers to save. The caller holds c.mu.
func (c *Cluster) publish(a *app) {
	c.changed()
	state := a.snapshot()
	for w := range c.watchers {
		if w.key == "" || w.key == a.key() {
			w.push(state)
		}
	}
}

// snapshot copies what is changed in place; the rest is replaced as a whole when it changes.
func (a *app) snapshot() promo.Application {
	s := a.Status
	s.Labels, s.Annotations = maps.Clone(s.Labels), maps.Clone(s.Annotations)
	s.Images, s.Resources, s.History = slices.Clone(s.Images), slices.Clone(s.Resources), slices.Clone(s.History)
	s.PendingOperation, s.LastOperation = copied(s.PendingOperation), copied(s.LastOperation)
	return s
}

func copied(o *promo.Operation) *promo.Operation {
	if o == nil {
		return nil
	}
	c := *o
	return &c
}
