package sqlite

import (
	"context"
	"fmt"
	"math"

	"github.com/davit-cd/davit/internal/store"
)

// The local forge keeps its own documents here; the store knows only what they are searched by. Plain types keep
// forge and store apart.

// NextPullRequestNumber hands out the next number of a repository's pull requests, from 1, never twice.
func (s *Store) NextPullRequestNumber(ctx context.Context, repository string) (int, error) {
	return s.next(ctx, "pull-request/"+repository)
}

// SavePullRequest keeps a pull request's document under the columns that it is searched by.
func (s *Store) SavePullRequest(ctx context.Context, repository string, number int, state, head string, doc []byte) error {
	name := fmt.Sprintf("%s/%d", repository, number)
	if err := bounded("pull request", name, doc, store.MaxDocument); err != nil {
		return err
	}
	return s.write(ctx, func(tx *writeTx) error {
		tx.announce(store.EventPullRequest, name)
		_, err := tx.exec(ctx, `INSERT INTO forge_pull_request (repository, number, state, head, updated_at, doc) VALUES (?,?,?,?,?,?)
			ON CONFLICT (repository, number) DO UPDATE SET state = excluded.state, head = excluded.head,
				updated_at = excluded.updated_at, doc = excluded.doc`,
			repository, number, state, head, nanos(s.now()), doc)
		return err
	})
}

// PullRequest returns a pull request's document.
func (s *Store) PullRequest(ctx context.Context, repository string, number int) ([]byte, error) {
	return one(s.r.QueryRowContext(ctx, "SELECT doc FROM forge_pull_request WHERE repository = ? AND number = ?", repository, number),
		bytes, "pull request", fmt.Sprintf("%s/%d", repository, number))
}

// PullRequests lists the documents of a repository's pull requests, newest first; an empty state or head matches
// all, before > 0 goes on below that number.
func (s *Store) PullRequests(ctx context.Context, repository, state, head string, before, limit int) ([][]byte, error) {
	if before <= 0 {
		before = math.MaxInt64
	}
	w := where{conds: []string{"repository = ?", "number < ?"}, args: []any{repository, before}}
	w.eq("state", state)
	w.eq("head", head)
	return list(ctx, s.r, bytes, "SELECT doc FROM forge_pull_request"+w.String()+" ORDER BY number DESC LIMIT ?", append(w.args, store.Limit(limit))...)
}

// SaveForgeRepository keeps the document of a repository of the local forge.
func (s *Store) SaveForgeRepository(ctx context.Context, name string, doc []byte) error {
	return s.write(ctx, func(tx *writeTx) error {
		_, err := tx.exec(ctx, `INSERT INTO forge_repository (name, updated_at, doc) VALUES (?,?,?)
			ON CONFLICT (name) DO UPDATE SET updated_at = excluded.updated_at, doc = excluded.doc`, name, nanos(s.now()), doc)
		return err
	})
}

// ForgeRepositories returns the documents of the local forge's repositories by name; with a name set, that one's only.
func (s *Store) ForgeRepositories(ctx context.Context, name string) ([][]byte, error) {
	var w where
	w.eq("name", name)
	return list(ctx, s.r, bytes, "SELECT doc FROM forge_repository"+w.String()+" ORDER BY name", w.args...)
}

// SaveStatus keeps the document of a check on a commit; the newest of a context counts.
func (s *Store) SaveStatus(ctx context.Context, repository, commit, name string, doc []byte) error {
	return s.write(ctx, func(tx *writeTx) error {
		_, err := tx.exec(ctx, `INSERT INTO forge_status (repository, commit_sha, context, updated_at, doc) VALUES (?,?,?,?,?)
			ON CONFLICT (repository, commit_sha, context) DO UPDATE SET updated_at = excluded.updated_at, doc = excluded.doc`,
			repository, commit, name, nanos(s.now()), doc)
		return err
	})
}

// Statuses returns the documents of a commit's checks by context.
func (s *Store) Statuses(ctx context.Context, repository, commit string) ([][]byte, error) {
	return list(ctx, s.r, bytes, "SELECT doc FROM forge_status WHERE repository = ? AND commit_sha = ? ORDER BY context", repository, commit)
}
