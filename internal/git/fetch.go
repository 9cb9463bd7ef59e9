package git

import (
	"context"
	"errors"
	"io"
	"slices"

	"github.com/go-git/go-git/v5/plumbing"
	"github.com/go-git/go-git/v5/plumbing/filemode"

	"github.com/davit-cd/davit/internal/promo"
)

// What a fetch may bring into memory. Most fetches are a few kilobytes; a server without filters sends the files
// of every commit that is fetched.
const (
	maxObject = 64 << 20
	maxTotal  = 512 << 20
)

// historyStep is how many commits are fetched at once when a walk comes to the end of what is known: some 300
// bytes each.
const historyStep = 512

// objects returns objects by id, fetching in one request those that are missing.
func (r *Repo) objects(ctx context.Context, ids ...plumbing.Hash) ([]object, error) {
	out := make([]object, len(ids))
	var missing []plumbing.Hash
	for i, id := range ids {
		o, err := r.s.get(id)
		if errors.Is(err, errMissing) {
			missing = append(missing, id)
			continue
		}
		if err != nil {
			return nil, err
		}
		out[i] = o
	}
	if len(missing) == 0 {
		return out, nil
	}
	got, err := r.fetchObjects(ctx, missing)
	if err != nil {
		return nil, err
	}
	for i, id := range ids {
		if out[i].kind != plumbing.InvalidObject {
			continue
		}
		if o, ok := got[id]; ok {
			out[i] = o
		} else if out[i], err = r.s.get(id); err != nil {
			return nil, promo.Errorf(promo.CodeNotFound, "repository %q has no object %s", r.name, id)
		}
	}
	return out, nil
}

// fetchObjects asks for objects by their ids, trees with all trees below.
func (r *Repo) fetchObjects(ctx context.Context, ids []plumbing.Hash) (map[plumbing.Hash]object, error) {
	slices.SortFunc(ids, func(a, b plumbing.Hash) int { return slices.Compare(a[:], b[:]) })
	ids = slices.Compact(ids)
	if ok, err := r.byID(ctx, ids[0]); err != nil || !ok {
		return nil, err
	}
	return r.fetchMemory(ctx, fetchRequest{wants: ids, filter: "blob:none"})
}

// fetchMemory fetches a pack into memory and remembers its objects.
func (r *Repo) fetchMemory(ctx context.Context, req fetchRequest) (map[plumbing.Hash]object, error) {
	var got map[plumbing.Hash]object
	req.thin = true
	err := r.c.fetch(ctx, req, func(pack io.Reader) (err error) {
		got, err = readPack(pack, packLimits{object: maxObject, total: maxTotal}, func(id plumbing.Hash) (object, error) {
			base, err := r.objects(ctx, id)
			if err != nil {
				return object{}, err
			}
			return base[0], nil
		})
		return err
	})
	if err != nil {
		return nil, err
	}
	r.s.add(got)
	r.behind(ctx)
	return got, nil
}

// byID makes sure that the server gives objects by id. Where it gives only the heads of branches (protocol version
// 0), everything is fetched at once and false returned: what is still missing then does not exist.
func (r *Repo) byID(ctx context.Context, id plumbing.Hash) (bool, error) {
	caps, err := r.c.uploadCaps(ctx)
	if err != nil {
		return false, err
	}
	if caps.version == 2 || caps.has("allow-reachable-sha1-in-want") || caps.has("allow-any-sha1-in-want") {
		return true, nil
	}
	for _, at := range caps.refs {
		if at == id {
			return true, nil
		}
	}
	_, err = r.once(ctx, "everything", func() error { return r.fetchEverything(ctx, caps) })
	return false, err
}

// fetchEverything is the last resort: all branches with all history, as a plain clone has them.
func (r *Repo) fetchEverything(ctx context.Context, caps *capabilities) error {
	var wants []plumbing.Hash
	for _, id := range caps.refs {
		if !slices.Contains(wants, id) {
			wants = append(wants, id)
		}
	}
	if len(wants) == 0 {
		return nil
	}
	return r.c.fetch(ctx, fetchRequest{wants: wants}, r.s.addPack)
}

// once lets one of several callers do the work and gives all of them its outcome. When the one that works is
// cancelled, another takes over.
func (r *Repo) once(ctx context.Context, key string, work func() error) (shared bool, err error) {
	for {
		_, err, shared = r.flight.Do(key, func() (any, error) { return nil, work() })
		if !shared || ctx.Err() != nil || !errors.Is(err, context.Canceled) && !isCode(err, promo.CodeTimeout) {
			return shared, err
		}
	}
}

// below returns trees and blobs with everything below them.
func (r *Repo) below(ctx context.Context, ids []plumbing.Hash) ([]newObject, error) { //nolint:gocognit // one grammar or protocol, read from top to bottom
	var out []newObject
	seen := map[plumbing.Hash]bool{}
	for level := ids; len(level) > 0; {
		objects, err := r.objects(ctx, level...)
		if err != nil {
			return nil, err
		}
		if len(out)+len(objects) > maxChanged {
			return nil, promo.Errorf(promo.CodeConfiguration, "what is copied has more than %d files and directories", maxChanged)
		}
		var next []plumbing.Hash
		for i, o := range objects {
			out = append(out, newObject{object: o, id: level[i]})
			if o.kind != plumbing.TreeObject {
				continue
			}
			d, err := parseTree(level[i], o.data)
			if err != nil {
				return nil, err
			}
			for _, n := range d.nodes {
				if n.mode != filemode.Submodule && !seen[n.id] {
					seen[n.id] = true
					next = append(next, n.id)
				}
			}
		}
		level = next
	}
	return out, nil
}

// complete returns a commit whose trees are all in the mirror, fetching what is not: at depth 1, against the
// commits that are here, without files where the server knows filters.
func (r *Repo) complete(ctx context.Context, id plumbing.Hash) (*commit, error) {
	if r.isWhole(id) {
		if c, err := r.s.commit(id); err == nil {
			return c, nil
		}
	}
	_, err := r.once(ctx, "commit "+id.String(), func() error { return r.fetchCommit(ctx, id) })
	if err != nil {
		return nil, r.unknownCommit(id, err)
	}
	c, err := r.s.commit(id)
	if err != nil {
		return nil, r.unknownCommit(id, err)
	}
	return c, nil
}

func (r *Repo) unknownCommit(id plumbing.Hash, err error) error {
	if errors.Is(err, errMissing) || isCode(err, promo.CodeNotFound) {
		return promo.Errorf(promo.CodeNotFound, "repository %q has no commit %s: %w", r.name, id, err)
	}
	return err
}

func (r *Repo) fetchCommit(ctx context.Context, id plumbing.Hash) error {
	if _, err := r.s.commit(id); err == nil && r.isWhole(id) {
		return nil // another did it meanwhile
	}
	req := fetchRequest{wants: []plumbing.Hash{id}, haves: r.havesBut(id), depth: 1, filter: "blob:none"}
	ok, err := r.byID(ctx, id)
	switch {
	case err != nil:
		return err
	case !ok: // everything is here by now, or does not exist
	case len(req.haves) == 0:
		err = r.c.fetch(ctx, req, r.s.addPack)
	default:
		_, err = r.fetchMemory(ctx, req)
	}
	if err != nil {
		return err
	}
	if !r.s.has(id) {
		return promo.Errorf(promo.CodeNotFound, "git server sent no commit %s", id)
	}
	r.offer(id, plumbing.ZeroHash)
	r.behind(ctx)
	return nil
}

// history returns a commit without asking for its trees, fetching a stretch of history where it is not known.
func (r *Repo) history(ctx context.Context, id plumbing.Hash) (*commit, error) {
	c, err := r.s.commit(id)
	if !errors.Is(err, errMissing) {
		return c, err
	}
	_, err = r.once(ctx, "history "+id.String(), func() error {
		if _, err := r.s.commit(id); err == nil {
			return nil
		}
		if ok, err := r.byID(ctx, id); err != nil || !ok {
			return err
		}
		caps, err := r.c.uploadCaps(ctx)
		if err != nil {
			return err
		}
		req := fetchRequest{wants: []plumbing.Hash{id}, depth: historyStep, filter: "tree:0"}
		if !caps.fetchHas("filter") {
			req.haves = r.havesBut(id) // so that at least the trees and files that are here stay away
		}
		_, err = r.fetchMemory(ctx, req)
		return err
	})
	if err == nil {
		c, err = r.s.commit(id)
	}
	if err != nil {
		return nil, r.unknownCommit(id, err)
	}
	return c, nil
}

// ensureRange fetches the trees of the newest n commits up to head in one request, as a walk that compares trees
// will want them.
func (r *Repo) ensureRange(ctx context.Context, head plumbing.Hash, n int) error {
	if n <= 1 {
		return nil
	}
	ok, err := r.byID(ctx, head)
	if err != nil || !ok {
		return err
	}
	_, err = r.fetchMemory(ctx, fetchRequest{wants: []plumbing.Hash{head}, haves: r.havesBut(head), depth: n, filter: "blob:none"})
	return err
}
