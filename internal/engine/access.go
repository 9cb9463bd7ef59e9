package engine

import (
	"context"
	"errors"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
	"github.com/davit-cd/davit/internal/store"
)

// needed is the permission, beside that of the route, which a kind of definition needs; "" for none.
func needed(kind string) auth.Action {
	switch kind {
	case spec.KindRepository, spec.KindConnector:
		return auth.ConnectorAdmin
	case spec.KindRole, spec.KindRoleBinding:
		return auth.AccessAdmin
	}
	return ""
}

// mayApply refuses definitions of kinds that need more than the permission to apply. What stays as it is needs
// nothing, so that whole folders can be applied again.
func (d Definitions) mayApply(ctx context.Context, who promo.Principal, defs []store.Definition) error {
	var refused []error
	for _, def := range defs {
		if err := d.mayTouch(ctx, who, def.Kind, def.Project, def.Name); err != nil {
			if promo.CodeOf(err) != promo.CodeAuthorization {
				return err
			}
			refused = append(refused, err)
		}
	}
	if len(refused) < 2 {
		return errors.Join(refused...)
	}
	lines := make([]string, len(refused))
	for i, err := range refused {
		lines[i] = err.Error()
	}
	return api.Diagnosed(promo.Errorf(promo.CodeAuthorization, "%d definitions need permissions that %q lacks; nothing was applied", len(refused), who.Name), lines)
}

func (d Definitions) mayTouch(ctx context.Context, who promo.Principal, kind, project, name string) error {
	action := needed(kind)
	if action == "" {
		return nil
	}
	err := d.Authz.Authorize(ctx, who, action, auth.Resource{Kind: "definition", Project: project, Name: kind + "/" + name})
	var refusal *promo.Error
	if errors.As(err, &refusal) && refusal.Code == promo.CodeAuthorization {
		return promo.Errorf(promo.CodeAuthorization, "%s %q: %s", kind, name, refusal.Msg).WithHint("%s", refusal.Hint)
	}
	return err
}

// checkRole refuses permissions that name nothing: a typing error would take a right away unnoticed.
func checkRole(doc *spec.Document, role *spec.RoleSpec) error {
	for _, p := range role.Permissions {
		if !auth.KnownPermission(p) {
			return promo.Errorf(promo.CodeConfiguration, "%s:%d: role %q: there is no permission %q", doc.File(), doc.Line, doc.Metadata.Name, p).
				WithHint("like promotion:run, promotion:*, *:read")
		}
	}
	return nil
}
