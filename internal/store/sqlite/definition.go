package sqlite

import (
	"context"
	"database/sql"
	"errors"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

const definitionColumns = "kind, project, name, file, line, source, hash, generation, updated_by, updated_at"

// ApplyDefinitions keeps all of the definitions or none and returns the generation, which grows with every apply
// that altered something. It is a Conflict when another apply came since expect (AnyGeneration: never). Hash,
// Generation, UpdatedBy and UpdatedAt are set here; a definition that is as it was keeps its own.
func (s *Store) ApplyDefinitions(ctx context.Context, defs []store.Definition, by string, expect int64) (int64, error) {
	var generation int64
	err := s.write(ctx, func(tx *writeTx) error {
		var err error
		if generation, err = expectGeneration(ctx, tx, expect); err != nil {
			return err
		}
		altered := false
		for _, d := range defs {
			d.Generation, d.UpdatedBy, d.UpdatedAt = generation+1, by, s.now()
			wrote, err := putDefinition(ctx, tx, d)
			if err != nil {
				return err
			}
			altered = altered || wrote
		}
		if !altered {
			return nil
		}
		generation++
		return setGeneration(ctx, tx, generation)
	})
	return generation, err
}

func putDefinition(ctx context.Context, tx *writeTx, d store.Definition) (bool, error) {
	if d.Kind == "" || d.Name == "" {
		return false, promo.Errorf(promo.CodeConfiguration, "a definition in %q has no kind or no name", d.File)
	}
	if err := bounded(d.Kind, d.Name, d.Source, store.MaxDocument); err != nil {
		return false, err
	}
	d.Hash = store.Digest(d.Source)
	n, err := tx.exec(ctx, `INSERT INTO definition (`+definitionColumns+`) VALUES (?,?,?,?,?,?,?,?,?,?)
		ON CONFLICT (kind, project, name) DO UPDATE SET file = excluded.file, line = excluded.line, source = excluded.source,
			hash = excluded.hash, generation = excluded.generation, updated_by = excluded.updated_by, updated_at = excluded.updated_at
		WHERE hash <> excluded.hash OR file <> excluded.file`,
		d.Kind, d.Project, d.Name, d.File, d.Line, notNil(d.Source), d.Hash, d.Generation, d.UpdatedBy, nanos(d.UpdatedAt))
	if n > 0 {
		tx.announce(store.EventDefinition, definitionID(d.Kind, d.Project, d.Name))
	}
	return n > 0, err
}

// notNil keeps an empty value from becoming NULL.
func notNil(b []byte) []byte {
	if b == nil {
		return []byte{}
	}
	return b
}

func definitionID(kind, project, name string) string { return kind + "/" + project + "/" + name }

// Definitions returns the definitions of a project, "" for all projects and the account, ordered by kind, project
// and name, and the generation they belong to.
func (s *Store) Definitions(ctx context.Context, project string) ([]store.Definition, int64, error) {
	tx, err := s.r.BeginTx(ctx, &sql.TxOptions{ReadOnly: true})
	if err != nil {
		return nil, 0, trouble(err)
	}
	defer tx.Rollback() //nolint:errcheck // only reads
	generation, err := readGeneration(ctx, tx)
	if err != nil {
		return nil, 0, err
	}
	var w where
	w.eq("project", project)
	defs, err := list(ctx, tx, scanDefinition,
		"SELECT "+definitionColumns+" FROM definition"+w.String()+" ORDER BY kind, project, name", w.args...)
	return defs, generation, err
}

// Definition returns one definition.
func (s *Store) Definition(ctx context.Context, kind, project, name string) (store.Definition, error) {
	return one(s.r.QueryRowContext(ctx, "SELECT "+definitionColumns+" FROM definition WHERE kind = ? AND project = ? AND name = ?",
		kind, project, name), scanDefinition, kind, name)
}

// DeleteDefinition removes a definition and returns the new generation. It is a Conflict when an apply came since
// expect (AnyGeneration: never).
func (s *Store) DeleteDefinition(ctx context.Context, kind, project, name string, expect int64) (int64, error) {
	var generation int64
	err := s.write(ctx, func(tx *writeTx) error {
		var err error
		if generation, err = expectGeneration(ctx, tx, expect); err != nil {
			return err
		}
		n, err := tx.exec(ctx, "DELETE FROM definition WHERE kind = ? AND project = ? AND name = ?", kind, project, name)
		if err != nil {
			return err
		}
		if n == 0 {
			return notFound(kind, name)
		}
		tx.announce(store.EventDefinition, definitionID(kind, project, name))
		generation++
		return setGeneration(ctx, tx, generation)
	})
	return generation, err
}

func scanDefinition(row scanner) (store.Definition, error) {
	var d store.Definition
	var at int64
	err := row.Scan(&d.Kind, &d.Project, &d.Name, &d.File, &d.Line, &d.Source, &d.Hash, &d.Generation, &d.UpdatedBy, &at)
	d.UpdatedAt = instant(at)
	return d, err
}

// generationCounter counts the applies.
const generationCounter = "definitions"

func expectGeneration(ctx context.Context, tx *writeTx, expect int64) (int64, error) {
	have, err := readGeneration(ctx, tx)
	if err != nil {
		return 0, err
	}
	if expect != store.AnyGeneration && expect != have {
		return have, promo.Errorf(promo.CodeConflict, "the definitions were altered meanwhile: generation is %d, not %d", have, expect).
			WithHint("read them again and apply again")
	}
	return have, nil
}

func readGeneration(ctx context.Context, q querier) (int64, error) {
	var n int64
	err := q.QueryRowContext(ctx, "SELECT value FROM counter WHERE name = ?", generationCounter).Scan(&n)
	if errors.Is(err, sql.ErrNoRows) {
		return 0, nil
	}
	return n, trouble(err)
}

func setGeneration(ctx context.Context, tx *writeTx, n int64) error {
	_, err := tx.exec(ctx, "INSERT INTO counter (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
		generationCounter, n)
	return err
}
