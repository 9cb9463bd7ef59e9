package steps

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
)

// The labels by which an application says whom it belongs to.
const (
	LabelService     = "davit.dev/service"
	LabelEnvironment = "davit.dev/environment"
	LabelTarget      = "davit.dev/target"
)

// FetchLinkedAppsSpec is the spec of a FetchLinkedApps.
type FetchLinkedAppsSpec struct {
	// From says how applications are found: by their labels, or by name.
	From string `json:"from,omitempty" jsonschema:"enum=labels,enum=names,enum=applicationSet" davit:"later=applicationSet"`
	// Names of applications, "name" or "namespace/name", for from: names.
	Names []string `json:"names,omitempty"`
	// ApplicationSet whose applications are taken.
	ApplicationSet any `json:"applicationSet,omitempty" davit:"later"`
	// RequireAny makes it an error to find none.
	RequireAny bool `json:"requireAny"`
}

// LinkedApp is an application that belongs to a service in an environment.
type LinkedApp struct {
	// Agent that sees the application.
	Agent string `json:"agent,omitempty"`
	// Cluster that it deploys to.
	Cluster string `json:"cluster,omitempty"`
	// Namespace of the application itself.
	Namespace string `json:"namespace,omitempty"`
	// Name of the application.
	Name string `json:"name" jsonschema:"required"`
	// URL of its page in the engine.
	URL string `json:"url,omitempty"`
}

// Ref names the application for ports.
func (a LinkedApp) Ref() promo.ApplicationRef {
	return promo.ApplicationRef{Agent: a.Agent, Namespace: a.Namespace, Name: a.Name}
}

// FetchLinkedApps resolves the applications of the stage's service on a target.
func FetchLinkedApps() Type {
	return Type{
		Kind:    "FetchLinkedApps",
		Summary: "resolves the stage's applications (labels, names, ApplicationSet)",
		Scope:   plan.ScopeTarget,
		Class:   plan.ClassQuick,
		Mutates: never,
		Timeout: 2 * time.Minute, // an agent that has just come reports within seconds
		Config:  func() any { return &FetchLinkedAppsSpec{From: "labels", RequireAny: true} },
		Check:   checkFetchLinkedApps,
		Outputs: map[string]string{"applications": "list of {agent, cluster, namespace, name, url}"},
		Run:     runFetchLinkedApps,
	}
}

func checkFetchLinkedApps(cfg any) []Problem {
	c, ok := cfg.(*FetchLinkedAppsSpec)
	switch {
	case !ok:
	case c.From == "names" && len(c.Names) == 0:
		return []Problem{{Path: "names", Msg: "no name is given", Hint: "list names, or say from: labels"}}
	case c.From == "labels" && len(c.Names) > 0:
		return []Problem{{Path: "names", Msg: "names are given where labels decide", Hint: "say from: names"}}
	}
	return nil
}

func runFetchLinkedApps(ctx context.Context, in In) (Out, error) {
	c, err := readConfig[FetchLinkedAppsSpec](FetchLinkedApps(), in)
	if err != nil {
		return Out{}, err
	}
	apps, err := linkedApps(ctx, in, c)
	if err != nil {
		return Out{}, err
	}
	out := make([]LinkedApp, len(apps))
	names := make([]string, len(apps))
	for i, a := range apps {
		out[i] = LinkedApp{Agent: firstText(a.Agent, in.Target.Agent), Cluster: a.Cluster, Namespace: a.Namespace, Name: a.Name, URL: a.URL}
		names[i] = a.Name
	}
	return answer(map[string]any{"applications": out}, "%d applications: %s", len(out), fileList(names))
}

// linkedApps finds the applications of the service, the environment and the target.
func linkedApps(ctx context.Context, in In, c *FetchLinkedAppsSpec) ([]promo.Application, error) {
	if in.Target == nil || in.Stage.Environment == nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "step %q is in stage %q, which has no environment", in.Stage.Step, in.Stage.Name)
	}
	if err := need(in.Ports.Apps != nil, in, "the list of applications"); err != nil {
		return nil, err
	}
	apps, err := foundApps(ctx, in, c)
	if err != nil {
		return nil, err
	}
	slices.SortFunc(apps, func(a, b promo.Application) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return apps, nil
}

func foundApps(ctx context.Context, in In, c *FetchLinkedAppsSpec) ([]promo.Application, error) {
	labels := appLabels(in)
	if c.From != "names" {
		apps, err := in.Ports.Apps.Find(ctx, in.Target.Agent, labels)
		if err == nil && len(apps) == 0 && c.RequireAny {
			return nil, promo.Errorf(promo.CodeNotFound, "agent %q reports no application with labels %s", in.Target.Agent, labelText(labels)).
				WithHint("label the Application, or give the service a selector")
		}
		return apps, err
	}
	var apps []promo.Application
	for _, n := range c.Names {
		ns, name, ok := strings.Cut(n, "/")
		if !ok {
			ns, name = "argocd", n // where Argo CD lives unless somebody chose otherwise
		}
		app, err := in.Ports.Apps.Get(ctx, promo.ApplicationRef{Agent: in.Target.Agent, Namespace: ns, Name: name})
		if err != nil {
			return nil, err
		}
		apps = append(apps, app)
	}
	return apps, nil
}

// appLabels are the labels of the target's applications. A service's selector stands for the service's label; an
// application always says which environment and target it is for, or one could be synced as another.
func appLabels(in In) map[string]string {
	labels := map[string]string{LabelEnvironment: in.Stage.Environment.Name, LabelTarget: in.Target.Name}
	if len(in.Stage.Service.Selector) == 0 {
		labels[LabelService] = in.Stage.Service.Name
	}
	maps.Copy(labels, in.Stage.Service.Selector)
	return labels
}

func labelText(labels map[string]string) string {
	var parts []string
	for _, k := range slices.Sorted(maps.Keys(labels)) {
		parts = append(parts, fmt.Sprintf("%s=%s", k, labels[k]))
	}
	return strings.Join(parts, ",")
}
