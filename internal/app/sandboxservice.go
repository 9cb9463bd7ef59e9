package app

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/gitops/sandbox"
	"github.com/davit-cd/davit/internal/gitops/sandbox/appspec"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
)

// sandboxService is what people do with sandbox clusters by REST; package web asked whether they may.
type sandboxService struct{ s *sandboxes }

// Clusters lists the running clusters by name.
func (v sandboxService) Clusters(ctx context.Context, _ promo.Principal) ([]api.SandboxCluster, error) {
	v.s.mu.Lock()
	names := slices.Sorted(maps.Keys(v.s.running))
	v.s.mu.Unlock()
	out := make([]api.SandboxCluster, 0, len(names))
	for _, name := range names {
		c, err := v.s.cluster(name)
		if err != nil {
			return nil, err
		}
		apps, err := c.Applications(ctx)
		if err != nil {
			return nil, err
		}
		out = append(out, api.SandboxCluster{Name: name, Applications: apps})
	}
	return out, nil
}

// Apply declares the applications of all files, or none.
func (v sandboxService) Apply(ctx context.Context, who promo.Principal, req api.SandboxApplyRequest) ([]string, error) {
	c, err := v.s.cluster(req.Cluster)
	if err != nil {
		return nil, err
	}
	var all []byte
	var names []string
	for _, f := range req.Files {
		specs, err := appspec.Parse([]byte(f.Content))
		if err != nil {
			return nil, inFile(f.Path, err)
		}
		for _, s := range specs {
			names = append(names, s.Name)
		}
		all = append(append(all, "\n---\n"...), f.Content...)
	}
	if err := c.Apply(all); err != nil {
		return nil, err
	}
	return names, v.audit(ctx, who, "sandbox:apply", req.Cluster, names)
}

func inFile(file string, err error) error { return inPart(file, err) }

// Edit changes a live object.
func (v sandboxService) Edit(ctx context.Context, who promo.Principal, req api.SandboxEditRequest) error {
	c, err := v.s.cluster(req.Cluster)
	if err != nil {
		return err
	}
	ref := promo.ApplicationRef{Namespace: req.Namespace, Name: req.Application}
	a, err := c.Get(ctx, ref)
	if err != nil {
		return err
	}
	resource, err := liveObject(a, req.Resource)
	if err != nil {
		return err
	}
	if err := c.EditLive(ctx, ref, sandbox.LiveEdit{Resource: resource, Replicas: req.Replicas, Image: req.Image, Delete: req.Delete}); err != nil {
		return err
	}
	return v.audit(ctx, who, "sandbox:edit", req.Cluster+"/"+req.Application, req)
}

// liveObject finds the object that a person means: by kind and name, or the only Deployment there is.
func liveObject(a promo.Application, want promo.ResourceRef) (promo.ResourceRef, error) {
	kind := want.Kind
	if kind == "" {
		kind = "Deployment"
	}
	var found []promo.ResourceRef
	for _, r := range a.Resources {
		if r.Kind == kind && (want.Name == "" || want.Name == r.Name) && (want.Namespace == "" || want.Namespace == r.Namespace) {
			found = append(found, promo.ResourceRef{Group: r.Group, Kind: r.Kind, Namespace: r.Namespace, Name: r.Name})
		}
	}
	if len(found) != 1 {
		return promo.ResourceRef{}, promo.Errorf(promo.CodeNotFound, "application %q has %d objects %s", a.Name, len(found), kind+"/"+want.Name).
			WithHint("name one as KIND/NAME")
	}
	return found[0], nil
}

// Refresh compares an application with Git anew.
func (v sandboxService) Refresh(ctx context.Context, _ promo.Principal, r api.SandboxRef) error {
	c, err := v.s.cluster(r.Cluster)
	if err != nil {
		return err
	}
	return c.Refresh(ctx, promo.ApplicationRef{Namespace: r.Namespace, Name: r.Application}, true)
}

// Sync asks for a sync.
func (v sandboxService) Sync(ctx context.Context, who promo.Principal, r api.SandboxSyncRequest) error {
	c, err := v.s.cluster(r.Cluster)
	if err != nil {
		return err
	}
	err = c.StartSync(ctx, promo.ApplicationRef{Namespace: r.Namespace, Name: r.Application}, promo.SyncRequest{
		Revision: r.Revision, InitiatedBy: who.Name, Options: promo.SyncOptions{Prune: r.Prune},
	})
	if err != nil {
		return err
	}
	return v.audit(ctx, who, "sandbox:sync", r.Cluster+"/"+r.Application, r)
}

// Diff returns how live objects differ from Git.
func (v sandboxService) Diff(ctx context.Context, _ promo.Principal, r api.SandboxRef) ([]promo.ResourceDiff, error) {
	c, err := v.s.cluster(r.Cluster)
	if err != nil {
		return nil, err
	}
	return c.Diff(ctx, promo.ApplicationRef{Namespace: r.Namespace, Name: r.Application}, "")
}

func (v sandboxService) audit(ctx context.Context, who promo.Principal, action, subject string, detail any) error {
	raw, err := json.Marshal(detail)
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "%s", fmt.Sprintf("audit of %s: %v", action, err))
	}
	_, err = v.s.a.store.AppendAudit(ctx, store.Entry{At: time.Now(), Who: who.Name, Action: action, Kind: "sandbox", Subject: subject, Detail: raw})
	return err
}
