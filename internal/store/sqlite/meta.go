package sqlite

import (
	"context"
	"crypto/rand"
	"database/sql"
	"errors"

	"github.com/davit-cd/davit/internal/promo"
)

// keyBytes is the length of a server key: a full HMAC-SHA-256 key.
const keyBytes = 32

// ServerKey returns the random 32-byte key of that name, made at the first call and the same ever after.
func (s *Store) ServerKey(ctx context.Context, name string) ([]byte, error) {
	fresh := make([]byte, keyBytes)
	if _, err := rand.Read(fresh); err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "server key %q: %w", name, err)
	}
	var key []byte
	err := s.write(ctx, func(tx *writeTx) error {
		if _, err := tx.exec(ctx, "INSERT INTO server_key (name, key) VALUES (?, ?) ON CONFLICT DO NOTHING", name, fresh); err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, "SELECT key FROM server_key WHERE name = ?", name).Scan(&key)
	})
	return key, err
}

// Meta returns a small value by which the server remembers something about itself, "" where none was set.
func (s *Store) Meta(ctx context.Context, key string) (string, error) {
	var v string
	err := s.r.QueryRowContext(ctx, "SELECT value FROM meta WHERE key = ?", key).Scan(&v)
	if errors.Is(err, sql.ErrNoRows) {
		return "", nil
	}
	return v, trouble(err)
}

// SetMeta sets a value for Meta.
func (s *Store) SetMeta(ctx context.Context, key, value string) error {
	return s.write(ctx, func(tx *writeTx) error {
		_, err := tx.exec(ctx, "INSERT INTO meta (key, value) VALUES (?, ?) ON CONFLICT (key) DO UPDATE SET value = excluded.value", key, value)
		return err
	})
}
