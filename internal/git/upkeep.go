package git

import (
	"context"
	"encoding/json"
	"path/filepath"

	"github.com/davit-cd/davit/internal/promo"
)

// behind does what need not be done before the answer: writing new objects and what is remembered to disk, and
// upkeep. One at a time per repository; asked for while it runs, it runs once more.
func (r *Repo) behind(ctx context.Context) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.writing {
		r.again = true
		return
	}
	r.writing = true
	r.work.Add(1)
	go r.writeBehind(context.WithoutCancel(ctx))
}

func (r *Repo) writeBehind(ctx context.Context) {
	defer r.work.Done()
	for {
		err := r.save()
		if err != nil {
			r.opts.Logger.WarnContext(ctx, "mirror cannot be written; it will be fetched again", "repository", r.name, "error", err)
		}
		r.mu.Lock()
		if !r.again || err != nil {
			r.writing, r.again = false, false
			r.mu.Unlock()
			return
		}
		r.again = false
		r.mu.Unlock()
	}
}

// save writes objects first, then what is remembered of them.
func (r *Repo) save() error {
	if err := r.s.persist(); err != nil {
		return err
	}
	m := memory{Seen: map[string]string{}}
	r.mu.Lock()
	for b, id := range r.seen {
		m.Seen[b] = id.String()
	}
	for _, id := range r.offers {
		m.Whole = append(m.Whole, id.String())
	}
	r.mu.Unlock()
	data, err := json.Marshal(m)
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "mirror: %w", err)
	}
	return writeFile(filepath.Join(r.s.dir, "davit.json"), data)
}

func (r *Repo) close() error {
	r.work.Wait()
	err := r.save()
	if cerr := r.s.close(); err == nil {
		err = cerr
	}
	return err
}
