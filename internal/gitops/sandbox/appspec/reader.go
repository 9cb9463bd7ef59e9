package appspec

import (
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gopkg.in/yaml.v3"
)

// reader walks one document and collects problems.
type reader struct{ problems []string }

// fields maps each known field of a mapping to what reads it.
type fields map[string]func(n *yaml.Node, path string)

func (r *reader) problem(n *yaml.Node, format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf("line %d: ", n.Line)+fmt.Sprintf(format, args...))
}

// mapping reads n's fields; one that is not known is a problem.
func (r *reader) mapping(n *yaml.Node, path string, known fields) {
	if n.Kind != yaml.MappingNode {
		r.problem(n, "%s must be a mapping", path)
		return
	}
	seen := map[string]bool{}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		full := strings.TrimPrefix(path+"."+key.Value, ".")
		read, ok := known[key.Value]
		switch {
		case seen[key.Value]:
			r.problem(key, "%s is given twice", full)
		case !ok:
			r.problem(key, "%s is not supported by sandbox clusters (supported here: %s)", full,
				strings.Join(slices.Sorted(maps.Keys(known)), ", "))
		default:
			read(value, full)
		}
		seen[key.Value] = true
	}
}

func (r *reader) text(to *string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Kind != yaml.ScalarNode || n.Tag == "!!null" {
			r.problem(n, "%s must be a string", path)
			return
		}
		*to = n.Value
	}
}

func (r *reader) exactly(want string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if n.Value != want {
			r.problem(n, "%s is %q, a sandbox cluster reads only %q", path, n.Value, want)
		}
	}
}

func (r *reader) yesNo(to *bool) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if err := n.Decode(to); err != nil || n.Tag != "!!bool" {
			r.problem(n, "%s must be true or false", path)
		}
	}
}

func (r *reader) number(to *int, limit int) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		v, err := strconv.Atoi(n.Value)
		if err != nil || n.Tag != "!!int" || v < 0 || v > limit {
			r.problem(n, "%s must be a number from 0 to %d", path, limit)
			return
		}
		*to = v
	}
}

func (r *reader) duration(to *time.Duration) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		d, err := time.ParseDuration(n.Value)
		if seconds, numErr := strconv.Atoi(n.Value); numErr == nil { // Argo CD takes bare seconds too
			d, err = time.Duration(seconds)*time.Second, nil
		}
		if err != nil || d < 0 {
			r.problem(n, "%s is %q, a duration such as 5s or 3m is wanted", path, n.Value)
			return
		}
		*to = d
	}
}

func (r *reader) texts(to *map[string]string) func(*yaml.Node, string) {
	return func(n *yaml.Node, path string) {
		if err := n.Decode(to); err != nil {
			r.problem(n, "%s must map strings to strings", path)
		}
	}
}

func (r *reader) application(n *yaml.Node) Application {
	a := Application{Namespace: DefaultNamespace, Project: "default", HistoryLimit: defaultHistory}
	var apiVersion, kind string
	r.mapping(n, "", fields{
		"apiVersion": func(n *yaml.Node, p string) { r.text(&apiVersion)(n, p); r.exactly("argoproj.io/v1alpha1")(n, p) },
		"kind":       func(n *yaml.Node, p string) { r.text(&kind)(n, p); r.exactly("Application")(n, p) },
		"metadata": func(n *yaml.Node, p string) {
			r.mapping(n, p, fields{
				"name": r.text(&a.Name), "namespace": r.text(&a.Namespace),
				"labels": r.texts(&a.Labels), "annotations": r.texts(&a.Annotations),
			})
		},
		"spec": func(n *yaml.Node, p string) { r.spec(n, p, &a) },
	})
	name := regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$`)
	for field, value := range map[string]string{"metadata.name": a.Name, "metadata.namespace": a.Namespace} {
		if !name.MatchString(value) {
			r.problem(n, "%s is %q, a Kubernetes name is wanted", field, value)
		}
	}
	if apiVersion == "" || kind == "" {
		r.problem(n, "apiVersion and kind are missing")
	}
	if a.Source.RepoURL == "" {
		r.problem(n, "spec.source.repoURL is missing")
	}
	if a.Source.Path == "" {
		r.problem(n, "spec.source.path is missing")
	}
	return a
}

func (r *reader) spec(n *yaml.Node, path string, a *Application) {
	a.Source.TargetRevision = "HEAD" // Argo CD's default
	r.mapping(n, path, fields{
		"project": r.text(&a.Project),
		"source": func(n *yaml.Node, p string) {
			r.mapping(n, p, fields{
				"repoURL": r.text(&a.Source.RepoURL), "path": r.text(&a.Source.Path),
				"targetRevision": r.text(&a.Source.TargetRevision),
				"directory": func(n *yaml.Node, p string) {
					r.mapping(n, p, fields{"recurse": r.yesNo(&a.Source.Recurse)})
				},
			})
		},
		"destination": func(n *yaml.Node, p string) {
			a.Destination.Line = n.Line
			r.mapping(n, p, fields{
				"server": r.text(&a.Destination.Server), "name": r.text(&a.Destination.Name),
				"namespace": r.text(&a.Destination.Namespace),
			})
		},
		"syncPolicy":           func(n *yaml.Node, p string) { r.policy(n, p, &a.SyncPolicy) },
		"revisionHistoryLimit": r.number(&a.HistoryLimit, maxHistory),
	})
}

func (r *reader) policy(n *yaml.Node, path string, to *SyncPolicy) {
	r.mapping(n, path, fields{
		"automated": func(n *yaml.Node, p string) {
			to.Automated = true
			if n.Tag != "!!null" { // "automated:" and "automated: {}" both switch it on
				r.mapping(n, p, fields{"prune": r.yesNo(&to.Prune), "selfHeal": r.yesNo(&to.SelfHeal), "enabled": r.yesNo(&to.Automated)})
			}
		},
		"syncOptions": func(n *yaml.Node, p string) { r.options(n, p, to) },
		"retry": func(n *yaml.Node, p string) {
			to.Retry = Retry{Limit: 5, Wait: 5 * time.Second, Factor: 2, Max: 3 * time.Minute} // Argo CD's defaults
			r.mapping(n, p, fields{
				"limit": r.number(&to.Retry.Limit, maxRetries),
				"backoff": func(n *yaml.Node, p string) {
					r.mapping(n, p, fields{
						"duration": r.duration(&to.Retry.Wait), "factor": r.number(&to.Retry.Factor, maxRetries),
						"maxDuration": r.duration(&to.Retry.Max),
					})
				},
			})
		},
	})
}

// options reads "Name=value" entries. Options without an effect on simulated objects are accepted and ignored.
func (r *reader) options(n *yaml.Node, path string, to *SyncPolicy) {
	var discard bool
	known := map[string]*bool{
		"CreateNamespace": &to.CreateNamespace, "ApplyOutOfSyncOnly": &to.ApplyOutOfSyncOnly, "Replace": &to.Replace,
		"ServerSideApply": &discard, "Force": &discard, "Validate": &discard, "PruneLast": &discard,
	}
	if n.Kind != yaml.SequenceNode {
		r.problem(n, "%s must be a list", path)
		return
	}
	for i, entry := range n.Content {
		name, value, _ := strings.Cut(entry.Value, "=")
		if name == "PrunePropagationPolicy" {
			continue
		}
		target, ok := known[name]
		set, err := strconv.ParseBool(value)
		if !ok || err != nil {
			r.problem(entry, "%s[%d] is %q, which is not supported by sandbox clusters (supported here: %s, PrunePropagationPolicy)", path, i,
				entry.Value, strings.Join(slices.Sorted(maps.Keys(known)), ", "))
			continue
		}
		*target = set
	}
}
