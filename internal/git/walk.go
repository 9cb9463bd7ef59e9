package git

import (
	"container/heap"
	"context"

	"github.com/go-git/go-git/v5/plumbing"
)

// painted is the outcome of walking from two commits until their histories have met.
type painted struct {
	// base is the newest commit in both histories; zero where there is none within the bounds.
	base plumbing.Hash
	// onlyTheirs are the commits that only the second has, newest first.
	onlyTheirs []*commit
}

const (
	ours   = 1
	theirs = 2
)

// paint walks from both commits, newest first, giving each commit the colours of its children, until all that is
// left has both. Right whatever the dates say: a commit between two related ones never gets the second colour.
func (r *Repo) paint(ctx context.Context, a, b plumbing.Hash) (painted, error) {
	return r.paintUpTo(ctx, a, b, maxWalk)
}

func (r *Repo) paintUpTo(ctx context.Context, a, b plumbing.Hash, limit int) (painted, error) {
	w := r.walker(ctx)
	if err := errorsFirst(w.push(a, ours), w.push(b, theirs)); err != nil {
		return painted{}, err
	}
	var out painted
	var met []*commit
	order := []*commit{}
	for n := 0; w.single > 0 && n < limit; n++ {
		c := w.pop()
		flags := w.flags[c.id]
		switch flags {
		case ours | theirs:
			met = append(met, c)
		case theirs:
			order = append(order, c)
		}
		for _, p := range c.parents {
			if err := w.push(p, flags); err != nil {
				return painted{}, err
			}
		}
	}
	met = append(met, w.queue...)
	out.base = best(met, w.flags, a, b)
	seen := map[plumbing.Hash]bool{}
	for _, c := range order {
		if w.flags[c.id] == theirs && !seen[c.id] {
			seen[c.id] = true
			out.onlyTheirs = append(out.onlyTheirs, c)
		}
	}
	return out, nil
}

// best picks the merge base: one of the two commits themselves where it has both colours, else the newest.
func best(met []*commit, flags map[plumbing.Hash]int, a, b plumbing.Hash) plumbing.Hash {
	for _, id := range []plumbing.Hash{a, b} {
		if flags[id] == ours|theirs {
			return id
		}
	}
	var newest *commit
	for _, c := range met {
		if flags[c.id] == ours|theirs && (newest == nil || c.committed > newest.committed) {
			newest = c
		}
	}
	if newest == nil {
		return plumbing.ZeroHash
	}
	return newest.id
}

func errorsFirst(errs ...error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// walker goes through history newest first.
type walker struct {
	load  func(plumbing.Hash) (*commit, error)
	queue commitHeap
	flags map[plumbing.Hash]int
	// queued are the commits in the queue; single counts those of them with one colour.
	queued map[plumbing.Hash]bool
	single int
}

func (r *Repo) walker(ctx context.Context) *walker {
	return &walker{
		load:  func(id plumbing.Hash) (*commit, error) { return r.history(ctx, id) },
		flags: map[plumbing.Hash]int{}, queued: map[plumbing.Hash]bool{},
	}
}

// push adds colours to a commit and queues it if that is news.
func (w *walker) push(id plumbing.Hash, flags int) error {
	had := w.flags[id]
	now := had | flags
	if now == had {
		return nil
	}
	if w.queued[id] {
		w.flags[id] = now
		w.single-- // it was single, else nothing would be new
		return nil
	}
	c, err := w.load(id)
	if err != nil {
		return err
	}
	w.flags[id] = now
	w.queued[id] = true
	if now != ours|theirs {
		w.single++
	}
	heap.Push(&w.queue, c)
	return nil
}

func (w *walker) pop() *commit {
	c, _ := heap.Pop(&w.queue).(*commit) // only commits are pushed
	delete(w.queued, c.id)
	if w.flags[c.id] != ours|theirs {
		w.single--
	}
	return c
}

type commitHeap []*commit

func (h commitHeap) Len() int           { return len(h) }
func (h commitHeap) Less(i, j int) bool { return h[i].committed > h[j].committed }
func (h commitHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push and Pop are for container/heap.
func (h *commitHeap) Push(x any) {
	if c, ok := x.(*commit); ok {
		*h = append(*h, c)
	}
}

// Pop takes the last.
func (h *commitHeap) Pop() any {
	c := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return c
}
