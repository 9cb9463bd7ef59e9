package engine

import (
	"context"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/forge"
	"github.com/davit-cd/davit/internal/forge/local"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/spec"
)

// Repositories are those of the local forge.
type Repositories struct {
	*Engine
	Forge *local.Forge
}

// Protect sets what a branch demands before it changes.
func (r Repositories) Protect(ctx context.Context, who promo.Principal, req api.ProtectRequest) error {
	var p *forge.Protection
	if req.Protected {
		p = &forge.Protection{
			RequiredReviews: req.RequiredReviews, DismissStale: req.DismissStale, RequiredChecks: req.RequiredChecks, AllowPush: req.AllowPush,
		}
	}
	if err := r.Forge.Protect(ctx, req.Repository, req.Branch, p); err != nil {
		return err
	}
	return r.audit(ctx, who, deed{"repository:protect", "repository", req.Repository + "/" + req.Branch, ""}, req)
}

// Hosts makes repositories on the local forge. One that is there already stays as it is.
type Hosts interface {
	Create(ctx context.Context, spec local.CreateSpec) (forge.Repository, error)
}

// host makes the repositories that definitions place on the local forge, empty, for people to push to.
func (e *Engine) host(ctx context.Context, defs *spec.Definitions) error {
	for _, doc := range defs.Documents(spec.KindRepository) {
		if r, ok := doc.Spec.(*spec.RepositorySpec); !ok || r.Provider != "local" {
			continue
		}
		if _, err := e.Hosts.Create(ctx, local.CreateSpec{Name: doc.Metadata.Name}); err != nil {
			return err
		}
	}
	return nil
}
