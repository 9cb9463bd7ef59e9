package temporal

import (
	"database/sql"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	sqliteschema "go.temporal.io/server/schema/sqlite"

	"github.com/davit-cd/davit/internal/promo"
)

// makeOlder makes a database as it was at schema 0.9, before two tables and their indexes were added.
func makeOlder(t *testing.T, file string) {
	t.Helper()
	if err := prepareSchema(t.Context(), file); err != nil {
		t.Fatal(err)
	}
	execute(t, openDB(t, file), `DROP TABLE tasks_v2; DROP TABLE task_queues_v2; DROP TABLE current_chasm_executions;
		UPDATE davit_schema SET version = '0.9' WHERE component = 'temporal'`)
}

func execute(t *testing.T, db *sql.DB, script string) {
	t.Helper()
	if _, err := db.ExecContext(t.Context(), script); err != nil {
		t.Fatal(err)
	}
}

// objects returns the definition of everything in the schema by name.
func objects(t *testing.T, file string) map[string]bool {
	t.Helper()
	rows, err := openDB(t, file).QueryContext(t.Context(), `SELECT type || ' ' || name FROM sqlite_master`)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = rows.Close() }()
	out := map[string]bool{}
	for rows.Next() {
		var name string
		if err := rows.Scan(&name); err != nil {
			t.Fatal(err)
		}
		out[name] = true
	}
	if err := rows.Err(); err != nil {
		t.Fatal(err)
	}
	return out
}

func stamps(t *testing.T, file string) map[string]string {
	t.Helper()
	db, out := openDB(t, file), map[string]string{}
	for _, c := range components() {
		var v string
		if err := db.QueryRowContext(t.Context(), `SELECT version FROM davit_schema WHERE component = ?`, c.name).Scan(&v); err != nil {
			t.Fatal(err)
		}
		out[c.name] = v
	}
	return out
}

func TestMigrateEqualsCreate(t *testing.T) {
	t.Parallel()
	fresh, older := filepath.Join(t.TempDir(), "fresh.db"), filepath.Join(t.TempDir(), "older.db")
	if err := prepareSchema(t.Context(), fresh); err != nil {
		t.Fatal(err)
	}
	makeOlder(t, older)
	for range 2 { // the second finds nothing to do
		if err := prepareSchema(t.Context(), older); err != nil {
			t.Fatal(err)
		}
	}
	if diff := cmp.Diff(objects(t, fresh), objects(t, older)); diff != "" {
		t.Errorf("migrated differs from fresh (-fresh +migrated):\n%s", diff)
	}
	want := map[string]string{"temporal": sqliteschema.Version, "visibility": sqliteschema.VisibilityVersion}
	if diff := cmp.Diff(want, stamps(t, older)); diff != "" {
		t.Errorf("stamps (-want +got):\n%s", diff)
	}
}

func TestPrepareSchemaRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		script string
		want   string
	}{
		"Newer": {
			"an older server must not write into a newer schema",
			`UPDATE davit_schema SET version = '0.12' WHERE component = 'temporal'`, "temporal schema 0.12 is newer than this program's 0.11",
		},
		"NewerVisibility": {
			"the same for the other schema in the file",
			`UPDATE davit_schema SET version = '1.0' WHERE component = 'visibility'`, "visibility schema 1.0 is newer",
		},
		"NoWay": {
			"there are no steps for visibility yet, so none may be skipped silently",
			`UPDATE davit_schema SET version = '0.0' WHERE component = 'visibility'`, "no way from visibility schema 0.0 to 0.1",
		},
		"Foreign": {
			"somebody else's database is left alone",
			`DROP TABLE davit_schema`, "no version stamp",
		},
		"BrokenStep": {
			"a step that fails takes the earlier ones back",
			`DROP TABLE tasks_v2; DROP TABLE task_queues_v2; UPDATE davit_schema SET version = '0.9' WHERE component = 'temporal'`,
			"current_chasm_executions.sql",
		},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "t.db")
			if err := prepareSchema(t.Context(), file); err != nil {
				t.Fatal(err)
			}
			execute(t, openDB(t, file), tc.script)
			before := objects(t, file)
			err := prepareSchema(t.Context(), file)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want %q", tc.reason, err, tc.want)
			}
			if code := promo.CodeOf(err); name != "BrokenStep" && code != promo.CodeConfiguration {
				t.Errorf("%s: code %s", tc.reason, code)
			}
			if diff := cmp.Diff(before, objects(t, file)); diff != "" {
				t.Errorf("%s: the refused database changed:\n%s", tc.reason, diff)
			}
		})
	}
}

func TestCompareVersions(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		a, b string
		want int
	}{{"0.9", "0.10", -1}, {"0.11", "0.11", 0}, {"1.0", "0.11", 1}, {"", "0.1", -1}, {"0.1", "0.1.1", -1}} {
		if got := compareVersions(tc.a, tc.b); got != tc.want {
			t.Errorf("compareVersions(%q, %q) = %d, want %d", tc.a, tc.b, got, tc.want)
		}
	}
}
