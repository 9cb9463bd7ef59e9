package gateway

import (
	"context"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// View is a Fleet in memory, and what steps and pages read of it. Agents send everything again when the
// server starts, so nothing is lost with it.
type View struct {
	now      func() time.Time
	onChange func(Change)
	mu       sync.RWMutex
	agents   map[string]*agentView
}

// Change says what a report or a presence altered.
type Change struct {
	Agent string
	// Presence is set when the agent came or went.
	Presence *Presence
	// Applications that were altered or removed.
	Applications []promo.ApplicationRef
}

// Seen is an application and when its agent last reported it.
type Seen struct {
	promo.Application
	ReportedAt time.Time
}

type agentView struct {
	presence Presence
	// reported is set once a snapshot has come: before, nothing is known to be absent.
	reported bool
	apps     map[key]Seen
}

type key struct{ namespace, name string }

// NewView returns an empty view. onChange is called after each change, from the goroutine that made it, and
// must be quick; now is the clock.
func NewView(now func() time.Time, onChange func(Change)) *View {
	return &View{now: now, onChange: onChange, agents: map[string]*agentView{}}
}

// Report implements Fleet.
func (v *View) Report(_ context.Context, agent string, r Report) error {
	c := Change{Agent: agent}
	v.mu.Lock()
	a := v.agent(agent)
	if n := len(a.apps) + len(r.Applications); !r.Snapshot && n > maxApplications {
		v.mu.Unlock()
		return promo.Errorf(promo.CodeConfiguration, "agent %q reports %d applications", agent, n).
			WithHint("at most %d", maxApplications)
	}
	old := a.apps
	if r.Snapshot {
		a.apps, a.reported = make(map[key]Seen, len(r.Applications)), true
	}
	for _, app := range r.Applications {
		a.apps[keyOf(app.ApplicationRef)] = Seen{Application: app, ReportedAt: v.now()}
		c.Applications = append(c.Applications, app.ApplicationRef)
	}
	for _, ref := range r.Removed {
		delete(a.apps, keyOf(ref))
		c.Applications = append(c.Applications, ref)
	}
	if r.Snapshot {
		for k, was := range old {
			if _, still := a.apps[k]; !still {
				c.Applications = append(c.Applications, was.ApplicationRef)
			}
		}
	}
	v.mu.Unlock()
	v.onChange(c)
	return nil
}

// Presence implements Fleet.
func (v *View) Presence(_ context.Context, agent string, p Presence) error {
	v.mu.Lock()
	v.agent(agent).presence = p
	v.mu.Unlock()
	v.onChange(Change{Agent: agent, Presence: &p})
	return nil
}

func (v *View) agent(name string) *agentView {
	a, ok := v.agents[name]
	if !ok {
		a = &agentView{apps: map[key]Seen{}}
		v.agents[name] = a
	}
	return a
}

func keyOf(ref promo.ApplicationRef) key { return key{ref.Namespace, ref.Name} }

// Connected returns the presence of an agent; ok is false for one that never came since the server started.
func (v *View) Connected(agent string) (p Presence, ok bool) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	a, ok := v.agents[agent]
	if !ok {
		return Presence{}, false
	}
	return a.presence, !a.presence.Since.IsZero()
}

// All returns every application of every agent, sorted by agent, namespace and name.
func (v *View) All() []Seen {
	v.mu.RLock()
	defer v.mu.RUnlock()
	var out []Seen
	for _, a := range v.agents {
		out = slices.AppendSeq(out, maps.Values(a.apps))
	}
	slices.SortFunc(out, func(x, y Seen) int { return compareRefs(x.ApplicationRef, y.ApplicationRef) })
	return out
}

// Find implements steps.Applications.
func (v *View) Find(_ context.Context, agent string, labels map[string]string) ([]promo.Application, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	a, err := v.reported(agent)
	if err != nil {
		return nil, err
	}
	var out []promo.Application
	for _, s := range a.apps {
		if hasLabels(s.Labels, labels) {
			out = append(out, s.Application)
		}
	}
	slices.SortFunc(out, func(x, y promo.Application) int { return compareRefs(x.ApplicationRef, y.ApplicationRef) })
	return out, nil
}

// Get implements steps.Applications.
func (v *View) Get(_ context.Context, ref promo.ApplicationRef) (promo.Application, error) {
	v.mu.RLock()
	defer v.mu.RUnlock()
	a, err := v.reported(ref.Agent)
	if err != nil {
		return promo.Application{}, err
	}
	s, ok := a.apps[keyOf(ref)]
	if !ok {
		return promo.Application{}, promo.Errorf(promo.CodeNotFound, "agent %q has no application %s/%s", ref.Agent, ref.Namespace, ref.Name)
	}
	return s.Application, nil
}

// reported returns what an agent reported. One that has reported nothing yet is trouble that passes.
func (v *View) reported(agent string) (*agentView, error) {
	if a, ok := v.agents[agent]; ok && a.reported {
		return a, nil
	}
	return nil, promo.Errorf(promo.CodeConnectivity, "agent %q has reported nothing since the server started", agent).
		WithHint("see whether it runs, and its log")
}

func hasLabels(have, want map[string]string) bool {
	for k, v := range want {
		if got, ok := have[k]; !ok || got != v {
			return false
		}
	}
	return true
}

func compareRefs(a, b promo.ApplicationRef) int {
	if c := strings.Compare(a.Agent, b.Agent); c != 0 {
		return c
	}
	if c := strings.Compare(a.Namespace, b.Namespace); c != 0 {
		return c
	}
	return strings.Compare(a.Name, b.Name)
}
