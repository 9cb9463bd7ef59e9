// Package migrations holds the store's schema as numbered SQL files, one folder a database. A file that has been
// released is never edited: what changes is added as the next number, and storetest runs against the result.
// It knows nothing of Go types; start reading at sqlite/00001_core.sql.
package migrations

import (
	"embed"
	"io/fs"
)

//go:embed sqlite/*.sql
var files embed.FS

// SQLite returns the migrations of the SQLite store.
func SQLite() (fs.FS, error) { return fs.Sub(files, "sqlite") }
