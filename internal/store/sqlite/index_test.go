package sqlite

import (
	"path/filepath"
	"strings"
	"testing"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

// TestListsUseIndexes reads SQLite's plan: no list sorts, and none walks the whole table for what an index has.
func TestListsUseIndexes(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Options{Path: filepath.Join(t.TempDir(), "davit.db")})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close() //nolint:errcheck // end of the test
	tests := map[string]struct {
		filter store.PromotionFilter
		want   string
	}{
		"all":           {store.PromotionFilter{}, "SCAN p"},
		"next page":     {store.PromotionFilter{Before: "shop/checkout/1"}, "SEARCH p USING INTEGER PRIMARY KEY"},
		"project":       {store.PromotionFilter{Project: "shop"}, "SEARCH p USING INDEX promotion_"},
		"pipeline":      {store.PromotionFilter{Project: "shop", Pipeline: "checkout"}, "USING INDEX promotion_pipeline"},
		"pipeline page": {store.PromotionFilter{Project: "shop", Pipeline: "checkout", Before: "x"}, "USING INDEX promotion_pipeline"},
		"service":       {store.PromotionFilter{Project: "shop", Service: "checkout"}, "USING INDEX promotion_service"},
		"phase":         {store.PromotionFilter{Phase: promo.PhaseFailed}, "USING INDEX promotion_phase"},
		"active":        {store.PromotionFilter{Active: true}, "USING INDEX promotion_active"},
		"environment":   {store.PromotionFilter{Environment: "prod"}, "SEARCH e USING PRIMARY KEY (environment=?)"},
	}
	for name, tc := range tests {
		query, args := promotionsQuery(tc.filter)
		steps, err := list(t.Context(), s.r, func(row scanner) (string, error) {
			var id, parent, unused int
			var detail string
			return detail, row.Scan(&id, &parent, &unused, &detail)
		}, "EXPLAIN QUERY PLAN "+query, args...)
		if err != nil {
			t.Fatal(err)
		}
		plan := strings.Join(steps, "\n")
		if !strings.Contains(plan, tc.want) || strings.Contains(plan, "TEMP B-TREE") {
			t.Errorf("%s: want %q and no sorting, got\n%s", name, tc.want, plan)
		}
	}
}
