package temporal

import (
	"cmp"
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	"go.temporal.io/server/schema"
	sqliteschema "go.temporal.io/server/schema/sqlite"
	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/davit-cd/davit/internal/promo"
)

// Temporal checks no version of a SQLite schema and can only create it whole, so Davit keeps a stamp in a
// table of its own, in the same file, and applies what is newer than the stamp.
const stampTable = `CREATE TABLE IF NOT EXISTS davit_schema (component TEXT PRIMARY KEY, version TEXT NOT NULL)`

// component is one of the two schemas that share the file.
type component struct {
	name    string // folder below sqlite/v3 of Temporal's schema assets
	version string // what this program needs
}

func components() []component {
	return []component{{"temporal", sqliteschema.Version}, {"visibility", sqliteschema.VisibilityVersion}}
}

// prepareSchema creates or migrates the schema of file in one transaction; a crash leaves the file as it was.
func prepareSchema(ctx context.Context, file string) (err error) {
	dsn := "file:" + (&url.URL{Path: file}).EscapedPath() +
		"?mode=rwc&_pragma=busy_timeout=5000&_pragma=journal_mode=wal&_pragma=synchronous=full&_txlock=immediate"
	db, err := sql.Open("sqlite", dsn)
	if err != nil {
		return promo.Errorf(promo.CodeConfiguration, "open the Temporal database %q: %w", file, err)
	}
	defer func() { err = errors.Join(err, db.Close()) }()
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return promo.Errorf(promo.CodeConfiguration, "open the Temporal database %q: %w", file, err)
	}
	defer func() { _ = tx.Rollback() }() // does nothing after Commit
	for _, c := range components() {
		if err := c.prepare(ctx, tx, schema.Assets()); err != nil {
			return inFile(file, err)
		}
	}
	if err := tx.Commit(); err != nil {
		return inFile(file, err)
	}
	return nil
}

// inFile keeps the code and hint of an error and says which file it is about.
func inFile(file string, err error) error {
	out := promo.Errorf(promo.CodeOf(err), "schema of the Temporal database %q: %w", file, err)
	if e := (*promo.Error)(nil); errors.As(err, &e) {
		out = promo.Errorf(e.Code, "schema of the Temporal database %q: %s", file, e.Msg)
		out.Hint, out.Err = e.Hint, e.Err
	}
	return out
}

// prepare brings one component to the version this program needs and stamps it.
func (c component) prepare(ctx context.Context, tx *sql.Tx, assets fs.FS) error {
	have, err := c.stamp(ctx, tx)
	if err != nil {
		return err
	}
	switch order := compareVersions(have, c.version); {
	case have == "":
		err = c.create(ctx, tx, assets)
	case order > 0:
		return promo.Errorf(promo.CodeConfiguration, "%s schema %s is newer than this program's %s", c.name, have, c.version).
			WithHint("run the newer Davit that wrote it, or restore a backup made before the upgrade")
	case order < 0:
		err = c.migrate(ctx, tx, assets, have)
	default:
		return nil
	}
	if err != nil {
		return err
	}
	_, err = tx.ExecContext(ctx, `INSERT INTO davit_schema (component, version) VALUES (?, ?)
		ON CONFLICT (component) DO UPDATE SET version = excluded.version`, c.name, c.version)
	return err
}

// stamp returns the version of the component in the file, "" in an empty file.
func (c component) stamp(ctx context.Context, tx *sql.Tx) (string, error) {
	var tables, stamped int
	if err := tx.QueryRowContext(ctx, `SELECT count(*), count(*) FILTER (WHERE name = 'davit_schema')
		FROM sqlite_master WHERE type = 'table'`).Scan(&tables, &stamped); err != nil {
		return "", promo.Errorf(promo.CodeConfiguration, "not a database: %w", err)
	}
	if stamped == 0 && tables > 0 {
		return "", promo.Errorf(promo.CodeConfiguration, "%d tables and no version stamp: Davit did not make them", tables).
			WithHint("choose an empty data dir")
	}
	if _, err := tx.ExecContext(ctx, stampTable); err != nil {
		return "", err
	}
	var have string
	err := tx.QueryRowContext(ctx, `SELECT version FROM davit_schema WHERE component = ?`, c.name).Scan(&have)
	if err != nil && !errors.Is(err, sql.ErrNoRows) {
		return "", err
	}
	return have, nil
}

func (c component) create(ctx context.Context, tx *sql.Tx, assets fs.FS) error {
	return execFile(ctx, tx, assets, path.Join("sqlite/v3", c.name, "schema.sql"))
}

// migrate applies the steps newer than have, oldest first.
func (c component) migrate(ctx context.Context, tx *sql.Tx, assets fs.FS, have string) error {
	root := path.Join("sqlite/v3", c.name, "versioned")
	entries, err := fs.ReadDir(assets, root)
	if err != nil {
		return promo.Errorf(promo.CodeConfiguration, "no way from %s schema %s to %s: %w", c.name, have, c.version, err)
	}
	var versions []string
	for _, e := range entries {
		v := strings.TrimPrefix(e.Name(), "v")
		if compareVersions(v, have) > 0 && compareVersions(v, c.version) <= 0 {
			versions = append(versions, v)
		}
	}
	slices.SortFunc(versions, compareVersions)
	if len(versions) == 0 || versions[len(versions)-1] != c.version {
		return promo.Errorf(promo.CodeConfiguration, "no way from %s schema %s to %s: steps are %q", c.name, have, c.version, versions)
	}
	for _, v := range versions {
		if err := applyStep(ctx, tx, assets, path.Join(root, "v"+v)); err != nil {
			return err
		}
	}
	return nil
}

// applyStep runs the files that the manifest of one version names, in its order.
func applyStep(ctx context.Context, tx *sql.Tx, assets fs.FS, dir string) error {
	raw, err := fs.ReadFile(assets, path.Join(dir, "manifest.json"))
	if err != nil {
		return err
	}
	var manifest struct {
		Files []string `json:"SchemaUpdateCqlFiles"`
	}
	if err := json.Unmarshal(raw, &manifest); err != nil {
		return fmt.Errorf("%s/manifest.json: %w", dir, err)
	}
	for _, f := range manifest.Files {
		if err := execFile(ctx, tx, assets, path.Join(dir, f)); err != nil {
			return err
		}
	}
	return nil
}

func execFile(ctx context.Context, tx *sql.Tx, assets fs.FS, name string) error {
	script, err := fs.ReadFile(assets, name)
	if err != nil {
		return err
	}
	if _, err := tx.ExecContext(ctx, string(script)); err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	return nil
}

// compareVersions orders dotted numbers: 0.9 before 0.10.
func compareVersions(a, b string) int {
	return slices.CompareFunc(strings.Split(a, "."), strings.Split(b, "."), func(x, y string) int {
		m, errM := strconv.Atoi(x)
		n, errN := strconv.Atoi(y)
		if errM != nil || errN != nil {
			return strings.Compare(x, y)
		}
		return cmp.Compare(m, n)
	})
}
