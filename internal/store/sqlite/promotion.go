package sqlite

import (
	"context"
	"fmt"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

// NextNumber hands out the next number of a pipeline's promotions, from 1. A number is never handed out twice,
// whether or not it was used.
func (s *Store) NextNumber(ctx context.Context, project, pipeline string) (int, error) {
	return s.next(ctx, "promotion/"+project+"/"+pipeline)
}

func (s *Store) next(ctx context.Context, counter string) (int, error) {
	var n int
	err := s.write(ctx, func(tx *writeTx) error {
		return tx.QueryRowContext(ctx, `INSERT INTO counter (name, value) VALUES (?, 1)
			ON CONFLICT (name) DO UPDATE SET value = value + 1 RETURNING value`, counter).Scan(&n)
	})
	return n, err
}

// CreatePromotion keeps a new promotion and its plan (under p.PlanHash). Creating the same one again does nothing;
// another under the same id is a Conflict.
func (s *Store) CreatePromotion(ctx context.Context, p promo.Promotion, plan []byte) error {
	if err := bounded("plan of promotion", p.ID, plan, store.MaxDocument); err != nil {
		return err
	}
	return s.write(ctx, func(tx *writeTx) error {
		existing, err := list(ctx, tx, bytes, "SELECT plan_hash FROM promotion WHERE id = ?", p.ID)
		if err != nil {
			return err
		}
		if len(existing) > 0 {
			if string(existing[0]) != p.PlanHash {
				return promo.Errorf(promo.CodeConflict, "promotion %q exists with another plan", p.ID)
			}
			return nil
		}
		if _, err := tx.exec(ctx, "INSERT INTO plan (hash, doc) VALUES (?, ?) ON CONFLICT DO NOTHING", p.PlanHash, notNil(plan)); err != nil {
			return err
		}
		return recordPromotion(ctx, tx, p)
	})
}

// RecordPromotion keeps p if it is newer, by (Attempt, Sequence), than what is kept. A late record of an earlier
// attempt completes that attempt's own document and does not touch the promotion.
func (s *Store) RecordPromotion(ctx context.Context, p promo.Promotion) error {
	return s.write(ctx, func(tx *writeTx) error { return recordPromotion(ctx, tx, p) })
}

func recordPromotion(ctx context.Context, tx *writeTx, p promo.Promotion) error {
	doc, err := encode("promotion", p.ID, p)
	if err != nil {
		return err
	}
	current, err := tx.exec(ctx, `INSERT INTO promotion (id, project, pipeline, service, number, attempt, sequence, phase, active,
			plan_hash, started_at, finished_at) VALUES (?,?,?,?,?,?,?,?,?,?,?,?)
		ON CONFLICT (id) DO UPDATE SET attempt = excluded.attempt, sequence = excluded.sequence, phase = excluded.phase,
			active = excluded.active, plan_hash = excluded.plan_hash, finished_at = excluded.finished_at
		WHERE (excluded.attempt, excluded.sequence) > (attempt, sequence)`,
		p.ID, p.Project, p.Pipeline, p.Service, p.Number, p.Attempt, p.Sequence, p.Phase, !p.Phase.Final(),
		p.PlanHash, nanos(p.StartedAt), nanos(p.FinishedAt))
	if err != nil {
		return err
	}
	kept, err := tx.exec(ctx, `INSERT INTO promotion_attempt (promotion, attempt, sequence, doc) VALUES (?,?,?,?)
		ON CONFLICT (promotion, attempt) DO UPDATE SET sequence = excluded.sequence, doc = excluded.doc
		WHERE excluded.sequence > sequence`, p.ID, p.Attempt, p.Sequence, doc)
	if err != nil {
		return err
	}
	if current+kept > 0 {
		tx.announce(store.EventPromotion, p.ID)
	}
	return recordEnvironments(ctx, tx, p)
}

// recordEnvironments makes the promotion findable by the environments of its stages.
func recordEnvironments(ctx context.Context, tx *writeTx, p promo.Promotion) error {
	for _, st := range p.Stages {
		if st.Environment == "" {
			continue
		}
		if _, err := tx.exec(ctx, `INSERT INTO promotion_environment (environment, seq)
			SELECT ?, seq FROM promotion WHERE id = ? ON CONFLICT DO NOTHING`, st.Environment, p.ID); err != nil {
			return err
		}
	}
	return nil
}

const promotionFrom = " FROM promotion p JOIN promotion_attempt a ON a.promotion = p.id AND a.attempt = p.attempt"

// Promotion returns a promotion as of its newest attempt.
func (s *Store) Promotion(ctx context.Context, id string) (promo.Promotion, error) {
	return one(s.r.QueryRowContext(ctx, "SELECT a.doc"+promotionFrom+" WHERE p.id = ?", id),
		document[promo.Promotion], "promotion", id)
}

// PromotionAttempt returns a promotion as an attempt left it; a retry reads the outputs of earlier stages there.
func (s *Store) PromotionAttempt(ctx context.Context, id string, attempt int) (promo.Promotion, error) {
	return one(s.r.QueryRowContext(ctx, "SELECT doc FROM promotion_attempt WHERE promotion = ? AND attempt = ?", id, attempt),
		document[promo.Promotion], "promotion", fmt.Sprintf("%s attempt %d", id, attempt))
}

// Plan returns a plan by its hash or by the id of a promotion.
func (s *Store) Plan(ctx context.Context, hashOrID string) ([]byte, error) {
	return one(s.r.QueryRowContext(ctx, `SELECT doc FROM plan WHERE hash = ?1
		UNION ALL SELECT doc FROM plan JOIN promotion ON plan_hash = hash WHERE id = ?1 LIMIT 1`, hashOrID), bytes, "plan", hashOrID)
}

// Promotions lists promotions, newest first.
func (s *Store) Promotions(ctx context.Context, f store.PromotionFilter) ([]promo.Promotion, error) {
	query, args := promotionsQuery(f)
	return list(ctx, s.r, document[promo.Promotion], query, args...)
}

func promotionsQuery(f store.PromotionFilter) (string, []any) {
	var w where
	from := promotionFrom
	seq := "p.seq"
	if f.Environment != "" {
		// The environment's own index gives the order then.
		from = " FROM promotion_environment e CROSS JOIN promotion p ON p.seq = e.seq" +
			" JOIN promotion_attempt a ON a.promotion = p.id AND a.attempt = p.attempt"
		seq = "e.seq"
		w.add("e.environment = ?", f.Environment)
	}
	w.eq("p.project", f.Project)
	w.eq("p.pipeline", f.Pipeline)
	w.eq("p.service", f.Service)
	w.eq("p.phase", string(f.Phase))
	if f.Active {
		w.add("p.active = 1")
	}
	if f.Before != "" {
		w.add(seq+" < (SELECT seq FROM promotion WHERE id = ?)", f.Before)
	}
	return "SELECT a.doc" + from + w.String() + " ORDER BY " + seq + " DESC LIMIT ?", append(w.args, store.Limit(f.Limit))
}
