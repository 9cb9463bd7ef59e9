package sqlite

import (
	"context"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

// NextRollbackNumber hands out the next number of a place's rollbacks, from 1, never twice.
func (s *Store) NextRollbackNumber(ctx context.Context, project, service, environment string) (int, error) {
	return s.next(ctx, "rollback/"+place(project, service, environment))
}

func place(project, service, environment string) string {
	return project + "/" + service + "/" + environment
}

// RecordRollback keeps r if its Sequence is newer than what is kept.
func (s *Store) RecordRollback(ctx context.Context, r promo.Rollback) error {
	doc, err := encode("rollback", r.ID, r)
	if err != nil {
		return err
	}
	return s.write(ctx, func(tx *writeTx) error {
		n, err := tx.exec(ctx, `INSERT INTO rollback (id, project, service, environment, number, sequence, phase, active, started_at, doc)
			VALUES (?,?,?,?,?,?,?,?,?,?)
			ON CONFLICT (id) DO UPDATE SET sequence = excluded.sequence, phase = excluded.phase, active = excluded.active, doc = excluded.doc
			WHERE excluded.sequence > sequence`,
			r.ID, r.Project, r.Service, r.Environment, r.Number, r.Sequence, r.Phase, !r.Phase.Final(), nanos(r.StartedAt), doc)
		if n > 0 {
			tx.announce(store.EventRollback, r.ID)
		}
		return err
	})
}

// Rollback returns a rollback.
func (s *Store) Rollback(ctx context.Context, id string) (promo.Rollback, error) {
	return one(s.r.QueryRowContext(ctx, "SELECT doc FROM rollback WHERE id = ?", id), document[promo.Rollback], "rollback", id)
}

// Rollbacks lists rollbacks, newest first.
func (s *Store) Rollbacks(ctx context.Context, f store.RollbackFilter) ([]promo.Rollback, error) {
	var w where
	w.eq("project", f.Project)
	w.eq("service", f.Service)
	w.eq("environment", f.Environment)
	if f.Active {
		w.add("active = 1")
	}
	if f.Before != "" {
		w.add("seq < (SELECT seq FROM rollback WHERE id = ?)", f.Before)
	}
	return list(ctx, s.r, document[promo.Rollback],
		"SELECT doc FROM rollback"+w.String()+" ORDER BY seq DESC LIMIT ?", append(w.args, store.Limit(f.Limit))...)
}
