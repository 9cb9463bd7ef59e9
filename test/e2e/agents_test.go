package e2e

import (
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

// TestAgentGone cuts a cluster's agent off: the step waits, says which agent is missing, and goes on when it is back.
func TestAgentGone(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	w := newWorld(t, s)
	w.apply(direct)
	connect := func(connected bool) {
		s.must(t, admin, http.MethodPut, "/api/sandbox/clusters/c-dev/connection", api.SandboxConnectRequest{Connected: connected}, nil)
	}
	connect(false)
	eventually(t, "the server notices that the agent is gone", func() (bool, string) {
		var list []api.Agent
		s.must(t, admin, http.MethodGet, "/api/agents", nil, &list)
		return slices.ContainsFunc(list, func(a api.Agent) bool { return a.Name == "c-dev" && !a.Connected }), toJSON(list)
	})
	id := w.start("direct-"+w.name, "v1.1.0")
	w.reach(id, "says which agent is missing", func(p promo.Promotion) bool {
		if p.Phase.Final() {
			t.Fatalf("ended: %s", describe(p))
		}
		return strings.Contains(step(p, "dev", "sync").Message, "waiting for agent c-dev, which is not connected")
	})
	connect(true)
	w.ends(id, promo.PhaseSucceeded)
	if n := len(w.app(w.name, w.places[0]).History); n != 2 {
		t.Errorf("%d syncs, want the first release and one more", n)
	}
}

// TestAgentRevoked shuts an agent out for good: the step says which one it waits for, and can be aborted.
func TestAgentRevoked(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	w := newWorld(t, s)
	w.apply(direct)
	s.cli(t, "agent", "revoke", "c-dev").says(t, 0)
	id := w.start("direct-"+w.name, "v1.1.0")
	w.reach(id, "says which agent is missing", func(p promo.Promotion) bool {
		if p.Phase.Final() {
			t.Fatalf("ended: %s", describe(p))
		}
		return strings.Contains(step(p, "dev", "sync").Message, "c-dev")
	})
	s.must(t, developer, http.MethodPost, on(id, "abort"), api.AbortRequest{Reason: "no agent"}, nil)
	w.ends(id, promo.PhaseAborted)
}
