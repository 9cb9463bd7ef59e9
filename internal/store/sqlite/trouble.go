package sqlite

import (
	"context"
	"errors"
	"fmt"

	"modernc.org/sqlite"
	sqlite3 "modernc.org/sqlite/lib"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

// primary cuts an extended result code down to the primary one.
const primary = 0xff

// trouble turns an error of the driver into the store's words. Errors that already speak them, and the end of
// the caller's context, pass through.
func trouble(err error) error {
	var known *promo.Error
	var driver *sqlite.Error
	switch {
	case err == nil, errors.As(err, &known), errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
		return err
	case !errors.As(err, &driver):
		return promo.Errorf(promo.CodeInternal, "store: %w", err)
	}
	if driver.Code() == sqlite3.SQLITE_IOERR_WRITE { // a quota or a limit of file sizes is told so
		return full(err)
	}
	switch driver.Code() & primary {
	case sqlite3.SQLITE_FULL:
		return full(err)
	case sqlite3.SQLITE_IOERR:
		return promo.Errorf(promo.CodeInternal, "store: %w", err).
			WithHint("reading or writing the data directory's disk went wrong; see the system's log, free space and try again")
	case sqlite3.SQLITE_READONLY, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_PERM:
		return promo.Errorf(promo.CodeInternal, "%w", fmt.Errorf("%w: %w", store.ErrReadOnly, err)).
			WithHint("make the data directory and its files writable for the user that runs Davit")
	case sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED:
		return promo.Errorf(promo.CodeInternal, "store: another process keeps the database locked: %w", err).
			WithHint("end other programs that have the file open, such as a backup")
	case sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB:
		return promo.Errorf(promo.CodeConfiguration, "store: the file is damaged or no database: %w", err).
			WithHint("restore the data directory from a backup")
	}
	return promo.Errorf(promo.CodeInternal, "store: %w", err)
}

func full(err error) error {
	return promo.Errorf(promo.CodeInternal, "%w", fmt.Errorf("%w: %w", store.ErrFull, err)).
		WithHint("free space on the disk of the data directory and try again; nothing that was acknowledged is lost")
}
