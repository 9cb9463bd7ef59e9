package api

import "github.com/davit-cd/davit/internal/promo"

// SandboxCluster is a sandbox cluster of this server with its applications.
type SandboxCluster struct {
	Name         string              `json:"name"`
	Applications []promo.Application `json:"applications"`
}

// SandboxApplyRequest declares applications on a sandbox cluster: Argo CD Application manifests.
type SandboxApplyRequest struct {
	Cluster string `json:"-"`
	Files   []File `json:"files"`
}

// SandboxRef names an application on a sandbox cluster; an empty namespace is the engine's own.
type SandboxRef struct {
	Cluster     string `json:"-"`
	Namespace   string `json:"namespace,omitempty"`
	Application string `json:"-"`
}

// SandboxEditRequest changes a live object behind Git's back: exactly one of Replicas, Image and Delete. Without a
// Resource it is the application's only Deployment.
type SandboxEditRequest struct {
	SandboxRef
	Resource promo.ResourceRef `json:"resource,omitzero"`
	Replicas *int              `json:"replicas,omitempty" minimum:"0" maximum:"1000"`
	Image    string            `json:"image,omitempty" maxLength:"512"`
	Delete   bool              `json:"delete,omitempty"`
}

// SandboxSyncRequest syncs an application outside any promotion, to what it follows where Revision is empty.
type SandboxSyncRequest struct {
	SandboxRef
	Revision string `json:"revision,omitempty" maxLength:"250"`
	Prune    bool   `json:"prune,omitempty"`
}
