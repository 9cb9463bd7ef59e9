package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"fmt"

	"github.com/davit-cd/davit/internal/store"
)

const auditColumns = "seq, at, who, action, kind, subject, project, detail, prev, hash"

// AppendAudit adds an entry to the chain and returns it with Seq, At, Prev and Hash set.
func (s *Store) AppendAudit(ctx context.Context, e store.Entry) (store.Entry, error) {
	if err := bounded("audit entry of", e.Subject, e.Detail, store.MaxDocument); err != nil {
		return e, err
	}
	err := s.write(ctx, func(tx *writeTx) error {
		seq, prev, err := auditHead(ctx, tx)
		if err != nil {
			return err
		}
		e.Seq, e.At = seq+1, s.now().UTC()
		if err := e.Seal(prev); err != nil {
			return err
		}
		if _, err := tx.exec(ctx, "INSERT INTO audit ("+auditColumns+") VALUES (?,?,?,?,?,?,?,?,?,?)",
			e.Seq, nanos(e.At), e.Who, e.Action, e.Kind, e.Subject, e.Project, string(e.Detail), e.Prev, e.Hash); err != nil {
			return err
		}
		tx.announce(store.EventAudit, fmt.Sprint(e.Seq))
		_, err = tx.exec(ctx, "INSERT INTO audit_head (one, seq, hash) VALUES (1, ?, ?) ON CONFLICT (one) DO UPDATE SET seq = excluded.seq, hash = excluded.hash",
			e.Seq, e.Hash)
		return err
	})
	return e, err
}

func auditHead(ctx context.Context, q querier) (seq int64, hash string, err error) {
	err = q.QueryRowContext(ctx, "SELECT seq, hash FROM audit_head").Scan(&seq, &hash)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, "", nil
	}
	return seq, hash, err
}

// Audit lists entries, newest first.
func (s *Store) Audit(ctx context.Context, f store.AuditFilter) ([]store.Entry, error) {
	var w where
	w.eq("project", f.Project)
	w.eq("who", f.Who)
	w.eq("action", f.Action)
	w.eq("kind", f.Kind)
	w.eq("subject", f.Subject)
	if !f.Since.IsZero() {
		w.add("at >= ?", nanos(f.Since))
	}
	if !f.Until.IsZero() {
		w.add("at < ?", nanos(f.Until))
	}
	if f.Before != 0 {
		w.add("seq < ?", f.Before)
	}
	return list(ctx, s.r, scanEntry, "SELECT "+auditColumns+" FROM audit"+w.String()+" ORDER BY seq DESC LIMIT ?",
		append(w.args, store.Limit(f.Limit))...)
}

// VerifyAudit walks the whole chain and says where it breaks.
func (s *Store) VerifyAudit(ctx context.Context) (store.AuditCheck, error) {
	tx, err := s.r.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return store.AuditCheck{}, trouble(err)
	}
	defer tx.Rollback() //nolint:errcheck // only reads
	headSeq, headHash, err := auditHead(ctx, tx)
	if err != nil {
		return store.AuditCheck{}, trouble(err)
	}
	rows, err := tx.QueryContext(ctx, "SELECT "+auditColumns+" FROM audit ORDER BY seq")
	if err != nil {
		return store.AuditCheck{}, trouble(err)
	}
	defer rows.Close() //nolint:errcheck // Err below tells
	var check store.AuditCheck
	var last store.Entry
	for rows.Next() {
		e, err := scanEntry(rows)
		if err != nil {
			return check, trouble(err)
		}
		if reason := broken(last, e); reason != "" {
			check.BrokenAt, check.Reason = last.Seq+1, reason
			return check, nil
		}
		check.Entries++
		last = e
	}
	if last.Seq != headSeq || last.Hash != headHash {
		check.BrokenAt = last.Seq + 1
		check.Reason = fmt.Sprintf("the chain ends at entry %d, the last one written was %d", last.Seq, headSeq)
	}
	return check, trouble(rows.Err())
}

// broken says why e does not follow last, "" where it does.
func broken(last, e store.Entry) string {
	if e.Seq != last.Seq+1 {
		return fmt.Sprintf("entry %d is missing", last.Seq+1)
	}
	if e.Prev != last.Hash {
		return fmt.Sprintf("entry %d does not follow the one before it", e.Seq)
	}
	sealed := e
	if err := sealed.Seal(last.Hash); err != nil || sealed.Hash != e.Hash {
		return fmt.Sprintf("entry %d was altered", e.Seq)
	}
	return ""
}

func scanEntry(row scanner) (store.Entry, error) {
	var e store.Entry
	var at int64
	var detail string
	err := row.Scan(&e.Seq, &at, &e.Who, &e.Action, &e.Kind, &e.Subject, &e.Project, &detail, &e.Prev, &e.Hash)
	e.At = instant(at)
	if detail != "" {
		e.Detail = []byte(detail)
	}
	return e, err
}
