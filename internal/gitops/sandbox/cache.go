package sandbox

import (
	"slices"
	"sync"

	"github.com/davit-cd/davit/internal/gitops/sandbox/render"
)

// cacheSize is how many renderings are remembered: a few revisions of each application of a small cluster.
const cacheSize = 64

type cacheID struct {
	repoURL, commit, path, namespace string
	recurse                          bool
}

// renderCache remembers the latest renderings. What it holds is shared and never changed.
type renderCache struct {
	mu      sync.Mutex
	order   []cacheID // least recently used first
	objects map[cacheID][]render.Object
}

func (r *renderCache) get(id cacheID) ([]render.Object, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	objects, ok := r.objects[id]
	if ok {
		r.touch(id)
	}
	return objects, ok
}

func (r *renderCache) put(id cacheID, objects []render.Object) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.objects == nil {
		r.objects = map[cacheID][]render.Object{}
	}
	r.objects[id] = objects
	r.touch(id)
	if len(r.order) > cacheSize {
		delete(r.objects, r.order[0])
		r.order = slices.Delete(r.order, 0, 1)
	}
}

func (r *renderCache) touch(id cacheID) {
	if i := slices.Index(r.order, id); i >= 0 {
		r.order = slices.Delete(r.order, i, i+1)
	}
	r.order = append(r.order, id)
}
