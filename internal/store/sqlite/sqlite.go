// Package sqlite keeps the store in one SQLite file (WAL), for one server process. Writes go through one
// connection, so none ever waits for a lock of another; reads have a pool of their own and never wait for a
// write. A commit is safe from a killed process at once, from a power loss with the next checkpoint.
//
// It knows the words of package store and nothing of who uses it. Start reading at Open and write.
package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"os"
	"path/filepath"
	"time"

	_ "modernc.org/sqlite" // the driver

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

// readers is the size of the read pool: pages read in bursts, and SQLite gains nothing from more than the cores.
const readers = 4

// Options are what Open needs. Zero values of Now and Log are filled.
type Options struct {
	// Path is the database file; its directory must exist.
	Path string
	// Now is the clock.
	Now func() time.Time
	Log *slog.Logger
	// MaxPages bounds the file's size (4 KiB a page), 0 for none. Beyond it the store is full.
	MaxPages int
}

// Store is the store on SQLite. It is safe for concurrent use.
type Store struct {
	w, r *sql.DB
	now  func() time.Time
	log  *slog.Logger
	feed store.Feed
}

// Open opens or creates the database and brings its schema up to date. A database written by a newer Davit is
// refused with a Configuration error and stays untouched.
func Open(ctx context.Context, o Options) (*Store, error) {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	path, err := filepath.Abs(o.Path)
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "store path %q: %w", o.Path, err)
	}
	if err := touch(path); err != nil {
		return nil, err
	}
	if err := inspect(ctx, path); err != nil {
		return nil, err
	}
	s := &Store{now: o.Now, log: o.Log}
	if s.w, err = sql.Open("sqlite", writerDSN(path, o.MaxPages)); err != nil {
		return nil, trouble(err)
	}
	s.w.SetMaxOpenConns(1)
	if err := migrate(ctx, s.w, path, o.Log); err != nil {
		return nil, errors.Join(err, s.w.Close())
	}
	if s.r, err = sql.Open("sqlite", readerDSN(path)); err != nil {
		return nil, errors.Join(trouble(err), s.w.Close())
	}
	s.r.SetMaxOpenConns(readers)
	s.r.SetMaxIdleConns(readers)
	return s, nil
}

// touch makes the file for the owner only: it holds hashes of credentials and the server's keys.
func touch(path string) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR, 0o600) //nolint:gosec // the operator chooses the path
	if err != nil {
		return promo.Errorf(promo.CodeConfiguration, "store %q: %w", path, err).
			WithHint("the data directory must exist and be writable for this user")
	}
	return f.Close()
}

// writerDSN is the address of the one write connection.
func writerDSN(path string, maxPages int) string {
	q := pragmas()
	if maxPages > 0 {
		q.Add("_pragma", fmt.Sprintf("max_page_count(%d)", maxPages))
	}
	// 64 MiB: a long reader may let the log grow; it shrinks to this at the next checkpoint.
	q.Add("_pragma", "journal_size_limit(67108864)")
	q.Set("_txlock", "immediate")
	return address(path, q)
}

// readerDSN is the address of the read pool.
func readerDSN(path string) string {
	q := pragmas()
	q.Add("_pragma", "query_only(1)")
	return address(path, q)
}

func pragmas() url.Values {
	// 10 s: only a backup tool or a second process can hold the lock, and those are short.
	return url.Values{"_pragma": {"busy_timeout(10000)", "journal_mode(WAL)", "synchronous(NORMAL)", "foreign_keys(1)"}}
}

func address(path string, q url.Values) string {
	return (&url.URL{Scheme: "file", Path: path, RawQuery: q.Encode()}).String()
}

// Close waits for what is under way and closes the files.
func (s *Store) Close() error {
	return errors.Join(s.r.Close(), s.w.Close())
}

// Ping reports whether the store answers.
func (s *Store) Ping(ctx context.Context) error {
	var one int
	return trouble(s.r.QueryRowContext(ctx, "SELECT 1").Scan(&one))
}

// Subscribe returns a channel of what was altered, each event after its commit. It ends when ctx does.
func (s *Store) Subscribe(ctx context.Context) <-chan store.Event { return s.feed.Subscribe(ctx) }

// writeTx is a transaction that collects what to announce once it is committed.
type writeTx struct {
	*sql.Tx
	events []store.Event
}

func (t *writeTx) announce(kind, id string) {
	t.events = append(t.events, store.Event{Kind: kind, ID: id})
}

// exec runs a statement and returns the number of rows that it altered.
func (t *writeTx) exec(ctx context.Context, query string, args ...any) (int64, error) {
	res, err := t.ExecContext(ctx, query, args...)
	if err != nil {
		return 0, err
	}
	return res.RowsAffected()
}

// write runs f in the one write transaction: all of it is kept, or nothing.
func (s *Store) write(ctx context.Context, f func(tx *writeTx) error) error {
	tx, err := s.w.BeginTx(ctx, nil)
	if err != nil {
		return trouble(err)
	}
	t := &writeTx{Tx: tx}
	if err := f(t); err != nil {
		// A full disk may have rolled back already; the first error is the one that tells.
		_ = tx.Rollback()
		return trouble(err)
	}
	if err := tx.Commit(); err != nil {
		// SQLite leaves the transaction open when a commit meets a full disk.
		_ = tx.Rollback()
		return trouble(err)
	}
	s.feed.Publish(t.events...)
	return nil
}
