package cli_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/api"
	"github.com/davit-cd/davit/internal/cli"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/store"
	"github.com/davit-cd/davit/internal/web"
	"github.com/davit-cd/davit/internal/web/webtest"
)

var update = flag.Bool("update", false, "write golden files")

// world is a server of fakes and a person's configuration folder.
type world struct {
	fakes webtest.Fakes
	feed  store.Feed
	url   string
	dir   string
	now   time.Time
}

func newWorld(t *testing.T) *world {
	t.Helper()
	w := &world{dir: t.TempDir(), now: time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)}
	srv, err := web.New(web.Options{
		Services: w.fakes.Services(&w.feed), Auth: webtest.People{}, Authz: webtest.People{}, Log: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(srv)
	t.Cleanup(s.Close)
	w.url = s.URL
	return w
}

type result struct {
	code     int
	out, err string
}

// davit runs a command line as the person's admin token.
func (w *world) davit(ctx context.Context, args ...string) result {
	var out, errs bytes.Buffer
	code := cli.Execute(ctx, cli.Process{
		Args: args, Stdin: strings.NewReader("secret-token\n"), Stdout: &out, Stderr: &errs, ConfigDir: w.dir,
		Now: func() time.Time { return w.now }, Version: api.Version{Version: "v0.0.1"},
		Env: func(name string) string {
			return map[string]string{"DAVIT_SERVER": w.url, "DAVIT_TOKEN": "admin"}[name]
		},
	})
	return result{code, out.String(), errs.String()}
}

func golden(t *testing.T, name, got string) {
	t.Helper()
	file := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (run with -update if meant): %s", file, d)
	}
}

// sample is a promotion that waits for approval in its second stage.
func (w *world) sample() promo.Promotion {
	at := w.now.Add(-10 * time.Minute)
	return promo.Promotion{
		ID: "default/checkout/7", Project: "default", Pipeline: "checkout", Service: "checkout", Number: 7, Attempt: 1, Version: "v1.2.3",
		TriggeredBy: "developer", PlanHash: "p1", Phase: promo.PhaseWaitingForApproval, Message: "waiting for 1 approval of release-managers", StartedAt: at,
		Stages: []promo.Stage{
			{Name: "dev", Type: "Deployment", Environment: "dev", Phase: promo.PhaseSucceeded, StartedAt: at, FinishedAt: at.Add(time.Minute), Attempt: 1, Steps: []promo.Step{
				{Name: "update", Type: "UpdateReleaseRepo", Phase: promo.PhaseSucceeded, StartedAt: at, FinishedAt: at.Add(2 * time.Second), Outputs: json.RawMessage(`{"pr":{"number":3}}`)},
				{Name: "sync", Type: "Sync", Phase: promo.PhaseSucceeded, Target: "dev-1", StartedAt: at, FinishedAt: at.Add(20 * time.Second)},
			}},
			{Name: "prod", Type: "Deployment", Environment: "prod", Phase: promo.PhaseWaitingForApproval, StartedAt: at.Add(time.Minute), Attempt: 1, Lane: &promo.LanePlace{Place: 2, Holder: "default/checkout/6"}, Steps: []promo.Step{
				{Name: "gate", Type: "Policy", Phase: promo.PhaseFailed, Error: promo.Errorf(promo.CodePolicy, "denied: no friday").WithHint("wait for monday"), StartedAt: at.Add(time.Minute), FinishedAt: at.Add(61 * time.Second)},
				{Name: "sign-off", Type: "Approval", Phase: promo.PhaseWaitingForApproval, Approval: &promo.Approval{Minimum: 1, Digest: "d1"}, StartedAt: at.Add(time.Minute)},
			}},
		},
	}
}

func (w *world) fill() {
	f := &w.fakes
	f.Promotions.GetFn = func(_ context.Context, _ promo.Principal, id string) (promo.Promotion, error) {
		if id != "default/checkout/7" {
			return promo.Promotion{}, promo.Errorf(promo.CodeNotFound, "there is no promotion %q", id)
		}
		return w.sample(), nil
	}
	f.Promotions.ListFn = func(context.Context, promo.Principal, api.PromotionFilter) ([]promo.Promotion, error) {
		other := w.sample()
		other.ID, other.Pipeline, other.Number = "default/billing/8", "billing", 8
		third := other
		third.ID, third.Pipeline = "default/checkout/8", "checkout"
		return []promo.Promotion{third, other, w.sample()}, nil
	}
	f.Promotions.DecideFn = func(_ context.Context, who promo.Principal, _ api.DecideRequest) (api.DecideResult, error) {
		if who.Name == "developer" {
			return api.DecideResult{}, promo.Errorf(promo.CodeAuthorization, "developer started it and may not approve it")
		}
		return api.DecideResult{Stage: "prod", Step: "sign-off", Approved: 1, Minimum: 1, Done: true}, nil
	}
	f.Promotions.AbortFn = func(context.Context, promo.Principal, api.AbortRequest) error {
		return promo.Errorf(promo.CodeConflict, "it has ended already")
	}
	f.Runs.RunFn = func(_ context.Context, _ promo.Principal, req api.RunRequest) (promo.Promotion, error) {
		switch req.Inputs["version"] {
		case nil:
			return promo.Promotion{}, promo.Errorf(promo.CodeConfiguration, "input %q is required", "version")
		case "denied":
			return promo.Promotion{}, api.Refused([]string{"no friday", "no http"})
		case "broken":
			return promo.Promotion{}, errors.New("disk on fire")
		}
		return w.sample(), nil
	}
	f.Environments.HistoryFn = func(context.Context, promo.Principal, api.EnvironmentRef) ([]promo.KnownGood, error) {
		return []promo.KnownGood{
			{Service: "checkout", Environment: "prod", Commit: "1a2b3c4d5e6f", Version: "v1.2.2", Promotion: "default/checkout/6", At: w.now.Add(-time.Hour), KnownGood: true},
			{Service: "checkout", Environment: "prod", Commit: "0f0f0f0f0f0f", At: w.now.Add(-72 * time.Hour), KnownGood: true, Pinned: true},
		}, nil
	}
	f.Fleet.ApplicationsFn = func(context.Context, promo.Principal, api.EnvironmentRef) ([]api.FleetEntry, error) {
		return []api.FleetEntry{{Agent: "us", Target: "us-east", Environment: "prod", Application: "checkout-us", Revision: "1a2b3c4d5e6f", Sync: promo.SyncSynced, Health: promo.HealthHealthy, Images: []string{"checkout:v1.2.2"}}}, nil
	}
	f.Rollbacks.PreviewFn = func(context.Context, promo.Principal, api.RollbackRequest) (promo.Preview, error) {
		return promo.Preview{
			To: "1a2b3c4d5e6f", Version: "v1.2.2", From: "ffffffff00", Files: []string{"prod/us-east/values.yaml"}, Shared: []string{"base/deployment.yaml"}, Readers: []string{"dev", "staging"},
			Foreign: []promo.Commit{{SHA: "abcdef0123", Author: "someone", Subject: "raise memory"}}, Prunes: map[string][]string{"us-east": {"ConfigMap/extra"}}, Diff: "-tag: v1.2.3\n+tag: v1.2.2\n",
		}, nil
	}
	f.Definitions.ApplyFn = func(_ context.Context, _ promo.Principal, req api.ApplyRequest) (api.ApplyResult, error) {
		if strings.Contains(req.Files[0].Content, "bad") {
			return api.ApplyResult{}, api.Diagnosed(promo.Errorf(promo.CodeConfiguration, "1 problem"), []string{"x.yaml:1:1: bad: good"})
		}
		return api.ApplyResult{Changes: []api.DefinitionChange{{Kind: "Pipeline", Name: "checkout", Change: "created"}}}, nil
	}
}

func TestOutputs(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill()
	for name, args := range map[string][]string{
		"get-promotions.txt":   {"get", "promotions"},
		"get-promotion.txt":    {"get", "promotion", "checkout/7"},
		"get-promotion.json":   {"get", "promotion", "7", "-o", "json"},
		"run.txt":              {"run", "checkout", "--input", "version=v1.2.3"},
		"history.txt":          {"history", "--service", "checkout", "--environment", "prod"},
		"history.json":         {"history", "--service", "checkout", "--environment", "prod", "-o", "json"},
		"fleet.txt":            {"fleet"},
		"fleet.yaml":           {"fleet", "-o", "yaml"},
		"rollback-preview.txt": {"rollback", "--service", "checkout", "--environment", "prod", "--dry-run"},
		"approve.txt":          {"approve", "checkout/7", "--comment", "ok"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.davit(t.Context(), args...)
			if r.code != cli.ExitDone || r.err != "" {
				t.Fatalf("exit %d, stderr %q", r.code, r.err)
			}
			golden(t, name, r.out)
		})
	}
}

func TestExitCodes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill()
	bad := filepath.Join(t.TempDir(), "x.yaml")
	if err := os.WriteFile(bad, []byte("bad"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, tc := range map[string]struct {
		reason string
		args   []string
		code   int
		stderr string
	}{
		"done":          {"", []string{"version"}, cli.ExitDone, ""},
		"denied":        {"a policy's no", []string{"run", "checkout", "-i", "version=denied"}, cli.ExitNo, "deny: no http"},
		"not allowed":   {"the wrong person", []string{"approve", "checkout/7", "--as", "developer"}, cli.ExitNo, "may not approve"},
		"conflict":      {"too late", []string{"abort", "checkout/7"}, cli.ExitNo, "ended already"},
		"unknown word":  {"", []string{"prmote"}, cli.ExitUsage, "prmote"},
		"unknown flag":  {"", []string{"run", "checkout", "--inptu", "x"}, cli.ExitUsage, "inptu"},
		"missing arg":   {"", []string{"run"}, cli.ExitUsage, "davit run PIPELINE"},
		"bad input":     {"", []string{"run", "checkout", "--input", "version"}, cli.ExitUsage, "name=value"},
		"bad output":    {"", []string{"fleet", "-o", "xml"}, cli.ExitUsage, "xml"},
		"refused input": {"the server's word on input", []string{"run", "checkout"}, cli.ExitUsage, "required"},
		"bad files":     {"every problem is shown", []string{"apply", "-f", bad}, cli.ExitUsage, "x.yaml:1:1: bad: good"},
		"not there":     {"", []string{"get", "promotion", "checkout/9"}, cli.ExitUsage, "no promotion"},
		"ambiguous":     {"two pipelines have a number 8", []string{"get", "promotion", "8"}, cli.ExitUsage, "default/checkout/8 or default/billing/8"},
		"no flags":      {"", []string{"history"}, cli.ExitUsage, "--service"},
		"broken server": {"", []string{"run", "checkout", "-i", "version=broken"}, cli.ExitUnknown, "unexpected error"},
		"no server":     {"", []string{"fleet", "--server", "http://127.0.0.1:1"}, cli.ExitUnknown, "is the server running"},
		"bad address":   {"", []string{"fleet", "--server", "example.com"}, cli.ExitUsage, "no address"},
		"bad token":     {"", []string{"fleet", "--token", "nobody"}, cli.ExitUnknown, "send a token"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := w.davit(t.Context(), tc.args...)
			if r.code != tc.code || !strings.Contains(r.err, tc.stderr) {
				t.Errorf("%s: exit %d, want %d; stderr %q wants %q", tc.reason, r.code, tc.code, r.err, tc.stderr)
			}
			if tc.code != cli.ExitDone && r.out != "" {
				t.Errorf("standard output is not empty: %q", r.out)
			}
		})
	}
}

// ends lets the promotion go through two states; the second one is the last.
func (w *world) ends(phase promo.Phase) {
	states := make(chan promo.Promotion, 3)
	first := w.sample()
	last := w.sample()
	last.Phase, last.FinishedAt, last.Message = phase, w.now, ""
	last.Stages[1].Phase, last.Stages[1].Lane, last.Stages[1].FinishedAt = phase, nil, w.now
	last.Stages[1].Steps = last.Stages[1].Steps[1:]
	last.Stages[1].Steps[0].Phase, last.Stages[1].Steps[0].FinishedAt = phase, w.now
	states <- first
	w.fakes.Promotions.GetFn = func(context.Context, promo.Principal, string) (promo.Promotion, error) {
		p := <-states
		if !p.Phase.Final() {
			states <- last
			w.feed.Publish(store.Event{Kind: store.EventPromotion, ID: p.ID})
		}
		return p, nil
	}
}

func TestWaiting(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		phase  promo.Phase
		args   []string
		code   int
		golden string
	}{
		"wait":   {"the answer is the end, progress goes beside it", promo.PhaseSucceeded, []string{"run", "checkout", "-i", "version=v1", "--wait"}, cli.ExitDone, "wait"},
		"json":   {"", promo.PhaseSucceeded, []string{"run", "checkout", "-i", "version=v1", "--wait", "-o", "json"}, cli.ExitDone, "wait-json"},
		"failed": {"a failed promotion is a no", promo.PhaseFailed, []string{"run", "checkout", "-i", "version=v1", "--wait"}, cli.ExitNo, "wait-failed"},
		"watch":  {"not on a terminal: lines", promo.PhaseSucceeded, []string{"watch", "checkout/7"}, cli.ExitDone, "watch"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.fill()
			w.ends(tc.phase)
			ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
			defer cancel()
			r := w.davit(ctx, tc.args...)
			if r.code != tc.code {
				t.Errorf("%s: exit %d; %s", tc.reason, r.code, r.err)
			}
			golden(t, tc.golden+".out", r.out)
			golden(t, tc.golden+".err", r.err)
		})
	}
}

func TestCancelledWaitSaysHowToGoOn(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.fill()
	ctx, cancel := context.WithCancel(t.Context())
	get := w.fakes.Promotions.GetFn
	w.fakes.Promotions.GetFn = func(ctx context.Context, who promo.Principal, id string) (promo.Promotion, error) {
		defer cancel() // Ctrl-C while the first state is on its way
		return get(ctx, who, id)
	}
	r := w.davit(ctx, "run", "checkout", "-i", "version=v1", "--wait")
	if r.code != cli.ExitUnknown || !strings.Contains(r.err, "davit watch checkout/7") {
		t.Errorf("exit %d: %s", r.code, r.err)
	}
}

func TestLoginKeepsTheTokenToItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	env := func(string) string { return "" }
	run := func(args ...string) result {
		var out, errs bytes.Buffer
		code := cli.Execute(t.Context(), cli.Process{Args: args, Stdin: strings.NewReader("admin\n"), Stdout: &out, Stderr: &errs, ConfigDir: w.dir, Env: env})
		return result{code, out.String(), errs.String()}
	}
	if r := run("fleet"); r.code != cli.ExitUnknown || !strings.Contains(r.err, "davit up") {
		t.Errorf("without a server: %+v", r)
	}
	if r := run("login", w.url); r.code != cli.ExitDone || !strings.Contains(r.out, "as admin") {
		t.Fatalf("login: %+v", r)
	}
	info, err := os.Stat(filepath.Join(w.dir, "davit", "login.json"))
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	w.fill()
	if r := run("fleet", "-o", "json"); r.code != cli.ExitDone {
		t.Errorf("after login: %+v", r)
	}
}

func TestUpLeavesTheWayInWhileItRuns(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	file := filepath.Join(w.dir, "davit", "up.json")
	var got cli.UpOptions
	var out, errs bytes.Buffer
	code := cli.Execute(t.Context(), cli.Process{
		Args: []string{"up", "--demo", "--data-dir", "d"}, Stdout: &out, Stderr: &errs, ConfigDir: w.dir,
		Up: func(_ context.Context, o cli.UpOptions) error {
			got = o
			if err := o.Ready(cli.UpInfo{URL: w.url, Token: "admin", Lines: []string{"pages " + w.url}}); err != nil {
				return err
			}
			info, err := os.Stat(file)
			if err != nil || info.Mode().Perm() != 0o600 {
				t.Errorf("mode %v, %v", info.Mode(), err)
			}
			return nil
		},
	})
	if code != cli.ExitDone || !strings.Contains(out.String(), "pages http") {
		t.Errorf("exit %d: %s%s", code, out.String(), errs.String())
	}
	if got.Listen != "127.0.0.1:8080" || !got.Demo || got.DataDir != "d" {
		t.Errorf("options %+v", got)
	}
	if _, err := os.Stat(file); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the way in is left behind: %v", err)
	}
}

func TestPolicyEval(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dir := t.TempDir()
	module, input := filepath.Join(dir, "m.rego"), filepath.Join(dir, "in.json")
	for file, text := range map[string]string{
		module: "package p\n\ndeny contains msg if {\n\tinput.day == \"friday\"\n\tmsg := \"no friday\"\n}\n", input: `{"day":"friday"}`,
	} {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	r := w.davit(t.Context(), "policy", "eval", module, "--input", input, "-o", "json")
	var got map[string][]string
	if err := json.Unmarshal([]byte(r.out), &got); err != nil {
		t.Fatalf("%v: %+v", err, r)
	}
	if d := cmp.Diff(map[string][]string{"deny": {"no friday"}, "warn": {}}, got); d != "" || r.code != cli.ExitNo {
		t.Errorf("exit %d: %s", r.code, d)
	}
}

func TestAServerThatIsNoDavit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	other := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, _ *http.Request) { _, _ = rw.Write([]byte("<html>")) }))
	t.Cleanup(other.Close)
	if r := w.davit(t.Context(), "fleet", "--server", other.URL); r.code != cli.ExitUnknown || !strings.Contains(r.err, "isn't Davit's") {
		t.Errorf("%+v", r)
	}
}

func TestActingAsADemoUser(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		file   string
		args   []string
		want   string // user asked for, then token
	}{
		"nobody":       {"the machine's own token", "up.json", nil, " Bearer mine"},
		"up":           {"the machine's token is the admin's and would win", "up.json", []string{"--as", "developer"}, "developer "},
		"own token":    {"what a person gives is sent: the server says what goes together", "up.json", []string{"--as", "developer", "--token", "t"}, "developer Bearer t"},
		"after log-in": {"a log-in is a person's own", "login.json", []string{"--as", "developer"}, "developer Bearer mine"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			asked := make(chan string, 1)
			srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
				asked <- r.Header.Get("Davit-As") + " " + r.Header.Get("Authorization")
				_, _ = rw.Write([]byte("[]"))
			}))
			t.Cleanup(srv.Close)
			dir := t.TempDir()
			if err := os.Mkdir(filepath.Join(dir, "davit"), 0o700); err != nil {
				t.Fatal(err)
			}
			at, err := json.Marshal(map[string]string{"url": srv.URL, "token": "mine"})
			if err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, "davit", tc.file), at, 0o600); err != nil {
				t.Fatal(err)
			}
			var out, errs bytes.Buffer
			code := cli.Execute(t.Context(), cli.Process{Args: append([]string{"fleet"}, tc.args...), Stdout: &out, Stderr: &errs, ConfigDir: dir})
			if code != cli.ExitDone {
				t.Fatalf("exit %d: %s", code, errs.String())
			}
			if got := <-asked; got != tc.want {
				t.Errorf("%s: want %q, got %q", tc.reason, tc.want, got)
			}
		})
	}
}
