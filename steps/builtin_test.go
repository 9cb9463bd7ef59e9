package steps_test

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/steps"
	"github.com/davit-cd/davit/steps/stepstest"
)

// opened runs an UpdateReleaseRepo, so that later steps find a change.
func opened(t *testing.T, w *stepstest.World) plan.Change {
	t.Helper()
	out, err := steps.UpdateReleaseRepo().Run(t.Context(), w.In("update", `{"files":[{"path":"dev/values.yaml","set":{"image.tag":"v1.1.0"}}]}`))
	if err != nil {
		t.Fatal(err)
	}
	return *out.Change
}

func merged(t *testing.T, w *stepstest.World) plan.Change {
	t.Helper()
	in := w.In("merge", `{}`)
	in.Change = opened(t, w)
	out, err := steps.MergePR().Run(t.Context(), in)
	if err != nil || out.Change == nil {
		t.Fatalf("merge: %v %+v", err, out)
	}
	return *out.Change
}

// constant answers every query with one value.
type constant float64

func (c constant) Range(_ context.Context, _, _ string, start, end time.Time, step time.Duration) ([]steps.Series, error) {
	var s steps.Series
	for t := start; !t.After(end); t = t.Add(step) {
		s.Points = append(s.Points, steps.Point{T: t, V: float64(c), Valid: true})
	}
	return []steps.Series{s}, nil
}

// decider answers every policy request alike.
type decider struct {
	steps.PolicyDecision
	err error
	got steps.PolicyRequest
}

func (d *decider) Decide(_ context.Context, req steps.PolicyRequest) (steps.PolicyDecision, error) {
	d.got = req
	return d.PolicyDecision, d.err
}

// TestConformance runs every built-in action, each call twice with the same operation, and demands the same world.
func TestConformance(t *testing.T) {
	t.Parallel()
	cases := map[string]func(t *testing.T, w *stepstest.World) steps.In{
		"UpdateReleaseRepo": func(_ *testing.T, w *stepstest.World) steps.In {
			return w.In("update", `{"files":[{"path":"dev/values.yaml","set":{"image.tag":"v1.1.0"},"append":{"hosts":["a","b"]}}]}`)
		},
		"UpdateReleaseRepo/push": func(_ *testing.T, w *stepstest.World) steps.In {
			return w.In("update", `{"delivery":"push","files":[{"path":"dev/kustomization.yaml","kustomizeImage":{"name":"checkout","newTag":"v1.1.0"}}]}`)
		},
		"MergePR": func(t *testing.T, w *stepstest.World) steps.In {
			t.Helper()
			in := w.In("merge", `{"method":"squash"}`)
			in.Change = opened(t, w)
			return in
		},
		"RevertPR": func(t *testing.T, w *stepstest.World) steps.In {
			t.Helper()
			in := w.In("revert", `{}`)
			in.Change = merged(t, w)
			return in
		},
		"FetchLinkedApps": func(_ *testing.T, w *stepstest.World) steps.In {
			w.Engine.Add(stepstest.App("checkout-dev", w.Repo.Head("main")))
			return w.In("apps", `{}`)
		},
		"Sync": func(t *testing.T, w *stepstest.World) steps.In {
			t.Helper()
			w.Engine.Add(stepstest.App("checkout-dev", w.Repo.Head("main")))
			in := w.In("sync", `{}`)
			in.Change = merged(t, w)
			return in
		},
		"Policy": func(_ *testing.T, w *stepstest.World) steps.In {
			w.Ports.Policy = &decider{PolicyDecision: steps.PolicyDecision{ID: "d1", Warn: []string{"careful"}}}
			return w.In("gate", `{"sets":["production-gate"]}`)
		},
		"Verify": func(_ *testing.T, w *stepstest.World) steps.In {
			w.Ports.Metrics = constant(0.5)
			return w.In("verify", `{"window":{"duration":"20s","interval":"2s"},"metrics":[{"name":"errors","connector":"prom","query":"q","failIf":"value > 1"}]}`)
		},
		"Http": func(t *testing.T, w *stepstest.World) steps.In {
			t.Helper()
			calls := 0
			s := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				if key := r.Header.Get("Idempotency-Key"); key != "shop/checkout/7/dev.1/call" {
					t.Errorf("Idempotency-Key %q", key)
				}
				if calls++; calls < 5 {
					rw.WriteHeader(http.StatusServiceUnavailable)
				}
				_, _ = io.WriteString(rw, `{"ready":true}`)
			}))
			t.Cleanup(s.Close)
			w.Ports.HTTP = s.Client()
			return w.In("call", `{"url":"`+s.URL+`","expect":"status == 200 && json.ready","poll":{"interval":"5s"}}`)
		},
	}
	for _, typ := range steps.Builtin() {
		for name, setup := range cases {
			if name != typ.Kind && !strings.HasPrefix(name, typ.Kind+"/") {
				continue
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				w := stepstest.NewWorld(t)
				in := setup(t, w)
				out := stepstest.Run(t, w, typ, in)
				if out.Verdict != nil || out.Ask != nil {
					t.Errorf("ended with %+v %+v", out.Verdict, out.Ask)
				}
				declaredOutputs(t, typ, out.Outputs)
			})
		}
		if _, ok := cases[typ.Kind]; !ok && !typ.Gate {
			t.Errorf("step type %s has no conformance case", typ.Kind)
		}
	}
}

// declaredOutputs demands that what a step answers is what its documentation lists.
func declaredOutputs(t *testing.T, typ steps.Type, raw json.RawMessage) {
	t.Helper()
	var got map[string]any
	if err := json.Unmarshal(raw, &got); err != nil {
		t.Fatalf("outputs %s: %v", raw, err)
	}
	for name, v := range got {
		_, ok := typ.Outputs[name]
		if inner, isMap := v.(map[string]any); isMap && !ok {
			ok = len(inner) > 0
			for k := range inner {
				_, listed := typ.Outputs[name+"."+k]
				ok = ok && listed
			}
		}
		if !ok {
			t.Errorf("output %q of %s isn't documented", name, typ.Kind)
		}
	}
}

// TestTypes holds every built-in type to the contract of its description.
func TestTypes(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, typ := range steps.Builtin() {
		if seen[typ.Kind] {
			t.Errorf("%s is listed twice", typ.Kind)
		}
		seen[typ.Kind] = true
		if typ.Gate != (typ.Run == nil) {
			t.Errorf("%s: gates, and only gates, have no Run", typ.Kind)
		}
		if typ.Summary == "" || strings.HasSuffix(typ.Summary, ".") || typ.Scope == "" || typ.Class == "" || typ.Timeout <= 0 || typ.Mutates == nil {
			t.Errorf("%s: incomplete description %+v", typ.Kind, typ)
		}
		a, b := typ.Config(), typ.Config()
		if a == nil || a == b {
			t.Errorf("%s: Config must return a new value each time", typ.Kind)
		}
		if typ.Check != nil {
			typ.Check(a)           // defaults alone must not panic
			typ.Check(struct{}{})  // nor must a foreign config
			typ.Check((*int)(nil)) // nor nil
		}
	}
}

// TestWithoutPorts demands that a step whose ports are missing says so.
func TestWithoutPorts(t *testing.T) {
	t.Parallel()
	specs := map[string]string{
		"UpdateReleaseRepo": `{"files":[{"path":"dev/values.yaml","set":{"a":1}}]}`,
		"Policy":            `{"sets":["x"]}`,
		"Verify":            `{"metrics":[{"name":"m","connector":"p","query":"q","failIf":"value > 1"}]}`,
		"Http":              `{"url":"https://example.com"}`,
		"RevertPR":          `{"commit":"0123456789012345678901234567890123456789"}`,
	}
	for _, typ := range steps.Builtin() {
		if typ.Gate {
			continue
		}
		w := stepstest.World{}
		in := w.In("step", specs[typ.Kind])
		in.Change.PR = 1
		if typ.Kind == "Sync" {
			in.Change.Merged = "0123456789012345678901234567890123456789"
		}
		_, err := typ.Run(t.Context(), in)
		failsWith(t, typ.Kind, err, "Configuration", "does not have")
		in.Spec = json.RawMessage(`{"nonsense":1}`)
		_, err = typ.Run(t.Context(), in)
		failsWith(t, typ.Kind, err, "Configuration", "nonsense")
	}
}
