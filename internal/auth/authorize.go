package auth

import (
	"context"
	"io/fs"
	"strings"

	"github.com/davit-cd/davit/internal/policy"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/policies"
)

// Resource is what a request is about. Project is empty for what belongs to the server. Owner is who started it,
// where that is known; otherwise Owners is asked if it matters.
type Resource struct {
	Kind    string `json:"kind"`
	Project string `json:"project"`
	Name    string `json:"name"`
	Owner   string `json:"owner,omitempty"`
}

// Owners says who started a thing, for permissions that reach only what is one's own.
type Owners interface {
	// Owner returns a user's name, or "" where the resource has no owner or does not exist.
	Owner(ctx context.Context, on Resource) (string, error)
}

// Authorizer is the one authorisation call. It is safe for concurrent use.
type Authorizer struct {
	source DirectorySource
	owners Owners
	allow  *policy.Query // asked at every request
	why    *policy.Query // asked after a refusal
}

// NewAuthorizer compiles policies/access. owners may be nil: then only Resource.Owner counts.
func NewAuthorizer(ctx context.Context, source DirectorySource, owners Owners) (*Authorizer, error) {
	modules, err := accessModules()
	if err != nil {
		return nil, err
	}
	allow, err := policy.NewQuery(ctx, "data.davit.access.allow", modules)
	if err != nil {
		return nil, err
	}
	why, err := policy.NewQuery(ctx, "data.davit.access.decision", modules)
	if err != nil {
		return nil, err
	}
	return &Authorizer{source: source, owners: owners, allow: allow, why: why}, nil
}

func accessModules() ([]policy.Source, error) {
	files := policies.FS()
	names, err := fs.Glob(files, "access/*.rego")
	if err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "access policies: %w", err)
	}
	var out []policy.Source
	for _, name := range names {
		if strings.HasSuffix(name, "_test.rego") {
			continue
		}
		raw, err := fs.ReadFile(files, name)
		if err != nil {
			return nil, promo.Errorf(promo.CodeInternal, "access policies: %w", err)
		}
		out = append(out, policy.Source{Name: name, Rego: string(raw)})
	}
	return out, nil
}

// answer is data.davit.access.decision.
type answer struct {
	Allow  bool     `json:"allow"`
	Held   []string `json:"held"`
	Needed []string `json:"needed"`
}

// Authorize returns nil where who may do action on the resource. A refusal is promo.CodeAuthorization and says
// which permission is missing and which roles have it. A token's bounds come with ctx (see Identity).
func (a *Authorizer) Authorize(ctx context.Context, who promo.Principal, action Action, on Resource) error {
	dir, err := a.source.Directory(ctx)
	if err != nil {
		return err
	}
	in := input(ctx, dir, who, action, on)
	var allowed bool
	if err := a.allow.Ask(ctx, in, &allowed); err != nil || allowed {
		return err
	}
	if on.Owner == "" && on.Name != "" && a.owners != nil {
		if on.Owner, err = a.owners.Owner(ctx, on); err != nil {
			return err
		}
		in = input(ctx, dir, who, action, on)
	}
	var ans answer
	if err := a.why.Ask(ctx, in, &ans); err != nil || ans.Allow {
		return err
	}
	return refusal(ctx, who, action, on, ans)
}

// input gives the document of policies/access as the maps and lists that OPA takes without a detour over JSON
// text, because this runs at every request. A token that has a role has that one, not those of its user.
func input(ctx context.Context, dir *Directory, who promo.Principal, action Action, on Resource) map[string]any {
	bound := dir.bindingsOf(who)
	if t := IdentityFrom(ctx).Token; t != nil && t.Role != "" {
		bound = []Binding{{Role: t.Role, Project: t.Project, Users: []string{who.Name}, Groups: []string{}}}
	}
	bindings := make([]any, len(bound))
	for i, b := range bound {
		bindings[i] = map[string]any{"role": b.Role, "project": b.Project, "users": b.Users, "groups": b.Groups}
	}
	roles := make(map[string]any, len(dir.roles))
	for name, r := range dir.roles {
		roles[name] = map[string]any{"actions": orNone(r.Actions), "own": orNone(r.Own)}
	}
	resource := map[string]any{"kind": on.Kind, "project": on.Project, "name": on.Name}
	if on.Owner != "" {
		resource["owner"] = on.Owner
	}
	return map[string]any{
		"principal": map[string]any{"name": who.Name, "groups": orNone(who.Groups)},
		"action":    action, "resource": resource, "bindings": bindings, "roles": roles,
	}
}

func refusal(ctx context.Context, who promo.Principal, action Action, on Resource, ans answer) error {
	where := "on the server"
	if on.Project != "" {
		where = "in project \"" + on.Project + "\""
	}
	name := "\"" + who.Name + "\""
	if t := IdentityFrom(ctx).Token; t != nil {
		name = "token \"" + t.Name + "\" of " + name
	}
	held := "no role"
	if len(ans.Held) > 0 {
		held = strings.Join(ans.Held, ", ")
	}
	return promo.Errorf(promo.CodeAuthorization, "%s lacks the permission %q %s", name, action, where).
		WithHint("it has %s there; roles with the permission: %s", held, strings.Join(ans.Needed, ", "))
}
