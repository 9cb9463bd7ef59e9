package gateway

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base64"
	"encoding/hex"
	"regexp"
	"strings"
	"sync"
	"time"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

const (
	// EnrolmentLife is how long an enrolment token can be used: a person carries it to the cluster by hand.
	EnrolmentLife = time.Hour
	// cacheLife bounds how long a look into the store is believed; with recheck it stays under a second.
	cacheLife = 300 * time.Millisecond
	// rotationGrace is how long a replaced credential still opens the door: calls under way carry it.
	rotationGrace = 30 * time.Second
	// The prefixes tell the two kinds of secret apart, for people and for secret scanners.
	credentialPrefix = "dvac"
	enrolmentPrefix  = "dvae"
)

// Agent is an agent whose credential was right.
type Agent struct {
	Name string
	// Projects that the agent was granted to; empty for all.
	Projects []string
}

// Agents knows who may come in. Refusals have the code Authentication; everything else is trouble that passes.
type Agents interface {
	// Authenticate returns the agent of this name if its credential has this hash (HashSecret).
	Authenticate(ctx context.Context, name, credentialHash string) (Agent, error)
	// Enroll uses an enrolment token up and gives its agent the credential with this hash (HashSecret). The
	// agent keeps its credential before it asks, so that an answer that was lost does no harm.
	Enroll(ctx context.Context, token promo.Secret, credentialHash string) (Agent, error)
	// Rotate replaces the credential of an authenticated agent.
	Rotate(ctx context.Context, name, oldHash, newHash string) error
	// Seen notes the version that an agent says it has.
	Seen(ctx context.Context, name, version string, capabilities []string) error
}

// Store keeps agents; absent ones are the error NotFound.
type Store interface {
	Agent(ctx context.Context, name string) (store.Agent, error)
	PutAgent(ctx context.Context, a store.Agent) error
	Agents(ctx context.Context) ([]store.Agent, error)
	DeleteAgent(ctx context.Context, name string) error
}

// Registry is Agents over a Store. Secrets are 256 random bits and only their SHA-256 is kept; with that much
// entropy a slow hash adds nothing.
type Registry struct {
	store Store
	now   func() time.Time
	mu    sync.Mutex // serialises read-modify-write of records, and guards the maps
	cache map[string]cached
	// before holds credentials that were replaced a moment ago, by name.
	before map[string]previous
}

type previous struct {
	hash  string
	until time.Time
}

type cached struct {
	record store.Agent
	until  time.Time
}

// NewRegistry returns a registry over s; now is the clock.
func NewRegistry(s Store, now func() time.Time) *Registry {
	return &Registry{store: s, now: now, cache: map[string]cached{}, before: map[string]previous{}}
}

// NewCredential makes a credential for the agent of this name. The agent makes its own; the server learns
// the hash first, and the secret only when it is used.
func NewCredential(name string) promo.Secret { return newSecret(credentialPrefix, name) }

func newSecret(prefix, name string) promo.Secret {
	var raw [32]byte
	_, _ = rand.Read(raw[:]) // never fails: the runtime ends the process instead
	return promo.Secret(prefix + "." + name + "." + base64.RawURLEncoding.EncodeToString(raw[:]))
}

// HashSecret returns the hex SHA-256 of a credential or token, the only form in which it is stored.
func HashSecret(s promo.Secret) string {
	sum := sha256.Sum256([]byte(s.Reveal()))
	return hex.EncodeToString(sum[:])
}

// AgentOf returns the name inside an enrolment token or credential, "" if it is neither. It proves nothing.
func AgentOf(s promo.Secret) string {
	for _, prefix := range []string{credentialPrefix, enrolmentPrefix} {
		if name, ok := nameIn(prefix, s); ok {
			return name
		}
	}
	return ""
}

func nameIn(prefix string, s promo.Secret) (string, bool) {
	const longest = 256 // a name of 63 and 43 characters of secret, with room
	parts := strings.Split(s.Reveal(), ".")
	if len(s) > longest || len(parts) != 3 || parts[0] != prefix || !validName(parts[1]) {
		return "", false
	}
	return parts[1], true
}

func validName(name string) bool {
	ok, err := regexp.MatchString(`^[a-z][a-z0-9-]{0,62}$`, name)
	return err == nil && ok
}

// Create returns an enrolment token for an agent, new or known. A known agent keeps its credential until the
// token is used; a revoked one is let in again by it. A nil projects leaves a known agent's grant as it is.
func (r *Registry) Create(ctx context.Context, name, by string, projects []string) (promo.Secret, time.Time, error) {
	if !validName(name) {
		return "", time.Time{}, promo.Errorf(promo.CodeConfiguration, "agent name %q", name).
			WithHint("a small letter, then up to 62 of a-z, 0-9 and -")
	}
	token := newSecret(enrolmentPrefix, name)
	until := r.now().Add(EnrolmentLife)
	err := r.update(ctx, name, func(a *store.Agent) error {
		if a.Name == "" {
			*a = store.Agent{Name: name, CreatedBy: by, CreatedAt: r.now()}
		}
		if projects != nil {
			a.Projects = projects
		}
		a.EnrolmentHash, a.EnrolmentUntil = HashSecret(token), until
		return nil
	})
	return token, until, err
}

// Revoke shuts an agent out at once, with its credential and any enrolment token.
func (r *Registry) Revoke(ctx context.Context, name string) error {
	return r.update(ctx, name, func(a *store.Agent) error {
		if a.Name == "" {
			return promo.Errorf(promo.CodeNotFound, "no agent %q", name)
		}
		a.RevokedAt, a.CredentialHash, a.EnrolmentHash = r.now(), "", ""
		delete(r.before, name)
		return nil
	})
}

// List returns all agents.
func (r *Registry) List(ctx context.Context) ([]store.Agent, error) { return r.store.Agents(ctx) }

// Authenticate implements Agents.
func (r *Registry) Authenticate(ctx context.Context, name, credentialHash string) (Agent, error) {
	a, before, err := r.lookup(ctx, name)
	if err != nil {
		return Agent{}, err
	}
	if !a.RevokedAt.IsZero() && a.CredentialHash == "" {
		return Agent{}, refused("agent %q was revoked at %s", name, a.RevokedAt.UTC().Format(time.RFC3339))
	}
	if !equalHash(a.CredentialHash, credentialHash) && !equalHash(before, credentialHash) {
		return Agent{}, refused("the credential of agent %q is wrong or was replaced", name)
	}
	return Agent{Name: a.Name, Projects: a.Projects}, nil
}

// Enroll implements Agents.
func (r *Registry) Enroll(ctx context.Context, token promo.Secret, credentialHash string) (Agent, error) {
	name, ok := nameIn(enrolmentPrefix, token)
	if !ok {
		return Agent{}, refused("the enrolment token is not one of Davit's")
	}
	if !validHash(credentialHash) {
		return Agent{}, promo.Errorf(promo.CodeConfiguration, "the credential's hash is not a SHA-256")
	}
	var out Agent
	err := r.update(ctx, name, func(a *store.Agent) error {
		if !equalHash(a.EnrolmentHash, HashSecret(token)) {
			return refused("the enrolment token of agent %q is wrong or was used", name)
		}
		if r.now().After(a.EnrolmentUntil) {
			return refused("the enrolment token of agent %q expired at %s", name, a.EnrolmentUntil.UTC().Format(time.RFC3339))
		}
		a.CredentialHash, a.EnrolmentHash, a.RevokedAt = credentialHash, "", time.Time{}
		delete(r.before, name)
		out = Agent{Name: a.Name, Projects: a.Projects}
		return nil
	})
	return out, err
}

// Rotate implements Agents. The old credential goes on for rotationGrace, for calls that are on their way.
func (r *Registry) Rotate(ctx context.Context, name, oldHash, newHash string) error {
	if !validHash(newHash) {
		return promo.Errorf(promo.CodeConfiguration, "the credential's hash is not a SHA-256")
	}
	return r.update(ctx, name, func(a *store.Agent) error {
		if !equalHash(a.CredentialHash, oldHash) {
			return refused("the credential of agent %q is wrong or was replaced", name)
		}
		a.CredentialHash = newHash
		r.before[name] = previous{hash: oldHash, until: r.now().Add(rotationGrace)}
		return nil
	})
}

// Seen implements Agents.
func (r *Registry) Seen(ctx context.Context, name, version string, capabilities []string) error {
	return r.update(ctx, name, func(a *store.Agent) error {
		if a.Name == "" {
			return promo.Errorf(promo.CodeNotFound, "no agent %q", name)
		}
		a.Version, a.Capabilities, a.LastSeenAt = version, capabilities, r.now()
		return nil
	})
}

// update reads, alters and writes one record; alter gets a zero record where there is none.
func (r *Registry) update(ctx context.Context, name string, alter func(*store.Agent) error) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	a, err := r.store.Agent(ctx, name)
	if err != nil && promo.CodeOf(err) != promo.CodeNotFound {
		return err
	}
	if err != nil {
		a = store.Agent{}
	}
	if err := alter(&a); err != nil {
		return err
	}
	delete(r.cache, name)
	return r.store.PutAgent(ctx, a)
}

// lookup returns the record of an agent, at most cacheLife old, and the hash of the credential before.
func (r *Registry) lookup(ctx context.Context, name string) (a store.Agent, before string, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.now()
	if p, ok := r.before[name]; ok && now.Before(p.until) {
		before = p.hash
	}
	if c, ok := r.cache[name]; ok && now.Before(c.until) {
		return c.record, before, nil
	}
	delete(r.cache, name)
	a, err = r.store.Agent(ctx, name)
	if promo.CodeOf(err) == promo.CodeNotFound && err != nil {
		return a, "", refused("there is no agent %q", name)
	}
	if err != nil {
		return a, "", err
	}
	r.cache[name] = cached{record: a, until: now.Add(cacheLife)} // only agents that exist: strangers can't grow it
	return a, before, nil
}

func refused(format string, args ...any) *promo.Error {
	return promo.Errorf(promo.CodeAuthentication, format, args...).
		WithHint("make a new enrolment token and give it to the agent")
}

// equalHash compares in constant time; an empty hash equals nothing.
func equalHash(have, want string) bool {
	return have != "" && subtle.ConstantTimeCompare([]byte(have), []byte(want)) == 1
}

func validHash(h string) bool {
	raw, err := hex.DecodeString(h)
	return err == nil && len(raw) == sha256.Size
}
