package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

// soaking is a step more for the pipeline direct, which keeps it in its lane.
const soaking = "        - {name: soak, type: Wait, spec: {duration: 10m}}\n"

func (w *world) lane(env string) api.Lane {
	w.t.Helper()
	var lanes []api.Lane
	w.s.must(w.t, developer, http.MethodGet, "/api/projects/default/lanes?service="+w.name+"&environment="+w.env(env), nil, &lanes)
	if len(lanes) != 1 {
		w.t.Fatalf("lanes: %s", toJSON(lanes))
	}
	return lanes[0]
}

// soaks waits until the promotion holds the lane of dev and soaks there.
func (w *world) soaks(id string) {
	w.t.Helper()
	w.reach(id, "soaks", func(p promo.Promotion) bool {
		if p.Phase.Final() {
			w.t.Fatalf("ended: %s", describe(p))
		}
		return step(p, "dev", "soak").Phase == promo.PhaseRunning
	})
}

// TestLane queues, supersedes, rejects and aborts promotions of one service.
func TestLane(t *testing.T) {
	t.Parallel()
	w := newWorld(t, commonServer(t))
	w.apply(direct + soaking)
	first := w.start("direct-"+w.name, "v1.1.0")
	w.soaks(first)
	second := w.start("direct-"+w.name, "v1.2.0")
	p := w.reach(second, "has a place in the queue", func(p promo.Promotion) bool { return p.Stages[0].Lane != nil && p.Stages[0].Lane.Place > 0 })
	if l := p.Stages[0].Lane; l.Place != 1 || l.Holder != first {
		t.Errorf("place: %s", toJSON(l))
	}
	if l := w.lane("dev"); l.Holder != first || !slices.Equal(l.Queue, []string{second}) {
		t.Errorf("lane: %s", toJSON(l))
	}
	w.s.cli(t, "lanes").says(t, 0, first, second)

	w.apply(strings.Replace(direct, "  stages:", "  lane: reject\n  stages:", 1) + soaking)
	p = w.ends(w.start("direct-"+w.name, "v1.3.0"), promo.PhaseFailed)
	if p.Error == nil || p.Error.Code != promo.CodeConflict || !strings.Contains(p.Error.Msg, first) {
		t.Errorf("rejected: %s", describe(p))
	}

	w.apply(strings.Replace(direct, "  stages:", "  lane: supersede\n  stages:", 1) + soaking)
	third := w.start("direct-"+w.name, "v1.4.0")
	p = w.ends(second, promo.PhaseSuperseded)
	if !strings.Contains(p.Message, third) {
		t.Errorf("superseded by whom: %q", p.Message)
	}
	w.s.must(t, developer, http.MethodPost, on(first, "abort"), api.AbortRequest{Reason: "make room"}, nil)
	p = w.ends(first, promo.PhaseAborted)
	if !strings.Contains(p.Message, developer) || !strings.Contains(p.Message, "make room") {
		t.Errorf("aborted: %q", p.Message)
	}
	w.soaks(third)
	w.s.must(t, developer, http.MethodPost, on(third, "abort"), api.AbortRequest{Reason: "done"}, nil)
	w.ends(third, promo.PhaseAborted)
	eventually(t, "the lane is free", func() (bool, string) { l := w.lane("dev"); return l.Holder == "" && len(l.Queue) == 0, toJSON(l) })
}

// TestTwoServices runs two services of one repository at once.
func TestTwoServices(t *testing.T) {
	t.Parallel()
	w := newWorld(t, commonServer(t))
	other := w.name + "b"
	w.seed(other)
	w.push("another service")
	req := api.ApplyRequest{Project: "default", Files: []api.File{
		{Path: other + "-service.yaml", Content: w.text(service, other)}, {Path: other + "-pipeline.yaml", Content: w.text(ship, other)},
	}}
	w.s.must(t, admin, http.MethodPost, "/api/projects/default/apply", req, nil)
	w.declare(other)
	w.apply(ship)
	before := w.pull()
	ids := []string{w.start("ship-"+w.name, "v1.1.0"), w.start("ship-"+other, "v1.1.0")}
	for _, id := range ids {
		w.waits(id)
	}
	for _, id := range ids {
		w.approve(manager, id)
	}
	for _, id := range ids {
		w.ends(id, promo.PhaseSucceeded)
	}
	per := map[string]int{}
	for op, n := range w.operations(before) {
		if n != 1 {
			t.Errorf("operation %s has %d commits", op, n)
		}
		per[strings.Join(strings.Split(op, "/")[:3], "/")]++
	}
	if per[ids[0]] != 6 || per[ids[1]] != 6 {
		t.Errorf("commits by run, want 6 each: %v", per)
	}
}
