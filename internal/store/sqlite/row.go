package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

// scanner is a row, be it the only one or one of many.
type scanner interface{ Scan(dest ...any) error }

// querier is a transaction or the read pool.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
	QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row
}

// list reads every row with scan.
func list[T any](ctx context.Context, q querier, scan func(scanner) (T, error), query string, args ...any) ([]T, error) {
	rows, err := q.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, trouble(err)
	}
	defer rows.Close() //nolint:errcheck // Err below tells
	out := []T{}
	for rows.Next() {
		v, err := scan(rows)
		if err != nil {
			return nil, trouble(err)
		}
		out = append(out, v)
	}
	return out, trouble(rows.Err())
}

// one reads the only row; no row is NotFound, told by what and name.
func one[T any](row *sql.Row, scan func(scanner) (T, error), what, name string) (T, error) {
	v, err := scan(row)
	if errors.Is(err, sql.ErrNoRows) {
		var zero T
		return zero, notFound(what, name)
	}
	return v, trouble(err)
}

func notFound(what, name string) error {
	return promo.Errorf(promo.CodeNotFound, "no %s %q", what, name)
}

// document scans a row of one JSON column.
func document[T any](row scanner) (T, error) {
	var v T
	var doc []byte
	if err := row.Scan(&doc); err != nil {
		return v, err
	}
	return v, json.Unmarshal(doc, &v)
}

// bytes scans a row of one column of bytes.
func bytes(row scanner) ([]byte, error) {
	var b []byte
	return b, row.Scan(&b)
}

// encode returns v as JSON, if the store takes one that large.
func encode(what, name string, v any) ([]byte, error) {
	b, err := json.Marshal(v)
	if err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "%s %q: %w", what, name, err)
	}
	return b, bounded(what, name, b, store.MaxDocument)
}

func bounded(what, name string, b []byte, limit int) error { //nolint:unparam // MaxDocument and MaxBlob are two bounds that happen to be equal
	if len(b) > limit {
		return promo.Errorf(promo.CodeConfiguration, "%s %q has %d bytes, more than the %d the store takes", what, name, len(b), limit)
	}
	return nil
}

// where collects conditions of a query.
type where struct {
	conds []string
	args  []any
}

// eq adds a condition unless the value is empty.
func (w *where) eq(column, value string) {
	if value != "" {
		w.add(column+" = ?", value)
	}
}

func (w *where) add(cond string, args ...any) {
	w.conds = append(w.conds, cond)
	w.args = append(w.args, args...)
}

func (w *where) String() string {
	if len(w.conds) == 0 {
		return ""
	}
	return " WHERE " + strings.Join(w.conds, " AND ")
}

// nanos and instant turn a time into its column and back; the zero time is 0.
func nanos(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixNano()
}

func instant(n int64) time.Time {
	if n == 0 {
		return time.Time{}
	}
	return time.Unix(0, n).UTC()
}

// texts and fromTexts turn a list into its column and back.
func texts(ss []string) string {
	if len(ss) == 0 {
		return "[]"
	}
	b, _ := json.Marshal(ss) //nolint:errchkjson // strings always encode
	return string(b)
}

func fromTexts(column string, into *[]string) error {
	if column == "[]" {
		return nil
	}
	return json.Unmarshal([]byte(column), into)
}
