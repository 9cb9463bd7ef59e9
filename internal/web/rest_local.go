package web

import (
	"context"
	"net/http"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
)

// SandboxLinks are the connections of sandbox clusters' agents.
type SandboxLinks interface {
	// Connect ends or restores the connection of a cluster's agent, as a broken network would.
	Connect(ctx context.Context, who promo.Principal, req api.SandboxConnectRequest) error
}

// Repositories are those of the local forge.
type Repositories interface {
	// Protect sets what a branch demands before it changes.
	Protect(ctx context.Context, who promo.Principal, req api.ProtectRequest) error
}

func (s *Server) restRepositories() {
	type protectInput struct {
		Repository string `path:"repository" maxLength:"128"`
		Branch     string `path:"branch" maxLength:"128"`
		Body       api.ProtectRequest
	}
	const path = "/api/repositories/{repository}/branches/{branch}/protection"
	operation(s, route{Method: http.MethodPut, Path: path, Action: auth.ConnectorAdmin, Kind: "repository", Summary: "Set what a branch of the local forge demands before it changes"},
		func(ctx context.Context, who promo.Principal, in *protectInput) (ok, error) {
			in.Body.Repository, in.Body.Branch = in.Repository, in.Branch
			return ok{OK: true}, s.services.Repositories.Protect(ctx, who, in.Body)
		})
}

func (s *Server) restSandboxLinks() {
	type connectInput struct {
		Cluster string `path:"cluster" maxLength:"128"`
		Body    api.SandboxConnectRequest
	}
	operation(s, route{Method: http.MethodPut, Path: sandboxClusters + "/{cluster}/connection", Action: auth.SandboxAdmin, Kind: "sandbox", Summary: "End or restore the connection of a sandbox cluster's agent"},
		func(ctx context.Context, who promo.Principal, in *connectInput) (ok, error) {
			in.Body.Cluster = in.Cluster
			return ok{OK: true}, s.services.SandboxLinks.Connect(ctx, who, in.Body)
		})
}
