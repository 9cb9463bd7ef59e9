package promo

import "time"

// Health is an application's or a resource's health, in Argo CD's words.
type Health string

// Argo CD's health states.
const (
	HealthHealthy     Health = "Healthy"
	HealthProgressing Health = "Progressing"
	HealthDegraded    Health = "Degraded"
	HealthSuspended   Health = "Suspended"
	HealthMissing     Health = "Missing"
	HealthUnknown     Health = "Unknown"
)

// SyncStatus compares live state with the application's target revision, in Argo CD's words.
type SyncStatus string

// Argo CD's sync states.
const (
	SyncSynced    SyncStatus = "Synced"
	SyncOutOfSync SyncStatus = "OutOfSync"
	SyncUnknown   SyncStatus = "Unknown"
)

// OperationPhase is the phase of a sync operation, in Argo CD's words.
type OperationPhase string

// Argo CD's operation phases.
const (
	OperationRunning     OperationPhase = "Running"
	OperationSucceeded   OperationPhase = "Succeeded"
	OperationFailed      OperationPhase = "Failed"
	OperationError       OperationPhase = "Error"
	OperationTerminating OperationPhase = "Terminating"
)

// ApplicationRef names an application on one agent's control cluster.
type ApplicationRef struct {
	Agent     string `json:"agent,omitempty"`
	Namespace string `json:"namespace"`
	Name      string `json:"name"`
}

// Application is the observed state of a GitOps application.
type Application struct {
	ApplicationRef
	Cluster string            `json:"cluster,omitempty"`
	Labels  map[string]string `json:"labels,omitempty"`
	// Annotations holds only those of Davit ("davit.dev/…").
	Annotations    map[string]string `json:"annotations,omitempty"`
	RepoURL        string            `json:"repoURL"`
	Path           string            `json:"path"`
	TargetRevision string            `json:"targetRevision"`
	AutoSync       bool              `json:"autoSync,omitempty"`
	SelfHeal       bool              `json:"selfHeal,omitempty"`
	AutoPrune      bool              `json:"autoPrune,omitempty"`
	URL            string            `json:"url,omitempty"`

	// Sync and Revision are the engine's last comparison: live state against TargetRevision as resolved then.
	Sync     SyncStatus `json:"sync"`
	Revision string     `json:"revision,omitempty"`
	Health   Health     `json:"health"`
	// HealthMessage names the resources that cause a state other than Healthy.
	HealthMessage string     `json:"healthMessage,omitempty"`
	Images        []string   `json:"images,omitempty"`
	Resources     []Resource `json:"resources,omitempty"`
	// ReconciledAt is when the engine last compared; health older than the end of an operation says nothing
	// about that operation.
	ReconciledAt time.Time `json:"reconciledAt,omitzero"`
	// PendingOperation is set while an operation is asked for and not yet picked up (Argo CD's `operation`).
	PendingOperation *Operation `json:"pendingOperation,omitempty"`
	// LastOperation is the operation under way or the last one (Argo CD's `operationState`).
	LastOperation *Operation     `json:"lastOperation,omitempty"`
	History       []HistoryEntry `json:"history,omitempty"`
}

// Resource is one live or wanted object of an application.
type Resource struct {
	Group     string     `json:"group,omitempty"`
	Version   string     `json:"version,omitempty"`
	Kind      string     `json:"kind"`
	Namespace string     `json:"namespace,omitempty"`
	Name      string     `json:"name"`
	Sync      SyncStatus `json:"sync,omitempty"`
	Health    Health     `json:"health,omitempty"`
	Message   string     `json:"message,omitempty"`
	// RequiresPruning is set on a live object that the wanted revision no longer has.
	RequiresPruning bool `json:"requiresPruning,omitempty"`
}

// Operation is a sync operation.
type Operation struct {
	// ID is Davit's operation id, written into the operation's info; empty for other people's operations.
	ID          string         `json:"id,omitempty"`
	Phase       OperationPhase `json:"phase,omitempty"`
	Message     string         `json:"message,omitempty"`
	Revision    string         `json:"revision,omitempty"`
	StartedAt   time.Time      `json:"startedAt,omitzero"`
	FinishedAt  time.Time      `json:"finishedAt,omitzero"`
	InitiatedBy string         `json:"initiatedBy,omitempty"`
}

// HistoryEntry is a finished sync, oldest first in Application.History.
type HistoryEntry struct {
	ID         int64     `json:"id"`
	Revision   string    `json:"revision"`
	DeployedAt time.Time `json:"deployedAt"`
}

// SyncOptions are what a sync may be asked to do; names and defaults are those of the Sync step.
type SyncOptions struct {
	Prune              bool          `json:"prune,omitempty"`
	DryRun             bool          `json:"dryRun,omitempty"`
	Force              bool          `json:"force,omitempty"`
	ApplyOutOfSyncOnly bool          `json:"applyOutOfSyncOnly,omitempty"`
	ServerSideApply    bool          `json:"serverSideApply,omitempty"`
	Replace            bool          `json:"replace,omitempty"`
	CreateNamespace    bool          `json:"createNamespace,omitempty"`
	PrunePropagation   string        `json:"prunePropagation,omitempty"`
	Resources          []ResourceRef `json:"resources,omitempty"`
	RetryLimit         int           `json:"retryLimit,omitempty"`
	RetryBackoff       time.Duration `json:"retryBackoff,omitempty"`
	RetryFactor        int           `json:"retryFactor,omitempty"`
	RetryMax           time.Duration `json:"retryMax,omitempty"`
}

// ResourceRef selects one object of an application.
type ResourceRef struct {
	Group     string `json:"group,omitempty"`
	Kind      string `json:"kind"`
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
}

// SyncRequest asks an engine to bring an application to exactly one revision.
type SyncRequest struct {
	// ID is Davit's operation id. An operation under way or last with the same id is watched, not restarted.
	ID          string      `json:"id"`
	Revision    string      `json:"revision"`
	InitiatedBy string      `json:"initiatedBy"`
	Options     SyncOptions `json:"options"`
}

// ResourceDiff is the difference of one object between Git at a revision and the live cluster.
type ResourceDiff struct {
	Resource
	// Unified is a unified diff of the normalised YAML, live against desired.
	Unified string `json:"unified"`
}
