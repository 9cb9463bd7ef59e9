package web

import (
	"context"
	"net/http"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
)

// SandboxPath names an application on a sandbox cluster; like the other paths it is exported for huma.
type SandboxPath struct {
	Cluster     string `path:"cluster" maxLength:"128"`
	Application string `path:"application" maxLength:"253"`
}

const (
	sandboxClusters    = "/api/sandbox/clusters"
	sandboxApplication = sandboxClusters + "/{cluster}/applications/{application}"
)

func (s *Server) restSandbox() {
	b := s.services.Sandbox
	operation(s, route{Method: http.MethodGet, Path: sandboxClusters, Action: auth.SandboxRead, Kind: "sandbox", Summary: "List sandbox clusters with their applications"},
		func(ctx context.Context, who promo.Principal, _ *none) ([]api.SandboxCluster, error) {
			return list(b.Clusters(ctx, who))
		})
	type applyInput struct {
		Cluster string `path:"cluster" maxLength:"128"`
		Body    api.SandboxApplyRequest
	}
	operation(s, route{Method: http.MethodPost, Path: sandboxClusters + "/{cluster}/apply", Action: auth.SandboxAdmin, Kind: "sandbox", Summary: "Declare applications on a sandbox cluster"},
		func(ctx context.Context, who promo.Principal, in *applyInput) ([]string, error) {
			in.Body.Cluster = in.Cluster
			return list(b.Apply(ctx, who, in.Body))
		})
	type editInput struct {
		SandboxPath
		Body api.SandboxEditRequest
	}
	operation(s, route{Method: http.MethodPost, Path: sandboxApplication + "/edit", Action: auth.SandboxAdmin, Kind: "sandbox", Summary: "Change a live object behind Git's back"},
		func(ctx context.Context, who promo.Principal, in *editInput) (ok, error) {
			in.Body.Cluster, in.Body.Application = in.Cluster, in.Application
			return ok{OK: true}, b.Edit(ctx, who, in.Body)
		})
}

func (s *Server) restSandboxApps() {
	b := s.services.SandboxApps
	type refreshInput struct {
		SandboxPath
		Body api.SandboxRef
	}
	operation(s, route{Method: http.MethodPost, Path: sandboxApplication + "/refresh", Action: auth.FleetSync, Kind: "sandbox", Summary: "Compare an application with Git anew"},
		func(ctx context.Context, who promo.Principal, in *refreshInput) (ok, error) {
			in.Body.Cluster, in.Body.Application = in.Cluster, in.Application
			return ok{OK: true}, b.Refresh(ctx, who, in.Body)
		})
	type syncInput struct {
		SandboxPath
		Body api.SandboxSyncRequest
	}
	operation(s, route{Method: http.MethodPost, Path: sandboxApplication + "/sync", Action: auth.FleetSync, Kind: "sandbox", Summary: "Sync an application outside any promotion"},
		func(ctx context.Context, who promo.Principal, in *syncInput) (ok, error) {
			in.Body.Cluster, in.Body.Application = in.Cluster, in.Application
			return ok{OK: true}, b.Sync(ctx, who, in.Body)
		})
	type diffInput struct {
		SandboxPath
		Namespace string `query:"namespace" maxLength:"128"`
	}
	operation(s, route{Method: http.MethodGet, Path: sandboxApplication + "/diff", Action: auth.SandboxRead, Kind: "sandbox", Summary: "Get how live objects differ from Git"},
		func(ctx context.Context, who promo.Principal, in *diffInput) ([]promo.ResourceDiff, error) {
			return list(b.Diff(ctx, who, api.SandboxRef{Cluster: in.Cluster, Namespace: in.Namespace, Application: in.Application}))
		})
	s.page(route{Method: http.MethodGet, Path: "/projects/{project}/fleet/{cluster}/{application}", Action: auth.FleetRead, Kind: "fleet"}, "difference", s.loadDifference)
}

// differenceData is what the page of an application's difference shows.
type differenceData struct {
	Cluster, Application string
	Resources            []promo.ResourceDiff
}

func (s *Server) loadDifference(r *http.Request) (view, error) {
	d := differenceData{Cluster: r.PathValue("cluster"), Application: r.PathValue("application")}
	var err error
	d.Resources, err = s.services.SandboxApps.Diff(r.Context(), whoFrom(r.Context()), api.SandboxRef{Cluster: d.Cluster, Application: d.Application})
	return view{Title: d.Application + " on " + d.Cluster, Nav: "fleet", Data: d}, err
}
