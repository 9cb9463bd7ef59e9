package sqlite

import (
	"context"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

const tokenColumns = "hash, name, principal, role, project, created_by, created_at, expires_at" //nolint:gosec // names of columns, no credentials

// CreateToken keeps a token; a second one of that name for the principal is a Conflict.
func (s *Store) CreateToken(ctx context.Context, t store.Token) error {
	if t.CreatedAt.IsZero() {
		t.CreatedAt = s.now()
	}
	return s.write(ctx, func(tx *writeTx) error {
		n, err := tx.exec(ctx, "INSERT INTO token ("+tokenColumns+") VALUES (?,?,?,?,?,?,?,?) ON CONFLICT DO NOTHING",
			t.Hash, t.Name, t.Principal, t.Role, t.Project, t.CreatedBy, nanos(t.CreatedAt), nanos(t.ExpiresAt))
		if err == nil && n == 0 {
			return promo.Errorf(promo.CodeConflict, "%q has a token %q", t.Principal, t.Name).WithHint("delete it or choose another name")
		}
		tx.announce(store.EventToken, t.Principal+"/"+t.Name)
		return err
	})
}

// TokenByHash returns a token that has not expired; any other is NotFound.
func (s *Store) TokenByHash(ctx context.Context, hash string) (store.Token, error) {
	return one(s.r.QueryRowContext(ctx, "SELECT "+tokenColumns+" FROM token WHERE hash = ? AND (expires_at = 0 OR expires_at > ?)",
		hash, nanos(s.now())), scanToken, "token with", "this secret")
}

// Tokens lists the tokens of a principal, "" for all, expired ones too.
func (s *Store) Tokens(ctx context.Context, principal string) ([]store.Token, error) {
	var w where
	w.eq("principal", principal)
	return list(ctx, s.r, scanToken, "SELECT "+tokenColumns+" FROM token"+w.String()+" ORDER BY principal, name", w.args...)
}

// DeleteToken ends a token at once.
func (s *Store) DeleteToken(ctx context.Context, principal, name string) error {
	return s.write(ctx, func(tx *writeTx) error {
		n, err := tx.exec(ctx, "DELETE FROM token WHERE principal = ? AND name = ?", principal, name)
		if err == nil && n == 0 {
			return notFound("token", name)
		}
		tx.announce(store.EventToken, principal+"/"+name)
		return err
	})
}

func scanToken(row scanner) (store.Token, error) {
	var t store.Token
	var created, expires int64
	err := row.Scan(&t.Hash, &t.Name, &t.Principal, &t.Role, &t.Project, &t.CreatedBy, &created, &expires)
	t.CreatedAt, t.ExpiresAt = instant(created), instant(expires)
	return t, err
}
