// Package appspec reads the Argo CD Application manifests that declare what a sandbox cluster runs. It is
// strict: a field whose effect the sandbox does not have is an error that names the field and its line, so that a
// manifest which works here works on a real Argo CD too. It knows nothing of Git or clusters. Start at Parse.
package appspec

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"gopkg.in/yaml.v3"

	"github.com/davit-cd/davit/internal/promo"
)

// DefaultNamespace is where Argo CD keeps Applications that name no namespace.
const DefaultNamespace = "argocd"

// Application is what a manifest declares.
type Application struct {
	Name        string            `json:"name"`
	Namespace   string            `json:"namespace"`
	Labels      map[string]string `json:"labels,omitempty"`
	Annotations map[string]string `json:"annotations,omitempty"`
	Project     string            `json:"project"`
	Source      Source            `json:"source"`
	Destination Destination       `json:"destination"`
	SyncPolicy  SyncPolicy        `json:"syncPolicy"`
	// HistoryLimit is how many finished syncs are remembered; Argo CD's default is 10.
	HistoryLimit int `json:"historyLimit"`
}

// Source is spec.source.
type Source struct {
	RepoURL        string `json:"repoURL"`
	Path           string `json:"path"`
	TargetRevision string `json:"targetRevision"`
	Recurse        bool   `json:"recurse,omitempty"`
}

// Destination is spec.destination; Server or Name must be the sandbox cluster itself.
type Destination struct {
	Server    string `json:"server,omitempty"`
	Name      string `json:"name,omitempty"`
	Namespace string `json:"namespace,omitempty"`
	// Line is where the manifest names the cluster, for messages.
	Line int `json:"-"`
}

// SyncPolicy is spec.syncPolicy.
type SyncPolicy struct {
	Automated bool  `json:"automated,omitempty"`
	Prune     bool  `json:"prune,omitempty"`
	SelfHeal  bool  `json:"selfHeal,omitempty"`
	Retry     Retry `json:"retry,omitzero"`

	CreateNamespace    bool `json:"createNamespace,omitempty"`
	ApplyOutOfSyncOnly bool `json:"applyOutOfSyncOnly,omitempty"`
	Replace            bool `json:"replace,omitempty"`
}

// Retry says how often a failed operation is tried again; the zero value is never.
type Retry struct {
	Limit  int           `json:"limit,omitempty"`
	Wait   time.Duration `json:"wait,omitempty"`
	Factor int           `json:"factor,omitempty"`
	Max    time.Duration `json:"max,omitempty"`
}

const (
	maxManifest     = 1 << 20
	maxApplications = 500
	maxRetries      = 100
	defaultHistory  = 10
	maxHistory      = 100
)

// Parse reads a stream of Application documents and reports every problem at once, as one Configuration error.
func Parse(data []byte) ([]Application, error) {
	if len(data) > maxManifest {
		return nil, promo.Errorf(promo.CodeConfiguration, "the manifests have %d bytes, at most %d are read", len(data), maxManifest)
	}
	dec := yaml.NewDecoder(bytes.NewReader(data))
	var (
		apps     []Application
		problems []string
	)
	for {
		var doc yaml.Node
		err := dec.Decode(&doc)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			problems = append(problems, err.Error())
			break
		}
		if len(doc.Content) == 0 || doc.Content[0].Tag == "!!null" {
			continue
		}
		r := reader{}
		apps = append(apps, r.application(doc.Content[0]))
		problems = append(problems, r.problems...)
	}
	if len(apps) > maxApplications {
		problems = append(problems, fmt.Sprintf("%d applications, at most %d are kept", len(apps), maxApplications))
	}
	if len(problems) > 0 {
		return nil, promo.Errorf(promo.CodeConfiguration, "application manifest: %s", strings.Join(problems, "; "))
	}
	return apps, nil
}
