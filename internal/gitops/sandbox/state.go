package sandbox

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/davit-cd/davit/internal/gitops/sandbox/render"
	"github.com/davit-cd/davit/internal/promo"
)

const (
	stateVersion  = 1
	maxStateBytes = 256 << 20
)

// state is the cluster's file.
type state struct {
	Version    int           `json:"version"`
	Apps       []*app        `json:"apps"`
	Objects    []*liveObject `json:"objects"`
	Namespaces []string      `json:"namespaces"`
}

// open reads the state, if there is any.
func (c *Cluster) open(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return promo.Errorf(promo.CodeInternal, "make %q: %w", dir, err)
	}
	c.file = filepath.Join(dir, c.name+".json")
	info, err := os.Stat(c.file)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil && info.Size() > maxStateBytes {
		err = errors.New("the file is too big")
	}
	var data []byte
	if err == nil {
		data, err = os.ReadFile(c.file)
	}
	var s state
	if err == nil {
		err = json.Unmarshal(data, &s)
	}
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "state of cluster %q in %q: %w", c.name, c.file, err).
			WithHint("move the file away to start with an empty cluster")
	}
	if s.Version != stateVersion {
		return promo.Errorf(promo.CodeConfiguration, "state of cluster %q in %q has version %d, this program reads %d", c.name, c.file, s.Version, stateVersion)
	}
	for _, a := range s.Apps {
		c.apps[a.key()] = a
	}
	for _, l := range s.Objects {
		c.objects[l.Live.Key()] = l
	}
	for _, ns := range s.Namespaces {
		c.namespaces[ns] = true
	}
	return nil
}

// changed plans to save what could be observed again; see save. The caller holds c.mu.
func (c *Cluster) changed() {
	c.dirty = true
	c.at("save", c.clock.Now().Add(c.timings.Save), func(context.Context) {
		c.mu.Lock()
		defer c.mu.Unlock()
		if !c.dirty {
			return
		}
		if err := c.save(); err != nil {
			c.log.Error("state not saved", "error", err)
		}
	})
}

// save writes the state at once. Requests, edits and ends of operations are saved so, before anyone hears of
// them; the file is replaced as a whole, so that a crash leaves the old or the new one. The caller holds c.mu.
func (c *Cluster) save() error {
	s := state{Version: stateVersion, Apps: c.sortedApps()}
	keys := map[render.Key]render.Object{}
	for key := range c.objects {
		keys[key] = render.Object{}
	}
	for _, key := range sortedKeys(keys) {
		s.Objects = append(s.Objects, c.objects[key])
	}
	for ns := range c.namespaces {
		s.Namespaces = append(s.Namespaces, ns)
	}
	data, err := json.Marshal(s)
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "state of cluster %q: %w", c.name, err)
	}
	next := c.file + ".new"
	if err := os.WriteFile(next, data, 0o600); err != nil {
		return promo.Errorf(promo.CodeInternal, "save the state of cluster %q: %w", c.name, err)
	}
	if err := os.Rename(next, c.file); err != nil {
		return promo.Errorf(promo.CodeInternal, "save the state of cluster %q: %w", c.name, err)
	}
	c.dirty = false
	return nil
}
