package agent

import (
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.temporal.io/sdk/client"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/gateway"
	"github.com/davit-cd/davit/internal/plan"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
)

func (comparer) Compare(_ context.Context, repository, _, _ string, _ []string) (steps.Relation, error) {
	if repository == "gone" {
		return steps.Relation{}, promo.Errorf(promo.CodeNotFound, "no repository %q", repository)
	}
	return steps.Relation{Kind: steps.RelationSame}, nil
}

// TestAgent is the life of an agent: it enrols, reports, works, is stopped in the middle of a step, goes on with
// it after its return, survives a restart of the gateway, and ends when it is revoked.
func TestAgent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address, stopGateway := w.serve(t, "")
	token, _, err := w.registry.Create(t.Context(), "eu", "admin", nil)
	if err != nil {
		t.Fatal(err)
	}
	e := newEngine(app("checkout", "shop/checkout/prod"))
	started, release := make(chan struct{}, 10), make(chan struct{})
	o := Options{
		Name: "eu", Server: address, Token: token, CredentialFile: filepath.Join(t.TempDir(), "credential"), Version: "v1",
		Engine: e, Types: stepTypes(started, release), Capabilities: []string{"sync", "hang"}, Logger: slog.New(slog.DiscardHandler),
		Rotate: 300 * time.Millisecond, // so that it happens all the time here
	}
	stop, _ := start(t, o)
	w.until(t, "agent comes", connected(true))
	w.until(t, "first report", reported)
	if got := w.view.All(); len(got) != 1 || got[0].Name != "checkout" || got[0].Agent != "eu" {
		t.Errorf("reported: %+v", got)
	}
	e.set(app("cart", "shop/checkout/prod"))
	w.until(t, "change", func(gateway.Change) bool { return len(w.view.All()) == 2 })

	checkSteps(t, w, e)

	run := w.run(t, "Hang", call("hang", "checkout"))
	<-started
	if err := stop(); err != nil {
		t.Errorf("a stopped agent returned %v", err)
	}
	w.until(t, "agent goes", connected(false))
	o.Token = "" // the credential in the file is enough
	_, wait := start(t, o)
	<-started // the step runs again on the agent that came back
	w.until(t, "agent returns", connected(true))

	stopGateway()
	w.until(t, "gateway stops", connected(false))
	_, _ = w.serve(t, address)
	w.until(t, "agent reconnects", connected(true))
	w.until(t, "everything is reported to the new gateway", func(gateway.Change) bool { return len(w.view.All()) == 2 })
	close(release)
	var out plan.Result
	if err := run.Get(t.Context(), &out); err != nil || out.Message != "released" {
		t.Errorf("the step that was under way all the time: %+v, %v", out, err)
	}

	if err := w.registry.Revoke(t.Context(), "eu"); err != nil {
		t.Fatal(err)
	}
	w.until(t, "revoked agent goes", connected(false))
	again, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Run(t.Context()); promo.CodeOf(err) != promo.CodeAuthentication || !strings.Contains(err.Error(), "revoked") {
		t.Errorf("a revoked agent's Run: %v", err)
	}
	if err := wait(); promo.CodeOf(err) != promo.CodeAuthentication {
		t.Errorf("the agent that was running when it was revoked: %v", err)
	}
}

func checkSteps(t *testing.T, w *world, e *engine) {
	t.Helper()
	var out plan.Result
	err := w.run(t, "Sync", call("sync-1", "checkout")).Get(t.Context(), &out)
	if err != nil || out.Message != steps.RelationSame {
		t.Errorf("sync: %+v, %v", out, err)
	}
	err = w.run(t, "Sync", call("sync-2", "other")).Get(t.Context(), nil)
	wantCode(t, "sync without consent", err, promo.CodeAuthorization, "annotate it with davit.dev/promote: shop/other/prod")
	err = w.run(t, "Job", call("job", "checkout")).Get(t.Context(), nil)
	wantCode(t, "a capability that isn't offered", err, promo.CodeAuthorization, `does not offer "job"`)
	req := contract.AppRequest{Project: "shop", Service: "checkout", Environment: "prod", Application: promo.ApplicationRef{Namespace: "argocd", Name: "cart"}}
	for _, service := range []string{"checkout", "other"} {
		req.Service = service
		run, err := w.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{TaskQueue: "flows"}, "DiffAndRefresh", req)
		if err != nil {
			t.Fatal(err)
		}
		var diff contract.DiffResult
		err = run.Get(t.Context(), &diff)
		if service == "other" {
			wantCode(t, "refresh without consent", err, promo.CodeAuthorization, "does not consent")
		} else if err != nil || len(diff.Resources) != 1 || diff.Resources[0].Unified != "-abc" {
			t.Errorf("diff: %+v, %v", diff, err)
		}
	}
	gone := call("sync-3", "checkout")
	gone.Stage.Repository.Name = "gone"
	err = w.run(t, "Sync", gone).Get(t.Context(), nil)
	wantCode(t, "a comparison that fails", err, promo.CodeNotFound, `no repository "gone"`)
	e.mu.Lock()
	defer e.mu.Unlock()
	for _, op := range e.syncs {
		if op != "sync-1" {
			t.Errorf("operation %s reached the engine", op)
		}
	}
	if len(e.syncs) != 2 {
		t.Errorf("%d applications synced, want 2", len(e.syncs))
	}
}

func TestBoundedDiff(t *testing.T) {
	t.Parallel()
	big := promo.ResourceDiff{Resource: promo.Resource{Name: "big"}, Unified: strings.Repeat("x", maxDiff)}
	small := promo.ResourceDiff{Resource: promo.Resource{Name: "small"}, Unified: "y"}
	got := bounded([]promo.ResourceDiff{small, big})
	if !got.Truncated || len(got.Resources) != 2 || got.Resources[0].Unified != "y" || got.Resources[1].Unified != "" || got.Resources[1].Name != "big" {
		t.Errorf("truncated %v, %d resources", got.Truncated, len(got.Resources))
	}
	if got := bounded([]promo.ResourceDiff{big}); got.Truncated {
		t.Error("what fits is cut")
	}
	if got := bounded(make([]promo.ResourceDiff, 1001)); !got.Truncated || len(got.Resources) != 1000 {
		t.Errorf("%d resources", len(got.Resources))
	}
}

func TestConsent(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		guard  guard
		app    promo.Application
		want   promo.Code
	}{
		"Annotated":    {"it names this service and environment", guard{}, app("a", "shop/checkout/prod"), ""},
		"Other":        {"it names another environment", guard{}, app("a", "shop/checkout/dev"), promo.CodeAuthorization},
		"Prefix":       {"the whole name counts", guard{}, app("a", "shop/checkout/prod2"), promo.CodeAuthorization},
		"None":         {"nothing said is no", guard{}, promo.Application{}, promo.CodeAuthorization},
		"Selector":     {"the agent's own configuration consents for it", guard{consent: map[string]string{"team": "a"}}, app("a", ""), ""},
		"Selector2":    {"all labels are needed", guard{consent: map[string]string{"team": "a", "x": ""}}, app("a", ""), promo.CodeAuthorization},
		"Project":      {"this project is served", guard{projects: []string{"shop"}}, app("a", "shop/checkout/prod"), ""},
		"OtherProject": {"only another project is served", guard{projects: []string{"x"}}, app("a", "shop/checkout/prod"), promo.CodeAuthorization},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			err := tc.guard.check(call("op", "checkout"), tc.app)
			if (err == nil) != (tc.want == "") || err != nil && promo.CodeOf(err) != tc.want {
				t.Errorf("%s: got %v, want %q", tc.reason, err, tc.want)
			}
			g := guarded{Engine: newEngine(tc.app), guard: &tc.guard, call: call("op", "checkout")}
			for what, err := range map[string]error{
				"sync": g.StartSync(t.Context(), tc.app.ApplicationRef, promo.SyncRequest{}), "terminate": g.Terminate(t.Context(), tc.app.ApplicationRef),
				"refresh": g.Refresh(t.Context(), tc.app.ApplicationRef, false),
			} {
				if (err == nil) != (tc.want == "") {
					t.Errorf("%s: %s: got %v", tc.reason, what, err)
				}
			}
		})
	}
	other := guarded{Engine: newEngine(), guard: &guard{name: "eu"}}
	if err := other.Terminate(t.Context(), promo.ApplicationRef{Agent: "us", Name: "a"}); promo.CodeOf(err) != promo.CodeConfiguration {
		t.Errorf("another agent's application: %v", err)
	}
}

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	write := func(name, content string) string {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
		return file
	}
	cases := map[string]struct {
		reason string
		change func(*Options)
		want   string
	}{
		"Plaintext": {"the credential would be seen", func(o *Options) { o.Server = "davit.example.com:7233" }, "without TLS"},
		"NoName":    {"a name has no default", func(o *Options) { o.Name = "" }, "needs Name"},
		"Rubbish":   {"a broken file is not overwritten silently", func(o *Options) { o.CredentialFile = write("rubbish", "{") }, "credential file"},
		"Foreign": {"two agents share a file by mistake", func(o *Options) {
			o.CredentialFile = write("foreign", `{"credentials":["`+gateway.NewCredential("us").Reveal()+`"]}`)
		}, `not that of agent "eu"`},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Options{Name: "eu", Server: "127.0.0.1:1", Engine: newEngine(), Logger: slog.New(slog.DiscardHandler)}
			tc.change(&o)
			if _, err := New(o); promo.CodeOf(err) != promo.CodeConfiguration || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want %q", tc.reason, err, tc.want)
			}
		})
	}
}

// TestKeyring replaces credentials with a crash at each point between.
func TestKeyring(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "credential")
	open := func() *keyring {
		k, err := openKeyring("eu", file)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
	k := open()
	if k.count() != 0 || k.secret() != "" {
		t.Error("a new keyring isn't empty")
	}
	first, err := k.fresh()
	if err != nil {
		t.Fatal(err)
	}
	next, err := open().prepare() // and then the process dies
	if err != nil {
		t.Fatal(err)
	}
	k = open()
	if k.count() != 2 || k.secret() != first {
		t.Errorf("after a replacement without an answer: %d credentials", k.count())
	}
	k.tryNext() // the first was refused
	if k.secret() != next {
		t.Error("the second isn't tried")
	}
	if err := k.settle(); err != nil {
		t.Fatal(err)
	}
	if k = open(); k.count() != 1 || k.secret() != next {
		t.Errorf("after the server took the second: %d credentials", k.count())
	}
	info, err := os.Stat(file)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("file: %v, %v", info.Mode(), err)
	}
	if left, err := os.ReadDir(filepath.Dir(file)); err != nil || len(left) != 1 {
		t.Errorf("files left: %v, %v", left, err)
	}
}

func TestNoCredential(t *testing.T) {
	t.Parallel()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	a, err := New(Options{Name: "eu", Server: l.Addr().String(), Engine: newEngine(), Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Run(t.Context()); promo.CodeOf(err) != promo.CodeAuthentication || !strings.Contains(err.Error(), "davit agent create eu") {
		t.Errorf("got %v", err)
	}
}

// TestAbsentServer stops an agent that has never reached its server.
func TestAbsentServer(t *testing.T) {
	t.Parallel()
	seen := make(chan struct{}, 100)
	a, err := New(Options{
		Name: "eu", Server: "127.0.0.1:1", Token: "dvae.eu.x", Engine: newEngine(),
		Logger: slog.New(signalHandler{slog.DiscardHandler, seen}),
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- a.Run(ctx) }()
	<-seen
	<-seen // it tries again
	cancel()
	if err := <-done; err != nil {
		t.Errorf("got %v", err)
	}
}
