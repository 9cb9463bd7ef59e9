package contract

import (
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// Diff compares an application with the cluster; it runs on the application's agent (AgentTaskQueue).
var Diff = Activity[DiffRequest, DiffResult]{Name: "app.diff", Class: plan.ClassNetwork}

// Refresh makes the engine compare an application again; it runs on the application's agent.
var Refresh = Activity[RefreshRequest, Nothing]{Name: "app.refresh", Class: plan.ClassNetwork}

// AppRequest names an application and on whose behalf it is touched: the agent asks for the application's consent.
type AppRequest struct {
	Project     string               `json:"project"`
	Service     string               `json:"service"`
	Environment string               `json:"environment"`
	Application promo.ApplicationRef `json:"application"`
}

// DiffRequest asks for the difference to a revision, "" for what the application follows.
type DiffRequest struct {
	AppRequest
	Revision string `json:"revision,omitempty"`
}

// DiffResult lists the objects that differ. Truncated says that some were left out, or cut, for their size.
type DiffResult struct {
	Resources []promo.ResourceDiff `json:"resources"`
	Truncated bool                 `json:"truncated,omitempty"`
}

// RefreshRequest asks for a new comparison; Hard also forgets what the engine has cached.
type RefreshRequest struct {
	AppRequest
	Hard bool `json:"hard,omitempty"`
}
