package app

import (
	"context"
	"crypto/subtle"
	"strings"
	"sync"
	"time"

	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/catalog"
	"github.com/davit-cd/davit/internal/forge/local"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/internal/store"
	"github.com/davit-cd/davit/internal/store/sqlite"
)

// tokens finds tokens that were made at run time.
type tokens struct{ store *sqlite.Store }

func (t tokens) TokenByHash(ctx context.Context, hash string) (auth.Token, error) {
	k, err := t.store.TokenByHash(ctx, hash)
	if err != nil {
		return auth.Token{}, err
	}
	project := k.Project
	if project == "" {
		project = auth.AllProjects
	}
	return auth.Token{Hash: k.Hash, Name: k.Name, User: k.Principal, Role: k.Role, Project: project, Expires: k.ExpiresAt}, nil
}

// cliToken is the name of the token that `davit up` makes anew at each start.
const cliToken = "this-machine"

func ownToken(hash string) store.Token {
	return store.Token{Hash: hash, Name: cliToken, Principal: auth.DemoAdmin, Role: auth.RoleAdmin, CreatedAt: time.Now().UTC()}
}

// owners says who started a run: developers may retry and abort their own.
type owners struct{ store *sqlite.Store }

func (o owners) Owner(ctx context.Context, on auth.Resource) (string, error) {
	if on.Kind != "promotion" {
		return "", nil
	}
	p, err := o.store.Promotion(ctx, on.Project+"/"+on.Name)
	if promo.CodeOf(err) == promo.CodeNotFound && err != nil {
		return "", nil //nolint:nilerr // what is not there is nobody's
	}
	return p.TriggeredBy, err
}

// people is who there is: the users file (or the demo's users), and what Role and RoleBinding definitions add. It
// follows what is applied: the catalog knows when that changes.
type people struct {
	base    *auth.Directory
	catalog *catalog.Catalog

	mu   sync.Mutex
	from *spec.Definitions // what merged was made of
	all  *auth.Directory
}

// Directory returns the directory of the moment.
func (p *people) Directory(ctx context.Context) (*auth.Directory, error) {
	v, err := p.catalog.View(ctx)
	if err != nil {
		return nil, err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.all == nil || p.from != v.Defs {
		bindings, roles := declared(v.Defs)
		p.all, p.from = p.base.With(bindings, roles), v.Defs
	}
	return p.all, nil
}

// declared reads Roles and RoleBindings. A declared role is called "<project>/<name>", so that projects can't give
// meaning to each other's roles, and binds in its own project only.
func declared(defs *spec.Definitions) ([]auth.Binding, map[string]auth.Role) {
	roles := map[string]auth.Role{}
	for _, doc := range defs.Documents(spec.KindRole) {
		if s, ok := doc.Spec.(*spec.RoleSpec); ok {
			roles[doc.ID()] = auth.Role{Actions: s.Permissions}
		}
	}
	var bindings []auth.Binding
	for _, doc := range defs.Documents(spec.KindRoleBinding) {
		s, ok := doc.Spec.(*spec.RoleBindingSpec)
		if !ok {
			continue
		}
		role, project := s.Role, doc.Metadata.Project
		if _, ok := roles[project+"/"+role]; ok {
			role = project + "/" + role
		}
		bindings = append(bindings, auth.Binding{Role: role, Project: project, Users: s.Users, Groups: s.Groups})
	}
	return bindings, roles
}

// openPeople makes the one authenticator and the one authorizer.
func (a *App) openPeople(ctx context.Context) error {
	base, demo := auth.DemoDirectory(), true
	if a.o.Users != "" {
		var err error
		if base, err = auth.ReadUsers(a.o.Users); err != nil {
			return err
		}
		demo = false
	}
	source := &people{base: base, catalog: a.catalog}
	key, err := a.store.ServerKey(ctx, "session")
	if err != nil {
		return err
	}
	a.auth, err = auth.NewAuthenticator(auth.Options{
		Source: source, Tokens: tokens{a.store}, Key: key, Demo: demo, Secure: strings.HasPrefix(a.url, "https:"), Now: time.Now,
	})
	if err != nil {
		return err
	}
	a.authz, err = auth.NewAuthorizer(ctx, source, owners{a.store})
	if err != nil {
		return err
	}
	a.engine.Authz = a.authz
	return a.ownToken(ctx, demo)
}

// ownToken makes the token by which the command line of this machine is admin. A server with real users has none:
// what an earlier demo left is taken away.
func (a *App) ownToken(ctx context.Context, demo bool) error { //nolint:revive // demo is a fact about the server
	if err := a.store.DeleteToken(ctx, auth.DemoAdmin, cliToken); err != nil && promo.CodeOf(err) != promo.CodeNotFound {
		return err
	}
	if !demo {
		return nil
	}
	secret, hash := auth.NewSecret()
	a.token = secret
	return a.store.CreateToken(ctx, ownToken(hash))
}

// anonymous is somebody who reads a demo's repositories without credentials.
const anonymous = "anonymous"

// forgeAccess says what somebody may do with a repository of the local forge: the authorizer says so. Davit itself
// has a secret. A token comes as the password; the demo's people have none and name themselves.
func (a *App) forgeAccess(own promo.Secret) func(context.Context, string, string, string) (local.Access, error) {
	return func(ctx context.Context, user, password, repository string) (local.Access, error) {
		if user == forgeUser {
			if subtle.ConstantTimeCompare([]byte(password), []byte(own.Reveal())) != 1 {
				return local.Access{}, promo.Errorf(promo.CodeAuthentication, "wrong password of user %q", user)
			}
			return local.Access{User: promo.Principal{Name: forgeUser, Email: "davit@example.com"}, Read: true, Push: true}, nil
		}
		ctx, who, err := a.pusher(ctx, user, password)
		if err != nil {
			return local.Access{}, err
		}
		read, err := a.mayInRepository(ctx, who, auth.RepositoryRead, repository)
		if err != nil {
			return local.Access{}, err
		}
		push, err := a.mayInRepository(ctx, who, auth.RepositoryWrite, repository)
		if who.Name == anonymous {
			who = promo.Principal{} // git asks for credentials where this one's rights end
		}
		return local.Access{User: who, Read: read, Push: push}, err
	}
}

// pusher says who comes with these credentials.
func (a *App) pusher(ctx context.Context, user, password string) (context.Context, promo.Principal, error) {
	if !a.auth.Demo() || strings.HasPrefix(password, auth.TokenPrefix) {
		return a.auth.Token(ctx, promo.Secret(password))
	}
	if who, ok := auth.DemoDirectory().User(user); ok {
		return ctx, who, nil
	}
	who := promo.Principal{Name: anonymous}
	return auth.WithIdentity(ctx, auth.Identity{
		Principal: who, Demo: true, Token: &auth.Token{Name: "demo", User: who.Name, Role: auth.RoleViewer, Project: auth.AllProjects},
	}), who, nil
}

// mayInRepository asks for the permission in the projects that declare the repository, and on the server.
func (a *App) mayInRepository(ctx context.Context, who promo.Principal, action auth.Action, repository string) (bool, error) {
	v, err := a.catalog.View(ctx)
	if err != nil {
		return false, err
	}
	projects := []string{""}
	for _, doc := range v.Defs.Documents(spec.KindRepository) {
		if s, ok := doc.Spec.(*spec.RepositorySpec); ok && doc.Metadata.Name == repository && s.Provider == "local" {
			projects = append(projects, doc.Metadata.Project)
		}
	}
	for _, project := range projects {
		err := a.authz.Authorize(ctx, who, action, auth.Resource{Kind: "repository", Project: project, Name: repository})
		if err == nil || promo.CodeOf(err) != promo.CodeAuthorization {
			return err == nil, err
		}
	}
	return false, nil
}

// asDemo is the admin that `davit up --demo` loads the example as, whoever else there is.
func asDemo(ctx context.Context) (context.Context, promo.Principal) {
	admin, _ := auth.DemoDirectory().User(auth.DemoAdmin)
	return auth.WithIdentity(ctx, auth.Identity{
		Principal: admin, Token: &auth.Token{Name: "davit up --demo", User: admin.Name, Role: auth.RoleAdmin, Project: auth.AllProjects},
	}), admin
}
