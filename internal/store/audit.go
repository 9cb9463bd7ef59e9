package store

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
)

// Seal sets Prev and Hash of an entry that follows one with hash prev. The hash covers every field in a fixed
// form, so that databases agree on it and a single altered byte shows.
func (e *Entry) Seal(prev string) error {
	e.Prev = prev
	b, err := json.Marshal([]any{
		e.Prev, e.Seq, e.At.UnixNano(), e.Who, e.Action, e.Kind, e.Subject, e.Project, string(e.Detail),
	})
	if err != nil {
		return fmt.Errorf("audit entry %d: %w", e.Seq, err)
	}
	e.Hash = Digest(b)
	return nil
}

// Digest returns the hex SHA-256 by which the store names data.
func Digest(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:])
}
