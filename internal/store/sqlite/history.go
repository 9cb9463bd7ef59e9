package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

const historyColumns = "project, service, environment, commit_sha, version, promotion, at, known_good, pinned"

// AddKnownGood adds an entry to a place's history. A commit that was promoted but not proven is added too, with
// KnownGood false. The same commit of the same promotion is one entry: added again it does nothing new, unless it
// is proven only now, which makes it the newest of the history. What was proven stays so.
func (s *Store) AddKnownGood(ctx context.Context, k promo.KnownGood) error {
	if k.At.IsZero() {
		k.At = s.now()
	}
	return s.write(ctx, func(tx *writeTx) error {
		tx.announce(store.EventHistory, place(k.Project, k.Service, k.Environment))
		if k.KnownGood {
			replaced, err := list(ctx, tx, func(row scanner) (bool, error) {
				var pinned bool
				return pinned, row.Scan(&pinned)
			}, `DELETE FROM known_good WHERE project = ? AND service = ? AND environment = ? AND commit_sha = ? AND promotion = ?
				AND known_good = 0 RETURNING pinned`, k.Project, k.Service, k.Environment, k.Commit, k.Promotion)
			if err != nil {
				return err
			}
			k.Pinned = k.Pinned || len(replaced) > 0 && replaced[0]
		}
		_, err := tx.exec(ctx, `INSERT INTO known_good (`+historyColumns+`) VALUES (?,?,?,?,?,?,?,?,?)
			ON CONFLICT (project, service, environment, commit_sha, promotion) DO UPDATE SET pinned = max(pinned, excluded.pinned)`,
			k.Project, k.Service, k.Environment, k.Commit, k.Version, k.Promotion, nanos(k.At), k.KnownGood, k.Pinned)
		return err
	})
}

// History returns what was in an environment, newest first.
func (s *Store) History(ctx context.Context, project, service, environment string, limit int) ([]promo.KnownGood, error) {
	return list(ctx, s.r, scanKnownGood, "SELECT "+historyColumns+` FROM known_good
		WHERE project = ? AND service = ? AND environment = ? ORDER BY seq DESC LIMIT ?`, project, service, environment, store.Limit(limit))
}

// LatestKnownGood returns the newest commit that was proven or pinned. With before set, it is the newest one that
// stands before that commit in the history and differs from it; a commit that never came into the history stands
// after all of it.
func (s *Store) LatestKnownGood(ctx context.Context, project, service, environment, before string) (promo.KnownGood, error) {
	k, err := one(s.r.QueryRowContext(ctx, "SELECT "+historyColumns+` FROM known_good
		WHERE project = ?1 AND service = ?2 AND environment = ?3 AND (known_good = 1 OR pinned = 1) AND commit_sha <> ?4
		AND seq < coalesce((SELECT max(seq) FROM known_good
			WHERE project = ?1 AND service = ?2 AND environment = ?3 AND commit_sha = ?4), 9223372036854775807)
		ORDER BY seq DESC LIMIT 1`, project, service, environment, before),
		scanKnownGood, "known-good commit of", place(project, service, environment))
	if promo.CodeOf(err) != promo.CodeNotFound || err == nil {
		return k, err
	}
	return k, promo.Errorf(promo.CodeNotFound, "no known-good commit of service %q in environment %q", service, environment).
		WithHint("name a commit, or pin one")
}

// Pin makes a commit count as known-good by a person's decision; one that never was there is added.
func (s *Store) Pin(ctx context.Context, project, service, environment, commit string) error {
	return s.write(ctx, func(tx *writeTx) error {
		tx.announce(store.EventHistory, place(project, service, environment))
		n, err := tx.exec(ctx, `UPDATE known_good SET pinned = 1
			WHERE project = ? AND service = ? AND environment = ? AND commit_sha = ?`, project, service, environment, commit)
		if err != nil || n > 0 {
			return err
		}
		_, err = tx.exec(ctx, "INSERT INTO known_good ("+historyColumns+") VALUES (?,?,?,?,'','',?,0,1)",
			project, service, environment, commit, nanos(s.now()))
		return err
	})
}

// Unpin takes a pin back; the entry stays in the history.
func (s *Store) Unpin(ctx context.Context, project, service, environment, commit string) error {
	return s.write(ctx, func(tx *writeTx) error {
		tx.announce(store.EventHistory, place(project, service, environment))
		n, err := tx.exec(ctx, `UPDATE known_good SET pinned = 0
			WHERE project = ? AND service = ? AND environment = ? AND commit_sha = ? AND pinned = 1`, project, service, environment, commit)
		if err == nil && n == 0 {
			return notFound("pin on commit", commit)
		}
		return err
	})
}

func scanKnownGood(row scanner) (promo.KnownGood, error) {
	var k promo.KnownGood
	var at int64
	err := row.Scan(&k.Project, &k.Service, &k.Environment, &k.Commit, &k.Version, &k.Promotion, &at, &k.KnownGood, &k.Pinned)
	k.At = instant(at)
	return k, err
}

// SetHold keeps automatic promotions out of a place; a hold that is set already gets the new reason.
func (s *Store) SetHold(ctx context.Context, h promo.Hold) error {
	if h.At.IsZero() {
		h.At = s.now()
	}
	return s.write(ctx, func(tx *writeTx) error {
		tx.announce(store.EventHold, place(h.Project, h.Service, h.Environment))
		_, err := tx.exec(ctx, `INSERT INTO hold (project, service, environment, reason, set_by, at) VALUES (?,?,?,?,?,?)
			ON CONFLICT (project, service, environment) DO UPDATE SET reason = excluded.reason, set_by = excluded.set_by, at = excluded.at`,
			h.Project, h.Service, h.Environment, h.Reason, h.By, nanos(h.At))
		return err
	})
}

// ReleaseHold lets promotions in again. It reports whether there was a hold.
func (s *Store) ReleaseHold(ctx context.Context, project, service, environment string) (bool, error) {
	var held bool
	err := s.write(ctx, func(tx *writeTx) error {
		n, err := tx.exec(ctx, "DELETE FROM hold WHERE project = ? AND service = ? AND environment = ?", project, service, environment)
		if held = n > 0; held {
			tx.announce(store.EventHold, place(project, service, environment))
		}
		return err
	})
	return held, err
}

const holdColumns = "SELECT project, service, environment, reason, set_by, at FROM hold"

// Hold returns the hold of a place and whether there is one.
func (s *Store) Hold(ctx context.Context, project, service, environment string) (promo.Hold, bool, error) {
	h, err := scanHold(s.r.QueryRowContext(ctx, holdColumns+" WHERE project = ? AND service = ? AND environment = ?", project, service, environment))
	if errors.Is(err, sql.ErrNoRows) {
		return promo.Hold{}, false, nil
	}
	return h, err == nil, trouble(err)
}

// Holds lists the holds of a project, "" for all, newest first.
func (s *Store) Holds(ctx context.Context, project string) ([]promo.Hold, error) {
	var w where
	w.eq("project", project)
	return list(ctx, s.r, scanHold, holdColumns+w.String()+" ORDER BY at DESC, project, service, environment", w.args...)
}

func scanHold(row scanner) (promo.Hold, error) {
	var h promo.Hold
	var at int64
	err := row.Scan(&h.Project, &h.Service, &h.Environment, &h.Reason, &h.By, &at)
	h.At = instant(at)
	return h, err
}
