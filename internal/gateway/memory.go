package gateway

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

// MemoryStore is a Store without a disk, for tests and for agents that live and die with the process.
type MemoryStore struct {
	mu     sync.Mutex
	agents map[string]store.Agent
}

// NewMemoryStore returns an empty store.
func NewMemoryStore() *MemoryStore { return &MemoryStore{agents: map[string]store.Agent{}} }

// Agent implements Store.
func (m *MemoryStore) Agent(_ context.Context, name string) (store.Agent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	a, ok := m.agents[name]
	if !ok {
		return a, promo.Errorf(promo.CodeNotFound, "no agent %q", name)
	}
	return a, nil
}

// PutAgent implements Store.
func (m *MemoryStore) PutAgent(_ context.Context, a store.Agent) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.agents[a.Name] = a
	return nil
}

// Agents implements Store; they come sorted by name.
func (m *MemoryStore) Agents(context.Context) ([]store.Agent, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.SortedFunc(maps.Values(m.agents), func(a, b store.Agent) int { return strings.Compare(a.Name, b.Name) }), nil
}

// DeleteAgent implements Store.
func (m *MemoryStore) DeleteAgent(_ context.Context, name string) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.agents, name)
	return nil
}
