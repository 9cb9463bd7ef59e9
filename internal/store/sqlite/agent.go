package sqlite

import (
	"context"
	"errors"
	"time"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

const agentColumns = "name, credential_hash, enrolment_hash, enrolment_until, projects, capabilities, version, " +
	"created_by, created_at, revoked_at, last_seen_at"

// CreateAgent keeps a new agent; a name that exists is a Conflict, a revoked one's too.
func (s *Store) CreateAgent(ctx context.Context, a store.Agent) error {
	if a.CreatedAt.IsZero() {
		a.CreatedAt = s.now()
	}
	return s.write(ctx, func(tx *writeTx) error {
		n, err := tx.exec(ctx, "INSERT INTO agent ("+agentColumns+") VALUES (?,?,?,?,?,?,?,?,?,?,?) ON CONFLICT (name) DO NOTHING", agentValues(a)...)
		if err == nil && n == 0 {
			return promo.Errorf(promo.CodeConflict, "agent %q exists", a.Name).WithHint("names of agents are unique; delete it first")
		}
		tx.announce(store.EventAgent, a.Name)
		return err
	})
}

// PutAgent keeps an agent's whole record, in place of what was kept under its name. Who reads, alters and puts a
// record back serialises that; EnrolAgent, TouchAgent and RevokeAgent alter one in place.
func (s *Store) PutAgent(ctx context.Context, a store.Agent) error {
	if a.CreatedAt.IsZero() {
		a.CreatedAt = s.now()
	}
	return s.write(ctx, func(tx *writeTx) error {
		tx.announce(store.EventAgent, a.Name)
		_, err := tx.exec(ctx, "INSERT INTO agent ("+agentColumns+`) VALUES (?,?,?,?,?,?,?,?,?,?,?)
			ON CONFLICT (name) DO UPDATE SET credential_hash = excluded.credential_hash, enrolment_hash = excluded.enrolment_hash,
				enrolment_until = excluded.enrolment_until, projects = excluded.projects, capabilities = excluded.capabilities,
				version = excluded.version, created_by = excluded.created_by, created_at = excluded.created_at,
				revoked_at = excluded.revoked_at, last_seen_at = excluded.last_seen_at`, agentValues(a)...)
		return err
	})
}

func agentValues(a store.Agent) []any {
	return []any{
		a.Name, a.CredentialHash, a.EnrolmentHash, nanos(a.EnrolmentUntil), texts(a.Projects), texts(a.Capabilities), a.Version,
		a.CreatedBy, nanos(a.CreatedAt), nanos(a.RevokedAt), nanos(a.LastSeenAt),
	}
}

// SetEnrolment gives an agent a new enrolment token, for instance after the first one expired.
func (s *Store) SetEnrolment(ctx context.Context, name, enrolmentHash string, until time.Time) error {
	return s.alterAgent(ctx, name, "UPDATE agent SET enrolment_hash = ?, enrolment_until = ? WHERE name = ? AND revoked_at = 0",
		enrolmentHash, nanos(until), name)
}

// EnrolAgent exchanges an enrolment token, once, for a credential and returns the agent. A token that was used,
// has expired or never was is an Authentication error, which does not tell them apart.
func (s *Store) EnrolAgent(ctx context.Context, enrolmentHash, credentialHash string) (store.Agent, error) {
	var a store.Agent
	if enrolmentHash == "" || credentialHash == "" {
		return a, promo.Errorf(promo.CodeAuthentication, "no enrolment token")
	}
	err := s.write(ctx, func(tx *writeTx) error {
		agents, err := list(ctx, tx, scanAgent, `UPDATE agent SET credential_hash = ?, enrolment_hash = '', enrolment_until = 0
			WHERE enrolment_hash = ? AND enrolment_until > ? AND revoked_at = 0 RETURNING `+agentColumns,
			credentialHash, enrolmentHash, nanos(s.now()))
		if err != nil {
			return err
		}
		if len(agents) == 0 {
			return promo.Errorf(promo.CodeAuthentication, "the enrolment token is unknown, used or expired").
				WithHint("make a new one")
		}
		a = agents[0]
		tx.announce(store.EventAgent, a.Name)
		return nil
	})
	return a, err
}

// TouchAgent notes that an agent was seen, with its version and what it can do. Seen times are announced only
// when something else altered too.
func (s *Store) TouchAgent(ctx context.Context, name, version string, capabilities []string) error {
	return s.write(ctx, func(tx *writeTx) error {
		n, err := tx.exec(ctx, "UPDATE agent SET version = ?1, capabilities = ?2 WHERE name = ?3 AND (version <> ?1 OR capabilities <> ?2)",
			version, texts(capabilities), name)
		if err != nil {
			return err
		}
		if n > 0 {
			tx.announce(store.EventAgent, name)
		}
		n, err = tx.exec(ctx, "UPDATE agent SET last_seen_at = max(last_seen_at, ?) WHERE name = ?", nanos(s.now()), name)
		if err == nil && n == 0 {
			return notFound("agent", name)
		}
		return err
	})
}

// RevokeAgent makes an agent's credential and enrolment worthless. Its record stays.
func (s *Store) RevokeAgent(ctx context.Context, name string) error {
	return s.alterAgent(ctx, name, `UPDATE agent SET credential_hash = '', enrolment_hash = '', enrolment_until = 0,
		revoked_at = CASE revoked_at WHEN 0 THEN ? ELSE revoked_at END WHERE name = ?`, nanos(s.now()), name)
}

// DeleteAgent removes an agent, so that its name is free.
func (s *Store) DeleteAgent(ctx context.Context, name string) error {
	return s.alterAgent(ctx, name, "DELETE FROM agent WHERE name = ?", name)
}

func (s *Store) alterAgent(ctx context.Context, name, query string, args ...any) error {
	return s.write(ctx, func(tx *writeTx) error {
		n, err := tx.exec(ctx, query, args...)
		if err == nil && n == 0 {
			return notFound("agent", name)
		}
		tx.announce(store.EventAgent, name)
		return err
	})
}

// Agent returns an agent.
func (s *Store) Agent(ctx context.Context, name string) (store.Agent, error) {
	return one(s.r.QueryRowContext(ctx, "SELECT "+agentColumns+" FROM agent WHERE name = ?", name), scanAgent, "agent", name)
}

// AgentByCredential returns the agent that holds a credential. The comparison is of hashes, so its time tells nothing.
func (s *Store) AgentByCredential(ctx context.Context, credentialHash string) (store.Agent, error) {
	return one(s.r.QueryRowContext(ctx, "SELECT "+agentColumns+" FROM agent WHERE credential_hash = ? AND credential_hash <> ''", credentialHash),
		scanAgent, "agent with", "this credential")
}

// Agents lists agents by name.
func (s *Store) Agents(ctx context.Context) ([]store.Agent, error) {
	return list(ctx, s.r, scanAgent, "SELECT "+agentColumns+" FROM agent ORDER BY name")
}

func scanAgent(row scanner) (store.Agent, error) {
	var a store.Agent
	var until, created, revoked, seen int64
	var projects, capabilities string
	err := row.Scan(&a.Name, &a.CredentialHash, &a.EnrolmentHash, &until, &projects, &capabilities, &a.Version,
		&a.CreatedBy, &created, &revoked, &seen)
	if err != nil {
		return a, err
	}
	a.EnrolmentUntil, a.CreatedAt, a.RevokedAt, a.LastSeenAt = instant(until), instant(created), instant(revoked), instant(seen)
	return a, errors.Join(fromTexts(projects, &a.Projects), fromTexts(capabilities, &a.Capabilities))
}
