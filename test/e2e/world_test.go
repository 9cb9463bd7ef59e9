package e2e

import (
	"bytes"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"text/template"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/promo"
)

// The demo users.
const (
	admin     = "admin"
	developer = "developer"
	manager   = "release-manager"
)

// place is a target: where it is declared, and which cluster it is.
type place struct{ env, target, agent string }

// world is a repository with one service in three environments on four clusters, of one test only.
type world struct {
	t    *testing.T
	s    *server
	name string // of repository, service and pipelines; environments end in it
	// places are the service's targets; the repository holds their files.
	places []place
	clone  string // a working copy of developer's
}

var worlds atomic.Int32

func newWorld(t *testing.T, s *server) *world {
	t.Helper()
	w := &world{t: t, s: s, name: fmt.Sprintf("shop%d", worlds.Add(1)), clone: t.TempDir()}
	w.places = []place{
		{w.env("dev"), "dev", "c-dev"}, {w.env("staging"), "staging", "c-staging"}, {w.env("prod"), "us", "c-us"}, {w.env("prod"), "eu", "c-eu"},
	}
	w.apply(environments)
	w.git("clone", "-q", w.remote(developer), ".")
	w.git("checkout", "-q", "-B", "main")
	w.seed(w.name)
	w.push("v1.0.0 everywhere")
	w.declare(w.name)
	return w
}

func (w *world) env(name string) string { return name + "-" + w.name }

func (w *world) remote(user string) string {
	return strings.Replace(w.s.url, "http://", "http://"+user+":x@", 1) + "/git/" + w.name + ".git"
}

// definitions are text/templates over a world: <<.Name>>, <<.Dev>> and so on.
const environments = `
apiVersion: davit.dev/v1alpha1
kind: Repository
metadata: {name: <<.Name>>}
spec: {provider: local}
---
apiVersion: davit.dev/v1alpha1
kind: Environment
metadata: {name: <<.Dev>>}
spec: {type: PreProduction, targets: [{name: dev, agent: c-dev}]}
---
apiVersion: davit.dev/v1alpha1
kind: Environment
metadata: {name: <<.Staging>>}
spec: {type: PreProduction, targets: [{name: staging, agent: c-staging}]}
---
apiVersion: davit.dev/v1alpha1
kind: Environment
metadata: {name: <<.Prod>>}
spec: {type: Production, targets: [{name: us, agent: c-us}, {name: eu, agent: c-eu}]}
---
apiVersion: davit.dev/v1alpha1
kind: Connector
metadata: {name: prometheus}
spec: {type: prometheus, url: "<<.URL>>/sandbox/prometheus"}
---
` + service

// service is one service of the world's repository; <<.Service>> may be another than the world's own.
const service = `
apiVersion: davit.dev/v1alpha1
kind: Service
metadata: {name: <<.Service>>}
spec:
  repository: <<.Name>>
  branch: main
  path: services/<<.Service>>
  shared: [base]
  environments:
    <<.Dev>>: {paths: [dev]}
    <<.Staging>>: {paths: [staging]}
    <<.Prod>>: {paths: [prod]}
`

// text executes a definition's template.
func (w *world) text(source, service string) string {
	w.t.Helper()
	tpl, err := template.New("definition").Delims("<<", ">>").Parse(source)
	if err != nil {
		w.t.Fatal(err)
	}
	var b bytes.Buffer
	err = tpl.Execute(&b, map[string]string{
		"Name": w.name, "Service": service, "Dev": w.env("dev"), "Staging": w.env("staging"), "Prod": w.env("prod"), "URL": w.s.url,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return b.String()
}

// apply applies definitions as the admin.
func (w *world) apply(sources ...string) {
	w.t.Helper()
	w.s.must(w.t, admin, http.MethodPost, "/api/projects/default/apply", w.files(sources...), nil)
}

func (w *world) files(sources ...string) api.ApplyRequest {
	req := api.ApplyRequest{Project: "default"}
	for i, s := range sources {
		req.Files = append(req.Files, api.File{Path: fmt.Sprintf("%s-%d-%d.yaml", w.name, worlds.Load(), i), Content: w.text(s, w.name)})
	}
	return req
}

// git runs git in the working copy and returns what it said.
func (w *world) git(args ...string) string {
	w.t.Helper()
	out, err := w.tryGit(args...)
	if err != nil {
		w.t.Fatalf("git %s: %v: %s", strings.Join(args, " "), err, out)
	}
	return strings.TrimSpace(out)
}

func (w *world) tryGit(args ...string) (string, error) {
	cmd := exec.Command("git", args...)
	cmd.Dir = w.clone
	cmd.Env = append(os.Environ(), "GIT_CONFIG_GLOBAL=/dev/null", "GIT_CONFIG_SYSTEM=/dev/null", "GIT_TERMINAL_PROMPT=0",
		"GIT_AUTHOR_NAME=developer", "GIT_AUTHOR_EMAIL=developer@example.com", "GIT_COMMITTER_NAME=developer", "GIT_COMMITTER_EMAIL=developer@example.com")
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// write writes a file of the working copy.
func (w *world) write(name, content string) {
	w.t.Helper()
	p := filepath.Join(w.clone, name)
	if err := os.MkdirAll(filepath.Dir(p), 0o750); err != nil {
		w.t.Fatal(err)
	}
	if err := os.WriteFile(p, []byte(content), 0o600); err != nil {
		w.t.Fatal(err)
	}
}

// push commits everything as developer, pushes it to main and returns the commit.
func (w *world) push(message string) string {
	w.t.Helper()
	w.git("add", "-A")
	w.git("commit", "-q", "-m", message)
	w.git("push", "-q", "origin", "HEAD:main")
	return w.git("rev-parse", "HEAD")
}

// pull brings the working copy to the head of main and returns it.
func (w *world) pull() string {
	w.t.Helper()
	w.git("fetch", "-q", "--prune", "origin")
	w.git("reset", "-q", "--hard", "origin/main")
	return w.git("rev-parse", "HEAD")
}

// seed writes the files of a service: a Kustomize base and an overlay for each target.
func (w *world) seed(service string) {
	w.t.Helper()
	root := "services/" + service + "/"
	w.write(root+"base/kustomization.yaml", "resources: [deployment.yaml]\n")
	w.write(root+"base/deployment.yaml", strings.ReplaceAll(deployment, "SERVICE", service))
	for dir, up := range map[string]string{"dev": "../base", "staging": "../base", "prod/us": "../../base", "prod/eu": "../../base"} {
		w.write(root+dir+"/kustomization.yaml", fmt.Sprintf(overlay, service, up, service, service))
		w.write(root+dir+"/values.yaml", "# values of "+service+"\nrelease:\n  version: v1.0.0 # set by Davit\nlimit: 10\n")
	}
}

const deployment = `apiVersion: apps/v1
kind: Deployment
metadata: {name: SERVICE}
spec:
  replicas: 1
  progressDeadlineSeconds: 3
  selector: {matchLabels: {app.kubernetes.io/name: SERVICE}}
  template:
    metadata:
      labels: {app.kubernetes.io/name: SERVICE}
      annotations:
        davit.dev/sandbox-start: 100ms
        davit.dev/sandbox-error-rate: v6.6.6=0.5
        davit.dev/sandbox-fail: v9.9.9=crashloop
    spec:
      containers:
        - {name: app, image: registry.example.com/acme/SERVICE}
`

const overlay = `namespace: %s
resources: [%s]
images:
  - name: registry.example.com/acme/%s
    newTag: v1.0.0
configMapGenerator:
  - name: %s
    files: [values.yaml]
`

// declare declares the service's Applications on its clusters and waits until v1.0.0 runs everywhere: synced by
// themselves at first, only when asked from then on.
func (w *world) declare(service string) {
	w.t.Helper()
	for _, policy := range []string{"{automated: {}, syncOptions: [CreateNamespace=true]}", "{syncOptions: [CreateNamespace=true]}"} {
		for _, p := range w.places {
			req := api.SandboxApplyRequest{Files: []api.File{{Path: service + ".yaml", Content: w.application(service, p, policy)}}}
			w.s.must(w.t, admin, http.MethodPost, "/api/sandbox/clusters/"+p.agent+"/apply", req, nil)
		}
		for _, p := range w.places {
			eventually(w.t, "first release of "+service+" on "+p.agent, func() (bool, string) {
				a := w.app(service, p)
				return a.Sync == promo.SyncSynced && a.Health == promo.HealthHealthy && w.reported(service, p), toJSON(a)
			})
		}
	}
}

// reported tells whether the server knows from the agent that the application is as it should be.
func (w *world) reported(service string, p place) bool {
	w.t.Helper()
	var list []api.FleetEntry
	w.s.must(w.t, developer, http.MethodGet, "/api/projects/default/fleet?service="+service+"&environment="+p.env, nil, &list)
	return slices.ContainsFunc(list, func(e api.FleetEntry) bool {
		return e.Target == p.target && e.Sync == promo.SyncSynced && e.Health == promo.HealthHealthy
	})
}

func dir(p place) string {
	if strings.HasPrefix(p.env, "prod-") {
		return "prod/" + p.target
	}
	return p.target
}

// application is the manifest of a service's Application on a target.
func (w *world) application(service string, p place, policy string) string {
	return fmt.Sprintf(`apiVersion: argoproj.io/v1alpha1
kind: Application
metadata:
  name: %[1]s-%[2]s
  namespace: argocd
  labels: {davit.dev/service: %[1]s, davit.dev/environment: %[3]s, davit.dev/target: %[2]s}
  annotations: {davit.dev/promote: default/%[1]s/%[3]s}
spec:
  project: default
  source: {repoURL: "%[4]s/git/%[5]s.git", targetRevision: main, path: services/%[1]s/%[6]s}
  destination: {name: in-cluster, namespace: %[1]s}
  syncPolicy: %[7]s
`, service, p.target, p.env, w.s.url, w.name, dir(p), policy)
}

// app returns a service's application as its cluster sees it.
func (w *world) app(service string, p place) promo.Application {
	w.t.Helper()
	var clusters []api.SandboxCluster
	w.s.must(w.t, developer, http.MethodGet, "/api/sandbox/clusters", nil, &clusters)
	for _, c := range clusters {
		for _, a := range c.Applications {
			if c.Name == p.agent && a.Name == service+"-"+p.target {
				return a
			}
		}
	}
	w.t.Fatalf("no application %s-%s on cluster %s", service, p.target, p.agent)
	return promo.Application{}
}

// start starts a pipeline as developer and returns the promotion's id.
func (w *world) start(pipeline, version string) string {
	w.t.Helper()
	return w.startWith(pipeline, api.RunRequest{Inputs: map[string]any{"version": version}})
}

func (w *world) startWith(pipeline string, req api.RunRequest) string {
	w.t.Helper()
	var p promo.Promotion
	w.s.must(w.t, developer, http.MethodPost, "/api/projects/default/pipelines/"+pipeline+"/run", req, &p)
	return p.ID
}

// on is the REST path of a promotion.
func on(id string, verb ...string) string {
	project, rest, _ := strings.Cut(id, "/")
	return strings.Join(append([]string{"/api/projects", project, "promotions", rest}, verb...), "/")
}

func (w *world) promotion(id string) promo.Promotion {
	w.t.Helper()
	var p promo.Promotion
	w.s.must(w.t, developer, http.MethodGet, on(id), nil, &p)
	return p
}

// reach waits until the promotion is as wanted and returns it.
func (w *world) reach(id, what string, wanted func(promo.Promotion) bool) promo.Promotion {
	w.t.Helper()
	var p promo.Promotion
	eventually(w.t, "promotion "+id+": "+what, func() (bool, string) {
		a, err := w.s.call(developer, http.MethodGet, on(id), nil, &p)
		if err != nil || a.Status != http.StatusOK {
			return false, fmt.Sprint(a, err)
		}
		return wanted(p), describe(p)
	})
	return p
}

// ends waits for the promotion's end and demands its phase.
func (w *world) ends(id string, phase promo.Phase) promo.Promotion {
	w.t.Helper()
	p := w.reach(id, "has ended", func(p promo.Promotion) bool { return p.Phase.Final() })
	if p.Phase != phase {
		w.t.Fatalf("want %s, got %s", phase, describe(p))
	}
	return p
}

// waits waits for the promotion's approval.
func (w *world) waits(id string) promo.Promotion {
	w.t.Helper()
	return w.reach(id, "waits for approval", func(p promo.Promotion) bool {
		if p.Phase.Final() {
			w.t.Fatalf("ended before its approval: %s", describe(p))
		}
		return p.Phase == promo.PhaseWaitingForApproval
	})
}

// describe tells a promotion in one line, for failures.
func describe(p promo.Promotion) string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s %s %q", p.ID, p.Phase, p.Message)
	if p.Error != nil {
		fmt.Fprintf(&b, " error %s: %s", p.Error.Code, p.Error.Msg)
	}
	for _, st := range p.Stages {
		fmt.Fprintf(&b, "; %s %s %q", st.Name, st.Phase, st.Message)
		for _, s := range st.Steps {
			if s.Phase != promo.PhasePending && s.Phase != promo.PhaseSucceeded {
				fmt.Fprintf(&b, " %s/%d/%s %s %q", s.Name, s.Wave, s.Target, s.Phase, s.Message)
			}
			if s.Error != nil {
				fmt.Fprintf(&b, " (%s: %s; %s)", s.Error.Code, s.Error.Msg, s.Error.Hint)
			}
		}
	}
	return b.String()
}

// step finds the first execution of a step; one that is not listed yet is empty.
func step(p promo.Promotion, stage, name string) promo.Step {
	for _, st := range p.Stages {
		if st.Name != stage {
			continue
		}
		if i := slices.IndexFunc(st.Steps, func(s promo.Step) bool { return s.Name == name }); i >= 0 {
			return st.Steps[i]
		}
	}
	return promo.Step{}
}

// approve decides as a user and demands that it counts.
func (w *world) approve(as, id string) {
	w.t.Helper()
	w.s.must(w.t, as, http.MethodPost, on(id, "decide"), api.DecideRequest{Approve: true}, nil)
}

// operations counts the commits of main by their operation.
func (w *world) operations(since string) map[string]int {
	w.t.Helper()
	w.pull()
	out := map[string]int{}
	for _, line := range strings.Fields(w.git("log", "--format=%(trailers:key=Davit-Operation,valueonly)", since+"..HEAD")) {
		out[line]++
	}
	return out
}

// pulls lists the pull requests of the world's repository.
func (w *world) pulls(state string) []api.PullRequest {
	w.t.Helper()
	var out []api.PullRequest
	w.s.must(w.t, developer, http.MethodGet, "/api/pull-requests?repository="+w.name+"&state="+state, nil, &out)
	return out
}

func toJSON(v any) string {
	b, err := json.Marshal(v)
	if err != nil {
		return err.Error()
	}
	return string(b)
}
