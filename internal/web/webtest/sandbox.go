package webtest

import (
	"context"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

// Sandbox fakes web.Sandbox and web.SandboxApps.
type Sandbox struct {
	ClustersFn func(ctx context.Context, who promo.Principal) ([]api.SandboxCluster, error)
	ApplyFn    func(ctx context.Context, who promo.Principal, req api.SandboxApplyRequest) ([]string, error)
	EditFn     func(ctx context.Context, who promo.Principal, req api.SandboxEditRequest) error
	RefreshFn  func(ctx context.Context, who promo.Principal, ref api.SandboxRef) error
	SyncFn     func(ctx context.Context, who promo.Principal, req api.SandboxSyncRequest) error
	DiffFn     func(ctx context.Context, who promo.Principal, ref api.SandboxRef) ([]promo.ResourceDiff, error)
}

// Clusters calls ClustersFn.
func (f *Sandbox) Clusters(ctx context.Context, who promo.Principal) ([]api.SandboxCluster, error) {
	if f.ClustersFn == nil {
		return nil, unset("Sandbox.Clusters")
	}
	return f.ClustersFn(ctx, who)
}

// Apply calls ApplyFn.
func (f *Sandbox) Apply(ctx context.Context, who promo.Principal, req api.SandboxApplyRequest) ([]string, error) {
	if f.ApplyFn == nil {
		return nil, unset("Sandbox.Apply")
	}
	return f.ApplyFn(ctx, who, req)
}

// Edit calls EditFn.
func (f *Sandbox) Edit(ctx context.Context, who promo.Principal, req api.SandboxEditRequest) error {
	if f.EditFn == nil {
		return unset("Sandbox.Edit")
	}
	return f.EditFn(ctx, who, req)
}

// Refresh calls RefreshFn.
func (f *Sandbox) Refresh(ctx context.Context, who promo.Principal, ref api.SandboxRef) error {
	if f.RefreshFn == nil {
		return unset("Sandbox.Refresh")
	}
	return f.RefreshFn(ctx, who, ref)
}

// Sync calls SyncFn.
func (f *Sandbox) Sync(ctx context.Context, who promo.Principal, req api.SandboxSyncRequest) error {
	if f.SyncFn == nil {
		return unset("Sandbox.Sync")
	}
	return f.SyncFn(ctx, who, req)
}

// Diff calls DiffFn.
func (f *Sandbox) Diff(ctx context.Context, who promo.Principal, ref api.SandboxRef) ([]promo.ResourceDiff, error) {
	if f.DiffFn == nil {
		return nil, unset("Sandbox.Diff")
	}
	return f.DiffFn(ctx, who, ref)
}
