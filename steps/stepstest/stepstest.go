// Package stepstest runs step types against a small honest world and demands that doing a thing twice is doing it
// once: every call of a step is made twice with the same input, and the second must find the world, and give the
// answer, that the first left. Temporal makes such second calls whenever a worker dies or an answer is lost.
//
// The world is real where it can be: Git repositories served over HTTP by git itself, merges made by git. The
// engine and the forge's bookkeeping are fakes that keep the traps of the real ones (engine.go).
//
// Start reading at Run and World.
package stepstest

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/expr-lang/expr"
	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/testkit/gitserver"
	"github.com/davit-cd/davit/steps"
)

// Now is when the steps of a World run.
var Now = time.Date(2026, 1, 2, 10, 0, 0, 0, time.UTC) //nolint:gochecknoglobals // a constant that Go has no word for

// World is what steps act on.
type World struct {
	TB     testing.TB
	Repo   *gitserver.Repo
	Forge  *Forge
	Engine *Engine
	// Policies, Metrics and HTTP are set by tests that need them.
	Ports steps.Ports

	mu    sync.Mutex
	blobs map[string]string
	Log   []string // effects that leave no other trace
}

// NewWorld makes a repository with a service "checkout" in environments dev and prod.
func NewWorld(tb testing.TB) *World {
	tb.Helper()
	server := gitserver.New(tb)
	w := &World{TB: tb, Repo: server.Repo("deploy"), blobs: map[string]string{}}
	w.Repo.Commit("main", "start", gitserver.Text(map[string]string{
		"services/checkout/dev/values.yaml":         "# dev\nimage:\n  tag: v1.0.0 # by Davit\nreplicas: 1\n",
		"services/checkout/prod/values.yaml":        "# prod\r\nimage: {tag: 'v0.9.0'}\r\n",
		"services/checkout/dev/kustomization.yaml":  "images:\n- name: checkout\n  newTag: v1.0.0\n",
		"services/checkout/prod/kustomization.yaml": "images: []\n",
		"base/common.yaml":                          "shared: true\n",
		"README.md":                                 "not yours\n",
	}))
	mirrors, err := git.NewMirrors(tb.TempDir(), git.Options{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() { _ = mirrors.Close() })
	repo, err := mirrors.Open(tb.Context(), git.Remote{Name: "deploy", URL: w.Repo.URL})
	if err != nil {
		tb.Fatal(err)
	}
	w.Forge = &Forge{repo: w.Repo}
	w.Engine = NewEngine()
	w.Ports = steps.Ports{
		Git: gitPort{repo}, Forge: w.Forge, Apps: w.Engine, GitOps: w.Engine, Compare: gitPort{repo}, Blobs: w, Eval: Eval,
	}
	return w
}

// Eval evaluates a boolean expression as the product does.
func Eval(expression string, vars map[string]any) (bool, error) {
	v, err := expr.Eval(expression, vars)
	if err != nil {
		return false, err
	}
	b, ok := v.(bool)
	if !ok {
		return false, fmt.Errorf("%s is no condition", expression)
	}
	return b, nil
}

// In is a call of a step in stage dev of a promotion of checkout.
func (w *World) In(step, spec string) steps.In {
	env := &plan.Environment{Name: "dev", Type: "PreProduction"}
	target := plan.Target{Name: "dev-1", Agent: "sandbox"}
	return steps.In{
		Ports: w.Ports, Log: slog.New(slog.DiscardHandler),
		Call: plan.Call{
			Operation: "shop/checkout/7/dev.1/" + step, Spec: json.RawMessage(spec), Target: &target,
			StartedAt: Now, Now: Now, Deadline: Now.Add(10 * time.Minute), WaveTargets: []plan.Target{target},
			Run: plan.RunInfo{
				ID: "shop/checkout/7", Project: "shop", Pipeline: "checkout", Number: 7, Attempt: 1, Version: "v1.1.0",
				TriggeredBy: promo.Principal{Name: "dana", Email: "dana@example.com"},
			},
			Stage: plan.StageInfo{
				Name: "dev", Step: step, Environment: env, Repository: plan.Repository{Name: "deploy"},
				Service: plan.Service{
					Name: "checkout", Branch: "main", Path: "services/checkout", Shared: []string{"base"},
					Owned: map[string][]string{"dev": {"services/checkout/dev"}, "prod": {"services/checkout/prod"}},
				},
			},
		},
	}
}

// Put implements steps.Blobs.
func (w *World) Put(_ context.Context, mediaType string, data []byte) (string, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	sum := sha256.Sum256(data)
	digest := "sha256:" + hex.EncodeToString(sum[:])
	w.blobs[digest] = mediaType
	return digest, nil
}

// Snapshot describes everything that steps can change.
func (w *World) Snapshot() string {
	w.TB.Helper()
	var b strings.Builder
	b.WriteString(w.Repo.Git("for-each-ref", "--format=%(refname) %(objectname)"))
	w.mu.Lock()
	fmt.Fprintln(&b, slices.Sorted(maps.Keys(w.blobs)), w.Log)
	w.mu.Unlock()
	b.WriteString(w.Forge.snapshot())
	b.WriteString(w.Engine.snapshot())
	return b.String()
}

// Run drives a step to its end, makes every call twice, and demands the same world and the same answer. It
// returns the last answer, so that a test can look at that too.
func Run(t *testing.T, w *World, typ steps.Type, in steps.In) steps.Out {
	t.Helper()
	const most = 50 // calls: a step that never ends is a mistake too
	for range most {
		out, err := typ.Run(t.Context(), in)
		if err != nil {
			t.Fatalf("%s: %v", typ.Kind, err)
		}
		before := w.Snapshot()
		twice, err := typ.Run(t.Context(), in)
		if err != nil {
			t.Fatalf("%s, the same call again: %v", typ.Kind, err)
		}
		if d := cmp.Diff(before, w.Snapshot()); d != "" {
			t.Fatalf("%s: the same call again changed the world: -first +second\n%s", typ.Kind, d)
		}
		if d := cmp.Diff(text(out), text(twice)); d != "" {
			t.Fatalf("%s: the same call again answered otherwise: -first +second\n%s", typ.Kind, d)
		}
		if out.Again == nil {
			return out
		}
		in.State = out.Again.State
		in.Now = in.Now.Add(out.Again.After)
	}
	t.Fatalf("%s asks to be called again for ever", typ.Kind)
	return steps.Out{}
}

func text(o steps.Out) string {
	b, err := json.MarshalIndent(o, "", " ")
	if err != nil {
		return err.Error()
	}
	return string(b)
}
