package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net/url"
	"os"

	"github.com/pressly/goose/v3"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store/migrations"
)

// applicationID marks the file as ours ("DAVT"), so that another program's database is never migrated.
const applicationID = 0x44415654

// migrate brings the schema up to date, each migration in a transaction of its own.
func migrate(ctx context.Context, db *sql.DB, path string, log *slog.Logger) error {
	p, err := provider(db)
	if err != nil {
		return err
	}
	have, known, err := p.GetVersions(ctx)
	if err != nil {
		return trouble(err)
	}
	if have > known {
		return promo.Errorf(promo.CodeConfiguration, "store %q was written by a newer Davit: its schema is %d, this one knows %d",
			path, have, known).WithHint("run the newer Davit, or restore a backup from before the upgrade")
	}
	if _, err := db.ExecContext(ctx, fmt.Sprintf("PRAGMA application_id = %d", applicationID)); err != nil {
		return trouble(err)
	}
	if have > 0 && have < known {
		if err := backup(ctx, db, fmt.Sprintf("%s.schema-%d", path, have)); err != nil {
			return err
		}
	}
	results, err := p.Up(ctx)
	if err != nil {
		if partial, ok := errors.AsType[*goose.PartialError](err); ok {
			err = fmt.Errorf("migration %d: %w", partial.Failed.Source.Version, partial.Err)
		}
		return trouble(err)
	}
	if len(results) > 0 && have > 0 {
		log.InfoContext(ctx, "store migrated", "path", path, "from", have, "to", known)
	}
	return nil
}

// backup copies the database as it is before a migration, for the way back to the older Davit. A copy of the same
// schema that is there already, of an upgrade that was cut off, is made anew.
func backup(ctx context.Context, db *sql.DB, to string) error {
	if err := os.Remove(to); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return promo.Errorf(promo.CodeConfiguration, "store: copy before the migration: %w", err)
	}
	if err := touch(to); err != nil {
		return err
	}
	_, err := db.ExecContext(ctx, "VACUUM INTO ?", to)
	return trouble(err)
}

// inspect refuses a database that another program made, without altering it.
func inspect(ctx context.Context, path string) error {
	// Without WAL mode, which would be written into the file.
	db, err := sql.Open("sqlite", address(path, url.Values{"_pragma": {"busy_timeout(10000)", "query_only(1)"}}))
	if err != nil {
		return trouble(err)
	}
	defer db.Close() //nolint:errcheck // only reads
	var id, tables int64
	if err := db.QueryRowContext(ctx, "PRAGMA application_id").Scan(&id); err != nil {
		return trouble(err)
	}
	if id == applicationID {
		return nil
	}
	if err := db.QueryRowContext(ctx, "SELECT count(*) FROM sqlite_schema").Scan(&tables); err != nil {
		return trouble(err)
	}
	if id != 0 || tables > 0 {
		return promo.Errorf(promo.CodeConfiguration, "%q is another program's database", path).
			WithHint("name a new file; Davit makes it")
	}
	return nil
}

func provider(db *sql.DB) (*goose.Provider, error) {
	files, err := migrations.SQLite()
	if err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "store migrations: %w", err)
	}
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files, goose.WithDisableGlobalRegistry(true))
	if err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "store migrations: %w", err)
	}
	return p, nil
}
