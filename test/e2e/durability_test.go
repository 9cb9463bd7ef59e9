package e2e

import (
	"math/rand/v2"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

// kills is how often the server is killed: 10 times, or DAVIT_E2E_KILLS.
func kills(t *testing.T) int {
	t.Helper()
	v := os.Getenv("DAVIT_E2E_KILLS")
	if v == "" {
		return 10
	}
	n, err := strconv.Atoi(v)
	if err != nil {
		t.Fatalf("DAVIT_E2E_KILLS: %v", err)
	}
	return n
}

// seed is DAVIT_E2E_SEED, or a new one.
func seed(t *testing.T) uint64 {
	t.Helper()
	v := os.Getenv("DAVIT_E2E_SEED")
	if v == "" {
		return rand.Uint64() //nolint:gosec // instants, no secrets
	}
	n, err := strconv.ParseUint(v, 10, 64)
	if err != nil {
		t.Fatalf("DAVIT_E2E_SEED: %v", err)
	}
	return n
}

// TestKill kills the server at random moments of promotions and starts it again with the same data. Every promotion
// must end well and have done each thing once.
func TestKill(t *testing.T) {
	s := newServer(t)
	w := newWorld(t, s)
	w.apply(ship)
	n, sd := kills(t), seed(t)
	t.Logf("%d kills, DAVIT_E2E_SEED=%d", n, sd)
	random := rand.New(rand.NewPCG(sd, 1)) //nolint:gosec // repeatable on purpose
	for run := 0; n > 0; run++ {
		before := w.pull()
		old := map[string]int{}
		for _, p := range w.places {
			old[p.agent] = len(w.app(w.name, p).History)
		}
		id := w.start("ship-"+w.name, "v1.1."+strconv.Itoa(run))
		killed := 0
		for n > 0 {
			// A promotion takes some 25 s undisturbed; a restart adds to that.
			after := time.NewTimer(time.Duration(random.Int64N(int64(5 * time.Second))))
			if drive(t, w, id, after.C) {
				break
			}
			s.kill(syscall.SIGKILL)
			n--
			killed++
			if err := s.start(); err != nil {
				t.Fatal(err)
			}
			if err := s.ready(); err != nil {
				t.Fatal(err)
			}
		}
		drive(t, w, id, nil)
		t.Logf("promotion %s: killed %d times", id, killed)
		once(t, w, id, before, old)
	}
}

// drive approves where the promotion asks, until it has ended or the time has come. It says whether it has ended.
func drive(t *testing.T, w *world, id string, over <-chan time.Time) bool {
	t.Helper()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	deadline := time.Now().Add(patience)
	var last answer
	for {
		select {
		case <-over:
			return false
		case <-tick.C:
		}
		p := w.promotion(id)
		switch {
		case p.Phase == promo.PhaseSucceeded:
			return true
		case p.Phase.Final():
			t.Fatalf("ended badly: %s", describe(p))
		case p.Phase == promo.PhaseWaitingForApproval:
			last = say(t, w, p)
		}
		if over == nil && time.Now().After(deadline) {
			t.Fatalf("not ended within %s: %s; last answer to the approval: %+v", patience, describe(p), last)
		}
	}
}

// say says yes to what waits: the sign-off, or a verification that saw too little while the server was dead. The
// answer may be lost with the server, so each question has its request id, which makes a repetition harmless.
func say(t *testing.T, w *world, p promo.Promotion) answer {
	t.Helper()
	var last answer
	for _, st := range p.Stages {
		for _, e := range st.Steps {
			if e.Phase != promo.PhaseWaitingForApproval {
				continue
			}
			req := api.DecideRequest{Approve: true, Stage: st.Name, Step: e.Name, Wave: e.Wave, RequestID: strings.Join([]string{"yes", p.ID, st.Name, e.Name, e.Target}, "-")}
			a, err := w.s.call(manager, http.MethodPost, on(p.ID, "decide"), req, nil)
			if err != nil || (a.Status != http.StatusOK && a.Status != http.StatusConflict) {
				t.Fatalf("approval: %v %+v", err, a)
			}
			last = a
		}
	}
	return last
}

// once checks that the promotion did each thing once.
func once(t *testing.T, w *world, id, before string, old map[string]int) {
	t.Helper()
	p := w.promotion(id)
	for _, st := range p.Stages {
		if st.Phase != promo.PhaseSucceeded {
			t.Errorf("stage %s is %s", st.Name, st.Phase)
		}
	}
	// One commit for each change and one merge for each pull request; the squash merges of production carry one.
	count := map[string]int{}
	for op, n := range w.operations(before) {
		if !strings.HasPrefix(op, id+"/") {
			t.Errorf("operation %s of another run", op)
		}
		if n != 1 {
			t.Errorf("operation %s has %d commits", op, n)
		}
		parts := strings.Split(strings.TrimPrefix(op, id+"/"), "/")
		count[strings.Join(parts[:2], "/")]++
	}
	want := map[string]int{"dev.1/update": 1, "dev.1/merge": 1, "staging.1/update": 1, "staging.1/merge": 1, "prod.1/merge": 2}
	if diff := cmp.Diff(want, count); diff != "" {
		t.Errorf("commits by operation (-want +got):\n%s", diff)
	}
	states := map[string]int{}
	for _, pr := range w.pulls("") {
		if strings.Contains(pr.Body+pr.Title+pr.Head, strings.ReplaceAll(id, "default/", "")) || slices.ContainsFunc(p.Stages, func(st promo.Stage) bool {
			return slices.ContainsFunc(st.Changes, func(c promo.ChangeRef) bool { return c.PR == pr.Number })
		}) {
			states[pr.State]++
		}
	}
	if diff := cmp.Diff(map[string]int{"merged": 4}, states); diff != "" {
		t.Errorf("pull requests (-want +got):\n%s", diff)
	}
	if open := w.pulls("open"); len(open) > 0 {
		t.Errorf("open pull requests left: %s", toJSON(open))
	}
	for _, pl := range w.places {
		a := w.app(w.name, pl)
		if got := len(a.History) - old[pl.agent]; got != 1 {
			t.Errorf("%d syncs on %s: %s", got, pl.agent, toJSON(a.History))
		}
		if a.LastOperation == nil || !strings.HasPrefix(a.LastOperation.ID, id+"/") {
			t.Errorf("last operation on %s: %s", pl.agent, toJSON(a.LastOperation))
		}
		if a.Health != promo.HealthHealthy {
			t.Errorf("%s is %s", pl.agent, a.Health)
		}
	}
	if branches := w.git("ls-remote", "--heads", "origin"); strings.Count(branches, "refs/heads/") != 1 {
		t.Errorf("branches left:\n%s", branches)
	}
}

// TestRestart stops the server in order while a promotion waits; everything is as it was afterwards.
func TestRestart(t *testing.T) {
	t.Parallel()
	s := newServer(t)
	w := newWorld(t, s)
	w.apply(prod)
	id := w.start("prod-"+w.name, "v1.1.0")
	before := w.waits(id)
	s.kill(syscall.SIGTERM)
	if err := s.start(); err != nil {
		t.Fatal(err)
	}
	if err := s.ready(); err != nil {
		t.Fatal(err)
	}
	after := w.waits(id)
	if diff := cmp.Diff(before, after, cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Sequence" }, cmp.Ignore())); diff != "" {
		t.Errorf("the promotion changed over the restart (-before +after):\n%s", diff)
	}
	w.approve(manager, id)
	w.ends(id, promo.PhaseSucceeded)
}
