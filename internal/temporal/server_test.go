package temporal

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"go.temporal.io/server/common/log/tag"
	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"

	"github.com/davit-cd/davit/internal/promo"
)

func options(t *testing.T, dir string) Options {
	t.Helper()
	return Options{
		Dir: dir, Namespace: "davit", Logger: slog.New(slog.DiscardHandler),
		SearchAttributes: SearchAttributes{"DavitPipeline": enumspb.INDEXED_VALUE_TYPE_KEYWORD},
	}
}

func startServer(t *testing.T, o Options) *Server {
	t.Helper()
	s, err := Start(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return s
}

func dial(t *testing.T, s *Server, o client.Options) client.Client {
	t.Helper()
	c, err := s.Dial(t.Context(), o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// greet waits for a signal, so that it is under way when the server stops.
func greet(ctx workflow.Context) (string, error) {
	var name string
	workflow.GetSignalChannel(ctx, "name").Receive(ctx, &name)
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		StartToCloseTimeout: 10 * time.Second, RetryPolicy: &temporal.RetryPolicy{MaximumAttempts: 1},
	})
	var out string
	err := workflow.ExecuteActivity(ctx, "Hello", name).Get(ctx, &out)
	return out, err
}

func startWorker(t *testing.T, c client.Client) worker.Worker {
	t.Helper()
	w := worker.New(c, "q", worker.Options{})
	w.RegisterWorkflowWithOptions(greet, workflow.RegisterOptions{Name: "Greet"})
	w.RegisterActivity(&hello{})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	return w
}

type hello struct{}

func (*hello) Hello(_ context.Context, name string) (string, error) { return "hello " + name, nil }

// TestRestart is one long story, because each server costs a second: state survives a stop, a second start
// on the same directory is refused while the first runs, new search attributes and retention arrive, Stop
// twice is the same as once, metrics are counted, and a stranger without the certificate is turned away.
func TestRestart(t *testing.T) {
	t.Parallel()
	o := options(t, filepath.Join(t.TempDir(), "a dir with 100% odd name"))
	first := startServer(t, o)
	reg := prometheus.NewPedanticRegistry()
	c := dial(t, first, client.Options{MetricsHandler: NewMetricsHandler(reg)})
	pipeline := temporal.NewSearchAttributeKeyKeyword("DavitPipeline")
	run, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: "greet", TaskQueue: "q", TypedSearchAttributes: temporal.NewSearchAttributes(pipeline.ValueSet("checkout")),
	}, "Greet")
	if err != nil {
		t.Fatal(err)
	}

	_, err = Start(t.Context(), o)
	if want := "in use by process " + strconv.Itoa(os.Getpid()); promo.CodeOf(err) != promo.CodeConfiguration || !strings.Contains(err.Error(), want) {
		t.Errorf("second start: got %v, want Configuration and %q", err, want)
	}
	checkStranger(t, first.Address())

	c.Close()
	for range 2 {
		if err := first.Stop(); err != nil {
			t.Fatal(err)
		}
	}
	select {
	case <-first.Failed():
		t.Errorf("server failed: %v", first.Err())
	default:
	}

	o.SearchAttributes["DavitService"] = enumspb.INDEXED_VALUE_TYPE_KEYWORD
	o.Retention, o.Durability = 60*24*time.Hour, DurabilityFull
	second := startServer(t, o)
	c = dial(t, second, client.Options{MetricsHandler: NewMetricsHandler(reg)})
	w := startWorker(t, c)
	defer w.Stop()
	if err := c.SignalWorkflow(t.Context(), "greet", "", "name", "world"); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := c.GetWorkflow(t.Context(), "greet", run.GetRunID()).Get(t.Context(), &got); err != nil || got != "hello world" {
		t.Errorf("workflow after restart: got %q, %v", got, err)
	}
	checkNamespace(t, c, o)
	checkMetrics(t, reg)
}

func checkStranger(t *testing.T, address string) {
	t.Helper()
	conn, err := grpc.NewClient(address, grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	if _, err := workflowservice.NewWorkflowServiceClient(conn).GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{}); err == nil {
		t.Error("a caller without the certificate got an answer")
	}
}

func checkNamespace(t *testing.T, c client.Client, o Options) {
	t.Helper()
	d, err := c.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: "davit"})
	if err != nil {
		t.Fatal(err)
	}
	if got := d.GetConfig().GetWorkflowExecutionRetentionTtl().AsDuration(); got != o.Retention {
		t.Errorf("retention: got %s, want %s", got, o.Retention)
	}
	service := temporal.NewSearchAttributeKeyKeyword("DavitService")
	if _, err := c.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{
		ID: "other", TaskQueue: "q", TypedSearchAttributes: temporal.NewSearchAttributes(service.ValueSet("checkout")),
	}, "Greet"); err != nil {
		t.Errorf("start with an attribute added later: %v", err)
	}
	n, err := c.CountWorkflow(t.Context(), &workflowservice.CountWorkflowExecutionsRequest{
		Namespace: "davit", Query: "DavitPipeline = 'checkout' AND DavitService IS NULL",
	})
	if err != nil || n.GetCount() != 1 {
		t.Errorf("count by the first attribute: got %v, %v, want 1", n.GetCount(), err)
	}
}

func checkMetrics(t *testing.T, reg *prometheus.Registry) {
	t.Helper()
	families, err := reg.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range families {
		found[f.GetName()] = true
	}
	for _, want := range []string{
		"temporal_request_total", "temporal_request_latency_seconds", "temporal_num_pollers", "temporal_workflow_completed_total",
		"temporal_activity_execution_latency_seconds",
	} {
		if !found[want] {
			t.Errorf("no metric %s among %v", want, found)
		}
	}
}

func TestStartRefuses(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	rubbish := t.TempDir()
	if err := os.WriteFile(filepath.Join(rubbish, databaseFile), bytes.Repeat([]byte("rubbish "), 1000), 0o600); err != nil {
		t.Fatal(err)
	}
	cases := map[string]struct {
		reason string
		change func(*Options)
		want   string
	}{
		"NoNamespace":    {"a namespace has no default", func(o *Options) { o.Namespace = "" }, "needs Dir, Namespace and Logger"},
		"Durability":     {"an unknown word is not normal", func(o *Options) { o.Durability = "maybe" }, `durability "maybe"`},
		"ShortRetention": {"histories of running trouble would vanish", func(o *Options) { o.Retention = time.Hour }, "retention 1h0m0s"},
		"DirIsFile":      {"the directory can't be made", func(o *Options) { o.Dir = file }, "make the directory"},
		"Rubbish":        {"a file that is no database is kept as it is", func(o *Options) { o.Dir = rubbish }, "not a database"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := options(t, filepath.Join(t.TempDir(), "d"))
			tc.change(&o)
			_, err := Start(t.Context(), o)
			if promo.CodeOf(err) != promo.CodeConfiguration || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want Configuration with %q", tc.reason, err, tc.want)
			}
			if name == "Rubbish" {
				checkLockFree(t, o.Dir)
			}
		})
	}
}

// checkLockFree proves that a start that failed gave its lock back.
func checkLockFree(t *testing.T, dir string) {
	t.Helper()
	l, err := LockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := l.Release(); err != nil {
		t.Error(err)
	}
}

// TestMigrateThenServe starts the server on a database that an older release made.
func TestMigrateThenServe(t *testing.T) {
	t.Parallel()
	o := options(t, t.TempDir())
	file := filepath.Join(o.Dir, databaseFile)
	makeOlder(t, file)
	s := startServer(t, o)
	c := dial(t, s, client.Options{})
	w := startWorker(t, c)
	defer w.Stop()
	run, err := c.SignalWithStartWorkflow(t.Context(), "w", "name", "old", client.StartWorkflowOptions{TaskQueue: "q"}, "Greet")
	if err != nil {
		t.Fatal(err)
	}
	var got string
	if err := run.Get(t.Context(), &got); err != nil || got != "hello old" {
		t.Errorf("got %q, %v", got, err)
	}
}

// TestFatalLogEndsOnlyTheGoroutine is about what Temporal does when it can't go on.
func TestFatalLogEndsOnlyTheGoroutine(t *testing.T) {
	t.Parallel()
	var buf bytes.Buffer
	f := newFatal()
	l := logger{to: slog.New(slog.NewTextHandler(&buf, nil)), level: slog.LevelWarn, fatal: f}
	returned := make(chan bool, 1)
	go func() {
		after := false
		defer func() { returned <- after }()
		l.Info("quiet")
		l.Fatal("Failed to start gRPC listener", tag.Error(net.ErrClosed))
		after = true
	}()
	if <-returned {
		t.Error("Fatal returned to its caller")
	}
	<-f.failed
	if err := f.err(); !errors.Is(err, errPortTaken) || !strings.Contains(err.Error(), net.ErrClosed.Error()) {
		t.Errorf("got %v, want the cause and errPortTaken", err)
	}
	if got := buf.String(); strings.Contains(got, "quiet") || !strings.Contains(got, "level=ERROR") {
		t.Errorf("log: %s", got)
	}
}

// TestExternal dials an embedded server as if it were somebody else's.
func TestExternal(t *testing.T) {
	t.Parallel()
	s := startServer(t, options(t, t.TempDir()))
	good := External{
		Address: s.Address(), Namespace: "davit", TLS: s.TLS(), Logger: slog.New(slog.DiscardHandler),
		SearchAttributes: SearchAttributes{"DavitPipeline": enumspb.INDEXED_VALUE_TYPE_KEYWORD},
	}
	cases := map[string]struct {
		reason string
		change func(*External)
		code   promo.Code
		want   string
	}{
		"Good":      {"all is there", func(*External) {}, "", ""},
		"Namespace": {"it has to be registered there", func(e *External) { e.Namespace = "other" }, promo.CodeConfiguration, `no namespace "other"`},
		"Attribute": {
			"the names that are missing are listed",
			func(e *External) { e.SearchAttributes = SearchAttributes{"B": 2, "A": 2, "DavitPipeline": 2} },
			promo.CodeConfiguration, `no search attributes ["A" "B"]`,
		},
		"Type": {
			"a wrong type would fail each start of a workflow",
			func(e *External) {
				e.SearchAttributes = SearchAttributes{"DavitPipeline": enumspb.INDEXED_VALUE_TYPE_INT}
			},
			promo.CodeConfiguration, `"DavitPipeline" of namespace "davit" is Keyword`,
		},
		"Incomplete": {"an address has no default", func(e *External) { e.Address = "" }, promo.CodeConfiguration, "needs Address"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := good
			tc.change(&e)
			c, err := Dial(t.Context(), e, client.Options{})
			if err == nil {
				c.Close()
			}
			if tc.code == "" && err != nil || tc.code != "" && (promo.CodeOf(err) != tc.code || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("%s: got %v, want %s %q", tc.reason, err, tc.code, tc.want)
			}
		})
	}
}

func TestLockIsFreedByDeath(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if os.Getenv("DAVIT_TEST_LOCK") != "" {
		return
	}
	child := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestHelperHoldsLock$")
	child.Env = append(os.Environ(), "DAVIT_TEST_LOCK="+dir)
	out, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := out.Read(make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	_, err = LockDir(dir)
	if want := "in use by process " + strconv.Itoa(child.Process.Pid); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("got %v, want %q", err, want)
	}
	if err := child.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = child.Wait() // it was killed
	checkLockFree(t, dir)
}

// TestHelperHoldsLock is the other process of TestLockIsFreedByDeath.
func TestHelperHoldsLock(t *testing.T) {
	dir := os.Getenv("DAVIT_TEST_LOCK")
	if dir == "" {
		return // a run as a test of its own has nothing to hold
	}
	if _, err := LockDir(dir); err != nil {
		t.Fatal(err)
	}
	_, _ = os.Stdout.WriteString("x")
	select {} // until killed
}

func openDB(t *testing.T, file string) *sql.DB {
	t.Helper()
	db, err := sql.Open("sqlite", "file:"+file)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = db.Close() })
	return db
}
