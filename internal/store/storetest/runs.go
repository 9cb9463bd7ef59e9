package storetest

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

func defs(sources ...string) []store.Definition {
	out := make([]store.Definition, len(sources))
	for i, src := range sources {
		out[i] = store.Definition{Kind: "Service", Project: "shop", Name: fmt.Sprintf("s%d", i), File: "a.yaml", Line: i * 10, Source: []byte(src)}
	}
	return out
}

func testDefinitions(t *testing.T, s Store, clock *Clock) {
	ctx := t.Context()
	gen := must(s.ApplyDefinitions(ctx, defs("a", "b"), "ann", 0))(t)
	same(t, "generation", gen, int64(1))
	clock.Advance(time.Minute)
	gen = must(s.ApplyDefinitions(ctx, defs("a", "B"), "bob", gen))(t)
	same(t, "generation", gen, int64(2))

	got, gen, err := s.Definitions(ctx, "shop")
	ok(t, err)
	want := defs("a", "B")
	want[0].Hash, want[0].Generation, want[0].UpdatedBy, want[0].UpdatedAt = store.Digest([]byte("a")), 1, "ann", epoch()
	want[1].Hash, want[1].Generation, want[1].UpdatedBy, want[1].UpdatedAt = store.Digest([]byte("B")), 2, "bob", epoch().Add(time.Minute)
	same(t, "definitions", got, want)
	same(t, "one", must(s.Definition(ctx, "Service", "shop", "s1"))(t), want[1])
	same(t, "apply of the same", must(s.ApplyDefinitions(ctx, defs("a", "B"), "cid", gen))(t), gen)

	_, err = s.Definition(ctx, "Service", "shop", "nope")
	code(t, err, promo.CodeNotFound)
	same(t, "deleted", must(s.DeleteDefinition(ctx, "Service", "shop", "s0", gen))(t), int64(3))
	_, err = s.DeleteDefinition(ctx, "Service", "shop", "s0", store.AnyGeneration)
	code(t, err, promo.CodeNotFound)
	other, gen, err := s.Definitions(ctx, "other")
	ok(t, err)
	same(t, "other project", len(other), 0)
	same(t, "generation", gen, int64(3))
}

func testDefinitionConflict(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	gen := must(s.ApplyDefinitions(ctx, defs("a"), "ann", store.AnyGeneration))(t)
	_, err := s.ApplyDefinitions(ctx, defs("b"), "bob", gen-1)
	code(t, err, promo.CodeConflict)
	bad := append(defs("x", "y"), store.Definition{Kind: "Service"})
	_, err = s.ApplyDefinitions(ctx, bad, "bob", gen)
	code(t, err, promo.CodeConfiguration)
	all, after, err := s.Definitions(ctx, "")
	ok(t, err)
	same(t, "generation", after, gen)
	same(t, "nothing was kept", len(all), 1)
	same(t, "source", string(all[0].Source), "a")
}

func testNumbers(t *testing.T, s Store, _ *Clock) {
	const each, callers = 20, 4
	var mu sync.Mutex
	seen := map[int]bool{}
	var wg sync.WaitGroup
	for range callers {
		wg.Go(func() {
			for range each {
				n, err := s.NextNumber(t.Context(), "shop", "checkout")
				mu.Lock()
				if err != nil || seen[n] || n < 1 || n > each*callers {
					t.Errorf("number %d (seen %t): %v", n, seen[n], err)
				}
				seen[n] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	same(t, "another pipeline", must(s.NextNumber(t.Context(), "shop", "cart"))(t), 1)
	same(t, "rollback", must(s.NextRollbackNumber(t.Context(), "shop", "checkout", "prod"))(t), 1)
}

// run returns a promotion of the pipeline.
func run(pipeline string, number int, phase promo.Phase) promo.Promotion {
	return promo.Promotion{
		ID: fmt.Sprintf("shop/%s/%d", pipeline, number), Project: "shop", Pipeline: pipeline, Service: pipeline, Number: number,
		Attempt: 1, Sequence: 1, Phase: phase, PlanHash: "hash-" + pipeline, TriggeredBy: "ann", StartedAt: epoch(),
		Inputs: map[string]any{"version": "v1"},
		Stages: []promo.Stage{{Name: "dev", Type: "Deployment", Environment: "dev", Phase: phase, Attempt: 1, Steps: []promo.Step{
			{Name: "update", Type: "UpdateReleaseRepo", Phase: phase, Outputs: json.RawMessage(`{"branch":"b"}`)},
		}}},
	}
}

func testPromotionCreate(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	p := run("checkout", 1, promo.PhaseRunning)
	ok(t, s.CreatePromotion(ctx, p, []byte(`{"plan":1}`)))
	ok(t, s.CreatePromotion(ctx, p, []byte(`{"plan":1}`)))
	other := p
	other.PlanHash = "another"
	code(t, s.CreatePromotion(ctx, other, nil), promo.CodeConflict)
	same(t, "promotion", must(s.Promotion(ctx, p.ID))(t), p)
	for _, name := range []string{p.ID, p.PlanHash} {
		same(t, "plan of "+name, string(must(s.Plan(ctx, name))(t)), `{"plan":1}`)
	}
	_, err := s.Plan(ctx, "nope")
	code(t, err, promo.CodeNotFound)
	_, err = s.Promotion(ctx, "shop/checkout/9")
	code(t, err, promo.CodeNotFound)
}

func testPromotionOrder(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	p := run("checkout", 1, promo.PhaseRunning)
	ok(t, s.CreatePromotion(ctx, p, []byte("{}")))
	record := func(attempt int, sequence int64, message string) {
		t.Helper()
		q := p
		q.Attempt, q.Sequence, q.Message = attempt, sequence, message
		ok(t, s.RecordPromotion(ctx, q))
	}
	record(1, 5, "five")
	record(1, 4, "older sequence")
	same(t, "newest sequence", must(s.Promotion(ctx, p.ID))(t).Message, "five")
	record(2, 1, "second attempt")
	record(1, 9, "late end of the first")
	same(t, "newest attempt", must(s.Promotion(ctx, p.ID))(t).Message, "second attempt")
	same(t, "first attempt", must(s.PromotionAttempt(ctx, p.ID, 1))(t).Message, "late end of the first")
	same(t, "outputs", string(must(s.PromotionAttempt(ctx, p.ID, 1))(t).Stages[0].Steps[0].Outputs), `{"branch":"b"}`)
	_, err := s.PromotionAttempt(ctx, p.ID, 3)
	code(t, err, promo.CodeNotFound)
}

func testPromotionFilters(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	for i := 1; i <= 4; i++ {
		phase := promo.PhaseSucceeded
		if i == 3 {
			phase = promo.PhaseRunning
		}
		for _, name := range []string{"cart", "checkout"} {
			p := run(name, i, phase)
			if i%2 == 0 {
				p.Stages[0].Environment = "prod"
			}
			ok(t, s.CreatePromotion(ctx, p, []byte("{}")))
		}
	}
	other := run("cart", 9, promo.PhaseRunning)
	other.ID, other.Project = "pay/cart/9", "pay"
	ok(t, s.CreatePromotion(ctx, other, []byte("{}")))

	tests := map[string]struct {
		filter store.PromotionFilter
		want   []string
	}{
		"all, a page":    {store.PromotionFilter{Limit: 2}, []string{"pay/cart/9", "shop/checkout/4"}},
		"the next page":  {store.PromotionFilter{Limit: 2, Before: "shop/checkout/4"}, []string{"shop/cart/4", "shop/checkout/3"}},
		"project":        {store.PromotionFilter{Project: "pay"}, []string{"pay/cart/9"}},
		"pipeline":       {store.PromotionFilter{Project: "shop", Pipeline: "cart", Limit: 3}, []string{"shop/cart/4", "shop/cart/3", "shop/cart/2"}},
		"service":        {store.PromotionFilter{Project: "shop", Service: "checkout", Limit: 1}, []string{"shop/checkout/4"}},
		"environment":    {store.PromotionFilter{Environment: "prod"}, []string{"shop/checkout/4", "shop/cart/4", "shop/checkout/2", "shop/cart/2"}},
		"before in it":   {store.PromotionFilter{Environment: "prod", Before: "shop/checkout/3"}, []string{"shop/checkout/2", "shop/cart/2"}},
		"active":         {store.PromotionFilter{Active: true}, []string{"pay/cart/9", "shop/checkout/3", "shop/cart/3"}},
		"phase":          {store.PromotionFilter{Project: "shop", Phase: promo.PhaseRunning}, []string{"shop/checkout/3", "shop/cart/3"}},
		"nothing":        {store.PromotionFilter{Pipeline: "nope"}, []string{}},
		"unknown before": {store.PromotionFilter{Before: "nope"}, []string{}},
	}
	for name, tc := range tests {
		got := []string{}
		for _, p := range must(s.Promotions(ctx, tc.filter))(t) {
			got = append(got, p.ID)
		}
		same(t, name, got, tc.want)
	}
}

func testRollbacks(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	r := promo.Rollback{
		ID: "shop/checkout/prod/1", Project: "shop", Service: "checkout", Environment: "prod", Number: 1, To: "abc",
		StartedBy: "ann", Phase: promo.PhaseRunning, StartedAt: epoch(), Sequence: 2,
	}
	ok(t, s.RecordRollback(ctx, r))
	older := r
	older.Sequence, older.Message = 1, "older"
	ok(t, s.RecordRollback(ctx, older))
	same(t, "rollback", must(s.Rollback(ctx, r.ID))(t), r)
	same(t, "active", len(must(s.Rollbacks(ctx, store.RollbackFilter{Active: true}))(t)), 1)
	r.Sequence, r.Phase = 3, promo.PhaseSucceeded
	ok(t, s.RecordRollback(ctx, r))
	same(t, "active", len(must(s.Rollbacks(ctx, store.RollbackFilter{Active: true}))(t)), 0)
	second := r
	second.ID, second.Number = "shop/checkout/prod/2", 2
	ok(t, s.RecordRollback(ctx, second))
	place := store.RollbackFilter{Project: "shop", Service: "checkout", Environment: "prod"}
	same(t, "newest first", must(s.Rollbacks(ctx, place))(t), []promo.Rollback{second, r})
	place.Before = second.ID
	same(t, "next page", must(s.Rollbacks(ctx, place))(t), []promo.Rollback{r})
	_, err := s.Rollback(ctx, "nope")
	code(t, err, promo.CodeNotFound)
}

// good is an entry of checkout's history in prod.
func good(commit, promotion string, proven bool) promo.KnownGood {
	return promo.KnownGood{
		Project: "shop", Service: "checkout", Environment: "prod", Commit: commit, Version: "v-" + commit,
		Promotion: promotion, At: epoch(), KnownGood: proven,
	}
}

func testHistory(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	ok(t, s.AddKnownGood(ctx, good("a", "shop/checkout/1", true)))
	ok(t, s.AddKnownGood(ctx, good("b", "shop/checkout/2", false)))
	ok(t, s.AddKnownGood(ctx, good("c", "shop/checkout/3", false)))
	ok(t, s.AddKnownGood(ctx, good("c", "shop/checkout/3", true)))
	ok(t, s.AddKnownGood(ctx, good("a", "shop/checkout/1", false)))
	ok(t, s.Pin(ctx, "shop", "checkout", "prod", "b"))
	ok(t, s.AddKnownGood(ctx, good("b", "shop/checkout/2", true))) // proven by a retry, after c
	proven := good("b", "shop/checkout/2", true)
	proven.Pinned = true
	want := []promo.KnownGood{proven, good("c", "shop/checkout/3", true), good("a", "shop/checkout/1", true)}
	same(t, "history", must(s.History(ctx, "shop", "checkout", "prod", 0))(t), want)
	same(t, "limited", must(s.History(ctx, "shop", "checkout", "prod", 1))(t), want[:1])
	same(t, "another place", len(must(s.History(ctx, "shop", "checkout", "dev", 0))(t)), 0)
}

func testLatestKnownGood(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	_, err := s.LatestKnownGood(ctx, "shop", "checkout", "prod", "")
	code(t, err, promo.CodeNotFound)
	for _, k := range []promo.KnownGood{
		good("a", "1", true), good("b", "2", true), good("bad", "3", false), good("c", "4", true), good("b", "5", true),
	} {
		ok(t, s.AddKnownGood(ctx, k))
	}
	tests := map[string]struct{ reason, before, want string }{
		"newest":      {reason: "no comparison asked", before: "", want: "b"},
		"known":       {reason: "the one before it in the history", before: "c", want: "b"},
		"twice there": {reason: "its last place counts, and it is not its own predecessor", before: "b", want: "c"},
		"bad":         {reason: "bad ones have a predecessor too", before: "bad", want: "b"},
		"never there": {reason: "a commit under way stands after the history", before: "zzz", want: "b"},
	}
	for name, tc := range tests {
		k := must(s.LatestKnownGood(ctx, "shop", "checkout", "prod", tc.before))(t)
		same(t, name+": "+tc.reason, k.Commit, tc.want)
	}
	_, err = s.LatestKnownGood(ctx, "shop", "checkout", "prod", "a")
	code(t, err, promo.CodeNotFound)
}

func testPins(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	ok(t, s.AddKnownGood(ctx, good("a", "1", false)))
	code(t, s.Unpin(ctx, "shop", "checkout", "prod", "a"), promo.CodeNotFound)
	ok(t, s.Pin(ctx, "shop", "checkout", "prod", "a"))
	k := must(s.LatestKnownGood(ctx, "shop", "checkout", "prod", ""))(t)
	same(t, "pinned counts", k.Commit, "a")
	same(t, "but is not proven", []bool{k.KnownGood, k.Pinned}, []bool{false, true})
	ok(t, s.Pin(ctx, "shop", "checkout", "prod", "from-before-davit"))
	same(t, "a new one", must(s.LatestKnownGood(ctx, "shop", "checkout", "prod", ""))(t).Commit, "from-before-davit")
	ok(t, s.Unpin(ctx, "shop", "checkout", "prod", "from-before-davit"))
	same(t, "unpinned", must(s.LatestKnownGood(ctx, "shop", "checkout", "prod", ""))(t).Commit, "a")
}

func testHolds(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	_, held, err := s.Hold(ctx, "shop", "checkout", "prod")
	ok(t, err)
	same(t, "held", held, false)
	h := promo.Hold{Project: "shop", Service: "checkout", Environment: "prod", Reason: "rolled back", By: "ann", At: epoch()}
	ok(t, s.SetHold(ctx, h))
	h.Reason = "again"
	ok(t, s.SetHold(ctx, h))
	got, held, err := s.Hold(ctx, "shop", "checkout", "prod")
	ok(t, err)
	same(t, "held", held, true)
	same(t, "hold", got, h)
	same(t, "holds", must(s.Holds(ctx, "shop"))(t), []promo.Hold{h})
	same(t, "of another project", len(must(s.Holds(ctx, "pay"))(t)), 0)
	same(t, "released", must(s.ReleaseHold(ctx, "shop", "checkout", "prod"))(t), true)
	same(t, "released again", must(s.ReleaseHold(ctx, "shop", "checkout", "prod"))(t), false)
}
