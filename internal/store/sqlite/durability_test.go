package sqlite_test

import (
	"bufio"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/pressly/goose/v3"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
	"github.com/davit-cd/davit/internal/store/migrations"
	"github.com/davit-cd/davit/internal/store/sqlite"
)

// childEnv makes the test binary a writer that its parent kills.
const childEnv = "DAVIT_STORE_TEST_CHILD"

func TestMain(m *testing.M) {
	if path := os.Getenv(childEnv); path != "" {
		err := writeForEver(path)
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// writeForEver prints the number of each entry after the store acknowledged it.
func writeForEver(path string) error {
	ctx := context.Background()
	s, err := sqlite.Open(ctx, sqlite.Options{Path: path})
	if err != nil {
		return err
	}
	for i := 1; ; i++ {
		p := promo.Promotion{ID: fmt.Sprint("shop/checkout/", i), Project: "shop", Pipeline: "checkout", Number: i, Attempt: 1, Phase: promo.PhaseRunning}
		if err := s.CreatePromotion(ctx, p, []byte("{}")); err != nil {
			return err
		}
		e, err := s.AppendAudit(ctx, store.Entry{Who: "ann", Action: "run", Subject: p.ID})
		if err != nil {
			return err
		}
		fmt.Println(e.Seq)
	}
}

func TestKill(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "davit.db")
	total := int64(0)
	for round := range 3 {
		cmd := exec.CommandContext(t.Context(), os.Args[0])
		cmd.Env = append(os.Environ(), childEnv+"="+path)
		out, err := cmd.StdoutPipe()
		check(t, err)
		check(t, cmd.Start())
		acknowledged := int64(0)
		lines := bufio.NewScanner(out)
		for lines.Scan() {
			if _, err := fmt.Sscan(lines.Text(), &acknowledged); err != nil {
				t.Fatal(err)
			}
			if acknowledged >= total+int64(20+round*7) {
				break
			}
		}
		check(t, cmd.Process.Kill())
		for lines.Scan() { // what was still acknowledged before it died
			if _, err := fmt.Sscan(lines.Text(), &acknowledged); err != nil {
				t.Fatal(err)
			}
		}
		_ = cmd.Wait() // killed

		s := open(t, sqlite.Options{Path: path})
		got, err := s.VerifyAudit(t.Context())
		check(t, err)
		if got.BrokenAt != 0 || got.Entries < acknowledged || acknowledged <= total {
			t.Fatalf("after the kill: %+v, acknowledged %d, before %d", got, acknowledged, total)
		}
		list, err := s.Audit(t.Context(), store.AuditFilter{Limit: store.MaxLimit})
		check(t, err)
		for _, e := range list {
			if _, err := s.Promotion(t.Context(), e.Subject); err != nil {
				t.Fatal(err)
			}
		}
		total = got.Entries
		check(t, s.Close())
	}
}

func TestReopen(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "davit.db")
	s := open(t, sqlite.Options{Path: path})
	key, err := s.ServerKey(t.Context(), "gateway")
	check(t, err)
	n, err := s.NextNumber(t.Context(), "shop", "checkout")
	check(t, err)
	check(t, s.Close())

	s = open(t, sqlite.Options{Path: path})
	defer s.Close() //nolint:errcheck // end of the test
	again, err := s.ServerKey(t.Context(), "gateway")
	check(t, err)
	next, err := s.NextNumber(t.Context(), "shop", "checkout")
	check(t, err)
	if string(again) != string(key) || next != n+1 {
		t.Fatalf("after opening again: same key %t, number %d after %d", string(again) == string(key), next, n)
	}
	info, err := os.Stat(path)
	check(t, err)
	if info.Mode().Perm() != 0o600 {
		t.Fatalf("mode %v, want the owner only", info.Mode())
	}
}

// raw opens the file beside the store, as a person with the sqlite3 program would.
func raw(t *testing.T, path string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", path)
	check(t, err)
	t.Cleanup(func() { check(t, db.Close()) })
	return db
}

func execute(t *testing.T, db *sql.DB, query string) {
	t.Helper()
	_, err := db.ExecContext(t.Context(), query)
	check(t, err)
}

func TestOlderSchemaIsMigrated(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "davit.db")
	db := raw(t, path)
	files, err := migrations.SQLite()
	check(t, err)
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	check(t, err)
	_, err = p.UpTo(t.Context(), 1)
	check(t, err)
	execute(t, db, "PRAGMA application_id = 1145132628")
	execute(t, db, "INSERT INTO meta (key, value) VALUES ('old', 'kept')")

	s := open(t, sqlite.Options{Path: path})
	defer s.Close() //nolint:errcheck // end of the test
	v, err := s.Meta(t.Context(), "old")
	check(t, err)
	if v != "kept" {
		t.Fatalf("value %q", v)
	}
	check(t, s.SaveForgeRepository(t.Context(), "deploy", []byte("{}"))) // of a later migration

	copied := path + ".schema-1"
	info, err := os.Stat(copied)
	check(t, err)
	var kept string
	check(t, raw(t, copied).QueryRowContext(t.Context(), "SELECT value FROM meta WHERE key = 'old'").Scan(&kept))
	if kept != "kept" || info.Mode().Perm() != 0o600 {
		t.Fatalf("the copy from before holds %q, mode %v", kept, info.Mode())
	}
}

func TestMigrationsGoDownAndUp(t *testing.T) {
	t.Parallel()
	db := raw(t, filepath.Join(t.TempDir(), "davit.db"))
	files, err := migrations.SQLite()
	check(t, err)
	p, err := goose.NewProvider(goose.DialectSQLite3, db, files)
	check(t, err)
	for range 2 {
		_, err = p.Up(t.Context())
		check(t, err)
		_, err = p.DownTo(t.Context(), 0)
		check(t, err)
	}
	var left int
	check(t, db.QueryRowContext(t.Context(), "SELECT count(*) FROM sqlite_schema WHERE name NOT LIKE 'goose%' AND name NOT LIKE 'sqlite%'").Scan(&left))
	if left != 0 {
		t.Fatalf("%d tables left after the way down", left)
	}
}

func TestRefusedFiles(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		reason  string
		prepare func(t *testing.T, path string)
		want    string
	}{
		"newer": {
			reason: "a newer Davit may keep what this one would destroy",
			prepare: func(t *testing.T, path string) {
				t.Helper()
				check(t, open(t, sqlite.Options{Path: path}).Close())
				execute(t, raw(t, path), "INSERT INTO goose_db_version (version_id, is_applied) VALUES (9999, 1)")
			},
			want: "written by a newer Davit",
		},
		"foreign": {
			reason:  "another program's tables are not ours to alter",
			prepare: func(t *testing.T, path string) { t.Helper(); execute(t, raw(t, path), "CREATE TABLE browser (x)") },
			want:    "another program's database",
		},
		"no database": {
			reason: "a file of text",
			prepare: func(t *testing.T, path string) {
				t.Helper()
				check(t, os.WriteFile(path, []byte(strings.Repeat("not a database ", 100)), 0o600))
			},
			want: "damaged or no database",
		},
		"no directory": {
			reason:  "the data directory is missing",
			prepare: func(t *testing.T, path string) { t.Helper(); check(t, os.Remove(filepath.Dir(path))) },
			want:    "must exist",
		},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "sub", "davit.db")
			check(t, os.Mkdir(filepath.Dir(path), 0o700))
			tc.prepare(t, path)
			before, _ := os.ReadFile(path)
			_, err := sqlite.Open(t.Context(), sqlite.Options{Path: path})
			if promo.CodeOf(err) != promo.CodeConfiguration || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Fatalf("error %v, want Configuration with %q: %s", err, tc.want, tc.reason)
			}
			if after, _ := os.ReadFile(path); tc.want != "must exist" && string(after) != string(before) {
				t.Fatal("the file was altered")
			}
		})
	}
}

func TestDiskFull(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "davit.db")
	s := open(t, sqlite.Options{Path: path, MaxPages: 120})
	acknowledged := int64(0)
	var full error
	for full == nil {
		_, err := s.AppendAudit(t.Context(), store.Entry{Who: "ann", Action: "fill", Subject: strings.Repeat("x", 3000)})
		if full = err; err == nil {
			acknowledged++
		}
		if acknowledged > 1000 {
			t.Fatal("the store never filled")
		}
	}
	var e *promo.Error
	if !errors.Is(full, store.ErrFull) || !errors.As(full, &e) || e.Code != promo.CodeInternal || !strings.Contains(e.Hint, "free space") {
		t.Fatalf("error %v", full)
	}
	got, err := s.VerifyAudit(t.Context())
	check(t, err)
	if got.BrokenAt != 0 || got.Entries != acknowledged {
		t.Fatalf("full store keeps %+v, acknowledged %d", got, acknowledged)
	}
	if _, err := s.PutBlob(t.Context(), "text/plain", make([]byte, 1<<20)); !errors.Is(err, store.ErrFull) {
		t.Fatalf("error %v, want full again", err)
	}
	check(t, s.Close())

	// With room again it goes on where it was.
	s = open(t, sqlite.Options{Path: path})
	defer s.Close() //nolint:errcheck // end of the test
	entry, err := s.AppendAudit(t.Context(), store.Entry{Who: "ann", Action: "after"})
	check(t, err)
	if entry.Seq != acknowledged+1 {
		t.Fatalf("entry %d after %d", entry.Seq, acknowledged)
	}
}

func TestAuditTampering(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		statement string
		brokenAt  int64
		want      string
	}{
		"altered":      {"UPDATE audit SET who = 'eve' WHERE seq = 3", 3, "altered"},
		"time altered": {"UPDATE audit SET at = at + 1 WHERE seq = 2", 2, "altered"},
		"cut out":      {"DELETE FROM audit WHERE seq = 3", 3, "missing"},
		"head cut":     {"DELETE FROM audit WHERE seq = 1", 1, "missing"},
		"tail cut":     {"DELETE FROM audit WHERE seq > 3", 4, "the last one written was 5"},
		"rehashed":     {"UPDATE audit SET hash = 'x' WHERE seq = 4", 4, "altered"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := filepath.Join(t.TempDir(), "davit.db")
			s := open(t, sqlite.Options{Path: path})
			defer s.Close() //nolint:errcheck // end of the test
			for range 5 {
				_, err := s.AppendAudit(t.Context(), store.Entry{Who: "ann", Action: "approve", Subject: "x"})
				check(t, err)
			}
			db := raw(t, path)
			if _, err := db.ExecContext(t.Context(), tc.statement); err == nil || !strings.Contains(err.Error(), "append-only") {
				t.Fatalf("error %v, want the trigger to refuse", err)
			}
			execute(t, db, "DROP TRIGGER audit_no_update")
			execute(t, db, "DROP TRIGGER audit_no_delete")
			execute(t, db, tc.statement)
			got, err := s.VerifyAudit(t.Context())
			check(t, err)
			if got.BrokenAt != tc.brokenAt || !strings.Contains(got.Reason, tc.want) {
				t.Fatalf("check %+v, want broken at %d: %s", got, tc.brokenAt, tc.want)
			}
		})
	}
}

// TestReadersDontWait holds the write lock and reads.
func TestReadersDontWait(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "davit.db")
	s := open(t, sqlite.Options{Path: path})
	defer s.Close() //nolint:errcheck // end of the test
	db := raw(t, path)
	conn, err := db.Conn(t.Context())
	check(t, err)
	defer conn.Close() //nolint:errcheck // end of the test
	_, err = conn.ExecContext(t.Context(), "BEGIN IMMEDIATE")
	check(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // less than the writer's patience of 10 s
	defer cancel()
	_, err = s.Promotions(ctx, store.PromotionFilter{})
	check(t, err)
	_, err = conn.ExecContext(t.Context(), "ROLLBACK")
	check(t, err)
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
