package storetest

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

func testBlobs(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	data := []byte("--- a\n+++ b\n\x00\xff")
	digest := must(s.PutBlob(ctx, "text/x-diff", data))(t)
	same(t, "same again", must(s.PutBlob(ctx, "text/plain", data))(t), digest)
	same(t, "blob", must(s.Blob(ctx, digest))(t), store.Blob{Digest: store.Digest(data), MediaType: "text/x-diff", Data: data, At: epoch()})
	empty := must(s.PutBlob(ctx, "text/plain", nil))(t)
	same(t, "empty", len(must(s.Blob(ctx, empty))(t).Data), 0)
	_, err := s.Blob(ctx, "nope")
	code(t, err, promo.CodeNotFound)
}

func testBounds(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	big := make([]byte, store.MaxBlob+1)
	_, err := s.PutBlob(ctx, "text/plain", big)
	code(t, err, promo.CodeConfiguration)
	_ = must(s.PutBlob(ctx, "text/plain", big[:store.MaxBlob]))(t)
	_, err = s.ApplyDefinitions(ctx, []store.Definition{{Kind: "Service", Name: "s", Source: big}}, "ann", store.AnyGeneration)
	code(t, err, promo.CodeConfiguration)
	code(t, s.CreatePromotion(ctx, run("checkout", 1, promo.PhaseRunning), big), promo.CodeConfiguration)
}

func testDecisions(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	d := store.Decision{
		ID: "d1", At: epoch(), Project: "shop", Sets: []string{"gate"}, Event: "step", Subject: "shop/checkout/1", By: "ann",
		InputHash: "h", Input: "blob", Deny: []string{"no"}, Warn: []string{"careful"},
	}
	ok(t, s.AddDecision(ctx, d))
	ok(t, s.AddDecision(ctx, store.Decision{ID: "d1", Sets: []string{"other"}}))
	same(t, "decision", must(s.Decision(ctx, "d1"))(t), d)
	allowed := store.Decision{ID: "d2", At: epoch(), Project: "shop", Sets: []string{"gate"}, Event: "run", Subject: "shop/checkout/2"}
	ok(t, s.AddDecision(ctx, allowed))
	same(t, "all", must(s.Decisions(ctx, store.DecisionFilter{Project: "shop"}))(t), []store.Decision{allowed, d})
	same(t, "denied", must(s.Decisions(ctx, store.DecisionFilter{Denied: true}))(t), []store.Decision{d})
	same(t, "subject", must(s.Decisions(ctx, store.DecisionFilter{Subject: "shop/checkout/2"}))(t), []store.Decision{allowed})
	same(t, "next page", must(s.Decisions(ctx, store.DecisionFilter{Before: "d2", Limit: 1}))(t), []store.Decision{d})
	_, err := s.Decision(ctx, "nope")
	code(t, err, promo.CodeNotFound)
}

func testAudit(t *testing.T, s Store, clock *Clock) {
	ctx := t.Context()
	same(t, "empty chain", must(s.VerifyAudit(ctx))(t), store.AuditCheck{})
	var last store.Entry
	for i := range 5 {
		e := store.Entry{Who: "ann", Action: "approve", Kind: "promotion", Subject: fmt.Sprint("shop/checkout/", i), Project: "shop"}
		if i == 2 {
			e.Who, e.Detail = "bob", json.RawMessage(`{"comment": "fine"}`)
		}
		e = must(s.AppendAudit(ctx, e))(t)
		same(t, "chained", []any{e.Seq, e.Prev, e.At}, []any{last.Seq + 1, last.Hash, clock.Now()})
		last = e
		clock.Advance(time.Hour)
	}
	same(t, "whole chain", must(s.VerifyAudit(ctx))(t), store.AuditCheck{Entries: 5})
	tests := map[string]struct {
		filter store.AuditFilter
		want   []int64
	}{
		"newest first": {store.AuditFilter{Limit: 2}, []int64{5, 4}},
		"next page":    {store.AuditFilter{Limit: 2, Before: 4}, []int64{3, 2}},
		"who":          {store.AuditFilter{Who: "bob"}, []int64{3}},
		"subject":      {store.AuditFilter{Kind: "promotion", Subject: "shop/checkout/0"}, []int64{1}},
		"time":         {store.AuditFilter{Since: epoch().Add(time.Hour), Until: epoch().Add(3 * time.Hour)}, []int64{3, 2}},
		"project":      {store.AuditFilter{Project: "pay"}, []int64{}},
		"action":       {store.AuditFilter{Action: "reject"}, []int64{}},
	}
	for name, tc := range tests {
		got := []int64{}
		for _, e := range must(s.Audit(ctx, tc.filter))(t) {
			got = append(got, e.Seq)
		}
		same(t, name, got, tc.want)
	}
	same(t, "detail", string(must(s.Audit(ctx, store.AuditFilter{Who: "bob"}))(t)[0].Detail), `{"comment": "fine"}`)
}

// wait returns the next event, which has to come.
func wait(t *testing.T, events <-chan store.Event) store.Event {
	t.Helper()
	select {
	case e, open := <-events:
		if !open {
			t.Fatal("the subscription ended")
		}
		return e
	case <-time.After(30 * time.Second):
		t.Fatal("no event")
	}
	return store.Event{}
}

func testEvents(t *testing.T, s Store, _ *Clock) {
	ctx, cancel := context.WithCancel(t.Context())
	events := s.Subscribe(ctx)
	ok(t, s.CreatePromotion(ctx, run("checkout", 1, promo.PhaseRunning), []byte("{}")))
	same(t, "event", wait(t, events), store.Event{Kind: store.EventPromotion, ID: "shop/checkout/1"})
	ok(t, s.RecordPromotion(ctx, run("checkout", 1, promo.PhaseRunning))) // nothing new: no event
	_, err := s.ApplyDefinitions(ctx, append(defs("a"), store.Definition{}), "ann", store.AnyGeneration)
	code(t, err, promo.CodeConfiguration) // rolled back: no event
	ok(t, s.SetHold(ctx, promo.Hold{Project: "shop", Service: "checkout", Environment: "prod"}))
	same(t, "event", wait(t, events), store.Event{Kind: store.EventHold, ID: "shop/checkout/prod"})
	cancel()
	for range events {
	}
}

func testEventsCoalesce(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	events := s.Subscribe(ctx)
	// Nobody takes anything: the writer goes on, one thing waits at most twice (once in hand, once pending).
	for i := range 50 {
		p := run("checkout", 1, promo.PhaseRunning)
		p.Sequence = int64(i + 1)
		ok(t, s.RecordPromotion(ctx, p))
	}
	_ = must(s.AppendAudit(ctx, store.Entry{Who: "ann", Action: "end"}))(t)
	n := 0
	for wait(t, events).Kind != store.EventAudit {
		n++
	}
	if n < 1 || n > 2 {
		t.Fatalf("%d events of one promotion, want them coalesced", n)
	}
}

func testConcurrency(t *testing.T, s Store, _ *Clock) {
	ctx := t.Context()
	var wg sync.WaitGroup
	for w := range 4 {
		wg.Go(func() {
			for i := range 25 {
				p := run(fmt.Sprintf("p%d", w), i+1, promo.PhaseRunning)
				if err := s.CreatePromotion(ctx, p, []byte("{}")); err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 25 {
				if _, err := s.Promotions(ctx, store.PromotionFilter{Active: true}); err != nil {
					t.Error(err)
				}
				if _, err := s.AppendAudit(ctx, store.Entry{Who: fmt.Sprint(w), Action: "read"}); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	same(t, "all kept", len(must(s.Promotions(ctx, store.PromotionFilter{Limit: 1000}))(t)), 100)
	same(t, "chain", must(s.VerifyAudit(ctx))(t), store.AuditCheck{Entries: 100})
}

func testEndedContext(t *testing.T, s Store, _ *Clock) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.AppendAudit(ctx, store.Entry{Who: "ann"}); !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v, want the context's", err)
	}
	same(t, "nothing written", must(s.VerifyAudit(t.Context()))(t), store.AuditCheck{})
	ok(t, s.Ping(t.Context()))
}
