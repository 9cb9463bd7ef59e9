package agent

import (
	"context"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
)

// Engine is the GitOps engine that an agent drives.
type Engine interface {
	steps.GitOps
	Observer
	Differ
}

// Observer sees all applications of an engine.
type Observer interface {
	// Applications returns all applications.
	Applications(ctx context.Context) ([]promo.Application, error)
	// WatchAll sends the present state of each application and then every change, until ctx ends. Applications
	// that are gone are found by comparing with Applications.
	WatchAll(ctx context.Context) (<-chan promo.Application, error)
}

// Differ compares an application in Git at a revision ("" for what it follows) with the cluster.
type Differ interface {
	Diff(ctx context.Context, ref promo.ApplicationRef, revision string) ([]promo.ResourceDiff, error)
}
