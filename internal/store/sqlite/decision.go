package sqlite

import (
	"context"
	"errors"

	"github.com/davit-cd/davit/internal/store"
)

const decisionColumns = "id, at, project, sets, event, subject, decided_by, input_hash, input, deny, warn"

// AddDecision keeps a decision; the same id again does nothing.
func (s *Store) AddDecision(ctx context.Context, d store.Decision) error {
	if d.At.IsZero() {
		d.At = s.now()
	}
	return s.write(ctx, func(tx *writeTx) error {
		n, err := tx.exec(ctx, "INSERT INTO decision ("+decisionColumns+", denied) VALUES (?,?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING",
			d.ID, nanos(d.At), d.Project, texts(d.Sets), d.Event, d.Subject, d.By, d.InputHash, d.Input,
			texts(d.Deny), texts(d.Warn), len(d.Deny) > 0)
		if n > 0 {
			tx.announce(store.EventDecision, d.ID)
		}
		return err
	})
}

// Decision returns one decision.
func (s *Store) Decision(ctx context.Context, id string) (store.Decision, error) {
	return one(s.r.QueryRowContext(ctx, "SELECT "+decisionColumns+" FROM decision WHERE id = ?", id), scanDecision, "decision", id)
}

// Decisions lists decisions, newest first.
func (s *Store) Decisions(ctx context.Context, f store.DecisionFilter) ([]store.Decision, error) {
	var w where
	w.eq("project", f.Project)
	w.eq("subject", f.Subject)
	if f.Denied {
		w.add("denied = 1")
	}
	if f.Before != "" {
		w.add("seq < (SELECT seq FROM decision WHERE id = ?)", f.Before)
	}
	return list(ctx, s.r, scanDecision, "SELECT "+decisionColumns+" FROM decision"+w.String()+" ORDER BY seq DESC LIMIT ?",
		append(w.args, store.Limit(f.Limit))...)
}

func scanDecision(row scanner) (store.Decision, error) {
	var d store.Decision
	var at int64
	var sets, deny, warn string
	err := row.Scan(&d.ID, &at, &d.Project, &sets, &d.Event, &d.Subject, &d.By, &d.InputHash, &d.Input, &deny, &warn)
	if err != nil {
		return d, err
	}
	d.At = instant(at)
	return d, errors.Join(fromTexts(sets, &d.Sets), fromTexts(deny, &d.Deny), fromTexts(warn, &d.Warn))
}
