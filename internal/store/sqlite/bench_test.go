package sqlite_test

import (
	"fmt"
	"testing"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
	"github.com/davit-cd/davit/internal/store/sqlite"
)

// BenchmarkRecord measures what every step of a promotion costs in the store.
func BenchmarkRecord(b *testing.B) {
	s := open(b, sqlite.Options{})
	p := promo.Promotion{ID: "shop/checkout/1", Project: "shop", Pipeline: "checkout", Number: 1, Attempt: 1, Phase: promo.PhaseRunning}
	for i := range 3 {
		p.Stages = append(p.Stages, promo.Stage{Name: fmt.Sprint("s", i), Environment: fmt.Sprint("e", i), Steps: make([]promo.Step, 8)})
	}
	for b.Loop() {
		p.Sequence++
		if err := s.RecordPromotion(b.Context(), p); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkList measures a page of promotions among 2,000.
func BenchmarkList(b *testing.B) {
	s := open(b, sqlite.Options{})
	for i := range 2000 {
		p := promo.Promotion{ID: fmt.Sprint("shop/checkout/", i), Project: "shop", Pipeline: fmt.Sprint("p", i%50), Number: i, Attempt: 1, Phase: promo.PhaseSucceeded}
		if err := s.CreatePromotion(b.Context(), p, nil); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := s.Promotions(b.Context(), store.PromotionFilter{Project: "shop", Pipeline: "p7"}); err != nil {
			b.Fatal(err)
		}
	}
}
