package git

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync/atomic"
	"time"

	"github.com/go-git/go-git/v5/plumbing"

	"github.com/davit-cd/davit/internal/promo"
)

const (
	// maxAttempts bounds how often a batch is redone after lost races: with a jittered wait between them some
	// 5 s of a branch that never rests.
	maxAttempts = 12
	// maxBatch bounds the commits of one push, so that its pack stays small and the first one does not wait long.
	maxBatch = 100
	// maxSearch is how many commits of base..head are searched for an operation.
	maxSearch = 1000
)

// queue holds the changes that wait for one branch.
type queue struct{ waiting []*job }

// job is a change on its way. base, head, existing and err are its outcome, to be read after done.
type job struct {
	ctx  context.Context //nolint:containedctx // the caller's, for its own part of a batch that others share
	req  ChangeRequest
	done chan struct{}

	base, head plumbing.Hash
	existing   bool
	err        error
	copied     []plumbing.Hash
}

// doubtful reports whether the outcome was read from a head that may be old: an edit that failed, changed nothing
// or was found needs a second look, a commit is guarded by compare-and-set.
func (j *job) doubtful() bool { return j.err != nil || j.existing || j.base == j.head }

func (r *Repo) enqueue(j *job) {
	r.mu.Lock()
	defer r.mu.Unlock()
	q, running := r.queues[j.req.Branch]
	if !running {
		q = &queue{}
		r.queues[j.req.Branch] = q
		r.work.Add(1)
		go r.drain(j.req.Branch, q)
	}
	q.waiting = append(q.waiting, j)
}

// withdraw takes a job that nobody has begun out of its queue.
func (r *Repo) withdraw(j *job) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	q, ok := r.queues[j.req.Branch]
	if !ok {
		return false
	}
	before := len(q.waiting)
	q.waiting = slices.DeleteFunc(q.waiting, func(o *job) bool { return o == j })
	return len(q.waiting) < before
}

// drain lands batch after batch until nothing waits.
func (r *Repo) drain(branch string, q *queue) {
	defer r.work.Done()
	for {
		r.mu.Lock()
		n := together(q.waiting)
		batch := slices.Clone(q.waiting[:n])
		q.waiting = slices.Delete(q.waiting, 0, n)
		if n == 0 {
			delete(r.queues, branch)
			r.mu.Unlock()
			return
		}
		r.mu.Unlock()
		r.land(branch, batch)
	}
}

// together is how many of the waiting go in one push: a branch that is made anew is nobody else's business.
func together(waiting []*job) int {
	for i, j := range waiting[:min(len(waiting), maxBatch)] {
		if j.req.Rebuild {
			return max(i, 1)
		}
	}
	return min(len(waiting), maxBatch)
}

// land brings a batch to its end: every job has an outcome afterwards.
func (r *Repo) land(branch string, batch []*job) {
	ctx, cancel := batchContext(batch, r.opts.PushTimeout)
	err := r.landTogether(ctx, branch, batch)
	cancel()
	if err != nil && len(batch) > 1 && refusal(err) {
		// The server said no to the push as a whole; alone, each gets the answer that is its own.
		for _, j := range batch {
			r.land(branch, []*job{j})
		}
		return
	}
	for _, j := range batch {
		if err != nil && j.err == nil {
			j.err = err
		}
		close(j.done)
	}
}

// refusal reports whether the server refused for a reason that may lie in one commit of several.
func refusal(err error) bool {
	return isCode(err, promo.CodeAuthorization) || isCode(err, promo.CodeConfiguration)
}

// batchContext ends when its time is over or when nobody waits for the batch any more.
func batchContext(batch []*job, limit time.Duration) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(batch[0].ctx), limit)
	var left atomic.Int64
	left.Store(int64(len(batch)))
	stops := make([]func() bool, len(batch))
	for i, j := range batch {
		stops[i] = context.AfterFunc(j.ctx, func() {
			if left.Add(-1) == 0 {
				cancel()
			}
		})
	}
	return ctx, func() {
		for _, stop := range stops {
			stop()
		}
		cancel()
	}
}

// landTogether builds the batch's commits on the branch's head and pushes them in one pack. The first try takes
// the head as it was last seen; a refused compare-and-set asks the server and does everything again.
func (r *Repo) landTogether(ctx context.Context, branch string, batch []*job) error { //nolint:gocognit // one grammar or protocol, read from top to bottom
	at, known := r.remembered(branch, batch[0].req)
	var last error
	for attempt := range maxAttempts {
		err := pause(ctx, attempt)
		if err == nil && !known {
			at, err = r.ask(ctx, branch, batch[0].req)
		}
		if err != nil {
			return wireError(ctx, r.c.url, err)
		}
		head, objects := r.build(ctx, at, batch)
		if known && anyDoubtful(batch) {
			now, err := r.ask(ctx, branch, batch[0].req)
			if err != nil {
				return err
			}
			if now != at {
				at = now
				head, objects = r.build(ctx, at, batch)
			}
		}
		if head == at.on {
			return nil // nothing new: found, unchanged or failed, each by itself
		}
		err = r.pushBatch(ctx, branch, at, head, objects)
		if errors.Is(err, errForgotten) {
			err = r.pushWhole(ctx, branch, at, batch, objects)
		}
		if !errors.Is(err, errRace) {
			return err
		}
		known, last = false, err
	}
	return promo.Errorf(promo.CodeConflict, "branch %q of repository %q moved %d times while the change was made: %s",
		branch, r.name, maxAttempts, serverText(last.Error()))
}

func anyDoubtful(batch []*job) bool {
	for _, j := range batch {
		if j.doubtful() {
			return true
		}
	}
	return false
}

// pause waits a little before the third and later attempts: up to 20 ms, doubling up to 1 s, so that writers who
// meet again and again part.
func pause(ctx context.Context, attempt int) error {
	if attempt < 2 {
		return ctx.Err()
	}
	limit := min(20*time.Millisecond<<(attempt-2), time.Second)
	timer := time.NewTimer(rand.N(limit)) //nolint:gosec // jitter needs no secret randomness
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// build makes the commits of a batch, one on the other, and returns the last with all new objects.
func (r *Repo) build(ctx context.Context, at start, batch []*job) (plumbing.Hash, []newObject) {
	head := at.on
	var all []newObject
	for _, j := range batch {
		j.base, j.head, j.existing, j.err = head, head, false, nil
		objects, err := r.buildOne(ctx, at, j)
		if err != nil {
			j.err = err
			continue
		}
		if !j.existing {
			head = j.head
		}
		all = append(all, objects...)
	}
	return head, unique(all)
}

func unique(objects []newObject) []newObject {
	seen := make(map[plumbing.Hash]bool, len(objects))
	out := objects[:0]
	for _, o := range objects {
		if !seen[o.id] {
			seen[o.id] = true
			out = append(out, o)
		}
	}
	return out
}

// buildOne makes one job's commit on j.base, or finds it there.
func (r *Repo) buildOne(ctx context.Context, at start, j *job) ([]newObject, error) {
	if err := j.ctx.Err(); err != nil {
		return nil, wireError(j.ctx, r.c.url, err) //nolint:contextcheck // work for several callers at once has a context of its own
	}
	found, err := r.findIn(ctx, j.base, r.searchBase(at, j.req.Base), j.req.Operation)
	if err != nil {
		return nil, err
	}
	if found != nil {
		j.head, j.existing = found.id, true
		if len(found.parents) > 0 {
			j.base = found.parents[0]
		}
		return nil, nil
	}
	if e := j.req.Expect; e != "" && j.base.String() != e {
		return nil, r.foreign(ctx, j.req.Branch, j.base, e)
	}
	t, err := r.treeAt(j.ctx, j.base) //nolint:contextcheck // work for several callers at once has a context of its own
	if err != nil {
		return nil, err
	}
	before := t.root.id
	if j.req.Undo != "" {
		err = r.undo(j.ctx, t, j.req.Undo) //nolint:contextcheck // work for several callers at once has a context of its own
	} else {
		err = j.req.Edit(j.ctx, t) //nolint:contextcheck // work for several callers at once has a context of its own
	}
	if err != nil {
		return nil, err
	}
	j.copied = t.copied
	root, objects, err := t.finish()
	if err != nil || root == before {
		return nil, err
	}
	o := encodeCommit(root, []plumbing.Hash{j.base}, j.req.Author, r.opts.Now(), messageOf(j.req.Message, j.req.Operation))
	j.head = o.id()
	objects = append(objects, newObject{object: o, id: j.head})
	known := make(map[plumbing.Hash]object, len(objects))
	for _, n := range objects {
		known[n.id] = n.object
	}
	r.s.add(known) // the next job builds on it; if the push fails, upkeep drops it
	r.markWhole(j.head)
	return objects, nil
}

// pushWhole is pushBatch with everything below what was copied from other commits: the mirror has kept what the
// server has forgotten.
func (r *Repo) pushWhole(ctx context.Context, branch string, at start, batch []*job, objects []newObject) error {
	head := at.on
	for _, j := range batch {
		if j.err == nil && !j.existing {
			head = j.head
		}
		below, err := r.below(ctx, j.copied)
		if err != nil {
			return err
		}
		objects = append(objects, below...)
	}
	return r.pushBatch(ctx, branch, at, head, unique(objects))
}

func (r *Repo) pushBatch(ctx context.Context, branch string, at start, head plumbing.Hash, objects []newObject) error {
	pack, err := encodePack(objects)
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "packing %d objects: %w", len(objects), err)
	}
	err = r.c.push(ctx, refUpdate{ref: "refs/heads/" + branch, old: at.old, new: head}, pack)
	if err != nil {
		r.mu.Lock()
		delete(r.seen, branch) // whatever happened, what was seen is worth nothing now
		r.mu.Unlock()
		return err
	}
	r.mu.Lock()
	r.seen[branch] = head
	r.mu.Unlock()
	r.offer(head, at.old) // a new branch may be gone soon: the base stays on offer
	r.behind(ctx)
	return nil
}
