package engine

import (
	"context"
	"time"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

// AgentRegistry knows agents and lets them in.
type AgentRegistry interface {
	Create(ctx context.Context, name, by string, projects []string) (promo.Secret, time.Time, error)
	Revoke(ctx context.Context, name string) error
	List(ctx context.Context) ([]store.Agent, error)
}

// Agents are those that may knock at the gateway.
type Agents struct {
	*Engine
	Registry AgentRegistry
	// Gateway is where agents knock.
	Gateway string
}

// List returns the agents with their presence.
func (a Agents) List(ctx context.Context, _ promo.Principal) ([]api.Agent, error) {
	list, err := a.Registry.List(ctx)
	if err != nil {
		return nil, err
	}
	out := make([]api.Agent, 0, len(list))
	for _, g := range list {
		p, err := a.Fleet.Presence(ctx, g.Name)
		if err != nil {
			return nil, err
		}
		out = append(out, api.Agent{Name: g.Name, Connected: p.Connected, Since: p.Since, Version: g.Version, Revoked: !g.RevokedAt.IsZero()})
	}
	return out, nil
}

// Create returns an enrolment token for an agent, new or known.
func (a Agents) Create(ctx context.Context, who promo.Principal, req api.AgentRequest) (api.NewAgent, error) {
	token, until, err := a.Registry.Create(ctx, req.Name, who.Name, req.Projects)
	if err != nil {
		return api.NewAgent{}, err
	}
	return api.NewAgent{Name: req.Name, EnrolmentToken: token.Reveal(), Expires: until, Gateway: a.Gateway},
		a.audit(ctx, who, deed{"agent:create", "agent", req.Name, ""}, map[string]any{"projects": req.Projects})
}

// Revoke shuts an agent out at once.
func (a Agents) Revoke(ctx context.Context, who promo.Principal, name string) error {
	if err := a.Registry.Revoke(ctx, name); err != nil {
		return err
	}
	return a.audit(ctx, who, deed{"agent:revoke", "agent", name, ""}, nil)
}

// TokenStore keeps API tokens by hash.
type TokenStore interface {
	CreateToken(ctx context.Context, t store.Token) error
	Tokens(ctx context.Context, principal string) ([]store.Token, error)
	DeleteToken(ctx context.Context, principal, name string) error
}

// Tokens are the API tokens of people and machines.
type Tokens struct {
	*Engine
	Tokens TokenStore
}

// tokenLife is a token's life where none was asked for; maxTokenLife is the longest.
const (
	tokenLife    = 90 * 24 * time.Hour
	maxTokenLife = 366 * 24 * time.Hour
)

// List returns the caller's tokens.
func (t Tokens) List(ctx context.Context, who promo.Principal) ([]api.Token, error) {
	list, err := t.Tokens.Tokens(ctx, who.Name)
	out := make([]api.Token, 0, len(list))
	for _, k := range list {
		out = append(out, api.Token{Name: k.Name, Principal: k.Principal, Role: k.Role, Project: k.Project, CreatedAt: k.CreatedAt, ExpiresAt: k.ExpiresAt})
	}
	return out, err
}

// Create makes a token that acts as the caller with one role; its secret is shown once.
func (t Tokens) Create(ctx context.Context, who promo.Principal, req api.TokenRequest) (api.NewToken, error) {
	ttl := req.TTL
	if ttl <= 0 {
		ttl = tokenLife
	}
	if ttl > maxTokenLife {
		return api.NewToken{}, promo.Errorf(promo.CodeConfiguration, "a token lives at most a year")
	}
	known := false
	for _, r := range auth.Roles() {
		known = known || r == req.Role
	}
	if !known {
		return api.NewToken{}, promo.Errorf(promo.CodeConfiguration, "unknown role %q", req.Role).WithHint("viewer, developer, approver or admin")
	}
	secret, hash := auth.NewSecret()
	now := t.Now().UTC()
	k := store.Token{Hash: hash, Name: req.Name, Principal: who.Name, Role: req.Role, Project: req.Project, CreatedAt: now, ExpiresAt: now.Add(ttl)}
	if err := t.Tokens.CreateToken(ctx, k); err != nil {
		return api.NewToken{}, err
	}
	return api.NewToken{Name: req.Name, Token: secret.Reveal(), Expires: k.ExpiresAt},
		t.audit(ctx, who, deed{"token:create", "token", req.Name, req.Project}, map[string]any{"role": req.Role})
}

// Revoke takes a token of the caller's away.
func (t Tokens) Revoke(ctx context.Context, who promo.Principal, name string) error {
	if err := t.Tokens.DeleteToken(ctx, who.Name, name); err != nil {
		return err
	}
	return t.audit(ctx, who, deed{"token:revoke", "token", name, ""}, nil)
}
