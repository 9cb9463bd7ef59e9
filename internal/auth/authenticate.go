package auth

import (
	"context"
	"net/http"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// HeaderAs names the demo user that a request of the command line acts as (`--as USER`). It counts in demo mode
// only; beside a token it counts where the token is an admin's, such as the machine's own, who may do all anyway.
const HeaderAs = "Davit-As"

// Identity is who sends a request. It is in the request's context.
type Identity struct {
	promo.Principal
	// Token bounds what may be done, where the request came with a token or a session begun with one.
	Token *Token
	// Demo marks a demo user: pages show that loudly.
	Demo bool
}

type identityKey struct{}

// WithIdentity returns a context that carries who sends the request.
func WithIdentity(ctx context.Context, id Identity) context.Context {
	return context.WithValue(ctx, identityKey{}, id)
}

// IdentityFrom returns who sends the request, or the zero Identity, who may nothing.
func IdentityFrom(ctx context.Context) Identity {
	id, _ := ctx.Value(identityKey{}).(Identity)
	return id
}

// Options configure an Authenticator.
type Options struct {
	// Source gives users and the tokens of the users file.
	Source DirectorySource
	// Tokens finds tokens made at run time; may be nil.
	Tokens TokenSource
	// Key signs cookies; at least 32 bytes, random, kept across restarts.
	Key []byte
	// Secure marks cookies for HTTPS only; set unless the server is reached over plain HTTP on loopback.
	Secure bool
	// Demo lets everyone in as a demo user, DemoDefault at first. See CheckListen.
	Demo bool
	Now  func() time.Time
}

// Authenticator says who sends a request. It is safe for concurrent use.
type Authenticator struct {
	source DirectorySource
	tokens TokenSource
	key    []byte
	secure bool
	demo   bool
	now    func() time.Time
}

// minKey is the least that a signature's key must have: the size of its hash.
const minKey = 32

// NewAuthenticator checks the options.
func NewAuthenticator(o Options) (*Authenticator, error) {
	if len(o.Key) < minKey {
		return nil, promo.Errorf(promo.CodeConfiguration, "the key that signs sessions has %d bytes", len(o.Key)).WithHint("use %d random bytes", minKey)
	}
	if o.Source == nil || o.Now == nil {
		return nil, promo.Errorf(promo.CodeInternal, "auth: no directory or no clock")
	}
	return &Authenticator{source: o.Source, tokens: o.Tokens, key: o.Key, secure: o.Secure, demo: o.Demo, now: o.Now}, nil
}

// Demo reports whether everyone is let in as a demo user.
func (a *Authenticator) Demo() bool { return a.demo }

// Authenticate says who sends the request: by its Authorization header, its session cookie, or, in demo mode, as
// the demo user chosen. The returned context carries the Identity and is what Authorize needs. What is given
// must be valid: a bad token is never passed over in favour of a cookie. Errors are promo.CodeAuthentication.
func (a *Authenticator) Authenticate(r *http.Request) (context.Context, promo.Principal, error) {
	ctx := r.Context()
	id, err := a.identify(ctx, r)
	if err != nil {
		return ctx, promo.Principal{}, err
	}
	return WithIdentity(ctx, id), id.Principal, nil
}

func (a *Authenticator) identify(ctx context.Context, r *http.Request) (Identity, error) {
	dir, err := a.source.Directory(ctx)
	if err != nil {
		return Identity{}, err
	}
	secret, given, err := credential(r)
	if err != nil {
		return Identity{}, err
	}
	if given {
		id, err := a.byToken(ctx, dir, HashToken(secret))
		if err != nil || r.Header.Get(HeaderAs) == "" {
			return id, err
		}
		return a.insteadOf(id, dir, r)
	}
	if a.demo {
		return a.demoIdentity(dir, r)
	}
	s, ok := a.session(r)
	if !ok {
		return Identity{}, promo.Errorf(promo.CodeAuthentication, "nobody is signed in").
			WithHint("send Authorization: Bearer TOKEN, or sign in with a token in the browser")
	}
	return a.byToken(ctx, dir, s.Token)
}

// Token says whose a token's secret is, for callers that don't come by this package's door: git, for example. The
// returned context carries the Identity. Errors are promo.CodeAuthentication.
func (a *Authenticator) Token(ctx context.Context, secret promo.Secret) (context.Context, promo.Principal, error) {
	dir, err := a.source.Directory(ctx)
	if err != nil {
		return ctx, promo.Principal{}, err
	}
	if secret == "" || len(secret) > maxCredential {
		return ctx, promo.Principal{}, unknownToken()
	}
	id, err := a.byToken(ctx, dir, HashToken(secret))
	if err != nil {
		return ctx, promo.Principal{}, err
	}
	return WithIdentity(ctx, id), id.Principal, nil
}

// byToken makes the identity of a token's user. Groups come from the directory: a token can't bring its own.
func (a *Authenticator) byToken(ctx context.Context, dir *Directory, hash string) (Identity, error) {
	t, err := a.find(ctx, dir, hash)
	if err != nil {
		return Identity{}, err
	}
	who, ok := dir.User(t.User)
	if !ok {
		who = promo.Principal{Name: t.User} // a machine: a name, no groups
	}
	if t.Project == "" && t.Role != "" {
		t.Project = AllProjects // as the store keeps it
	}
	return Identity{Principal: who, Token: &t}, nil
}

// insteadOf lets the holder of an admin's token act as a demo user. Another token is refused rather than its
// sender taken for somebody else than was asked for.
func (a *Authenticator) insteadOf(id Identity, dir *Directory, r *http.Request) (Identity, error) {
	switch {
	case !a.demo:
		return Identity{}, promo.Errorf(promo.CodeAuthentication, "nobody can act as %q here: this server has no demo users", quote(r.Header.Get(HeaderAs))).
			WithHint("leave --as away: the token says who you are")
	case id.Token.Role != RoleAdmin || id.Token.Project != AllProjects:
		return Identity{}, promo.Errorf(promo.CodeAuthentication, "token %q can't act as another user", id.Token.Name).
			WithHint("leave the token or --as away")
	}
	return a.demoIdentity(dir, r)
}

func (a *Authenticator) demoIdentity(dir *Directory, r *http.Request) (Identity, error) {
	name := DemoDefault
	if s, ok := a.session(r); ok && s.Demo != "" {
		name = s.Demo
	}
	if as := r.Header.Get(HeaderAs); as != "" {
		name = as
	}
	who, ok := dir.User(name)
	if !ok {
		return Identity{}, promo.Errorf(promo.CodeAuthentication, "there is no demo user %q", name).WithHint("the demo users are %s", userNames(dir))
	}
	return Identity{Principal: who, Demo: true}, nil
}

func userNames(dir *Directory) string {
	users := dir.Users()
	names := make([]string, len(users))
	for i, u := range users {
		names[i] = u.Name
	}
	return strings.Join(names, ", ")
}
