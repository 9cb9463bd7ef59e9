package sqlite

import (
	"context"

	"github.com/davit-cd/davit/internal/store"
)

// PutBlob keeps data of at most store.MaxBlob bytes and returns its digest. The same data is kept once.
func (s *Store) PutBlob(ctx context.Context, mediaType string, data []byte) (string, error) {
	digest := store.Digest(data)
	if err := bounded("blob", digest, data, store.MaxBlob); err != nil {
		return "", err
	}
	return digest, s.write(ctx, func(tx *writeTx) error {
		_, err := tx.exec(ctx, "INSERT INTO blob (digest, media_type, at, data) VALUES (?,?,?,?) ON CONFLICT DO NOTHING",
			digest, mediaType, nanos(s.now()), notNil(data))
		return err
	})
}

// Blob returns what PutBlob kept under the digest.
func (s *Store) Blob(ctx context.Context, digest string) (store.Blob, error) {
	return one(s.r.QueryRowContext(ctx, "SELECT digest, media_type, at, data FROM blob WHERE digest = ?", digest),
		func(row scanner) (store.Blob, error) {
			var b store.Blob
			var at int64
			err := row.Scan(&b.Digest, &b.MediaType, &at, &b.Data)
			b.At = instant(at)
			return b, err
		}, "blob", digest)
}
