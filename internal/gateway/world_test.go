package gateway

import (
	"context"
	"log/slog"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	commonpb "go.temporal.io/api/common/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/client"
	sdktemporal "go.temporal.io/sdk/temporal"
	"go.temporal.io/sdk/worker"
	"go.temporal.io/sdk/workflow"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/internal/temporal"
	"github.com/davit-cd/davit/steps"
)

const namespace = "davit"

// world is a real Temporal server with workers for the test's workflows, shared by the subtests of one test.
type world struct {
	server   *temporal.Server
	client   client.Client
	upstream workflowservice.WorkflowServiceClient
	registry *Registry
}

func newWorld(t *testing.T) *world {
	t.Helper()
	s, err := temporal.Start(t.Context(), temporal.Options{Dir: t.TempDir(), Namespace: namespace, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	c, err := s.Dial(t.Context(), client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	w := worker.New(c, "flows", worker.Options{})
	w.RegisterWorkflowWithOptions(callAgent, workflow.RegisterOptions{Name: "CallAgent"})
	if err := w.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.Stop)
	conn, err := s.Conn()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return &world{server: s, client: c, upstream: workflowservice.NewWorkflowServiceClient(conn), registry: NewRegistry(NewMemoryStore(), time.Now)}
}

// callAgent runs the activity "Work" on the agent's queue.
func callAgent(ctx workflow.Context, agent string) (string, error) {
	ctx = workflow.WithActivityOptions(ctx, workflow.ActivityOptions{
		TaskQueue: "agent." + agent, StartToCloseTimeout: time.Minute, HeartbeatTimeout: 2 * time.Second,
		RetryPolicy: &sdktemporal.RetryPolicy{InitialInterval: 10 * time.Millisecond, BackoffCoefficient: 1},
	})
	var out string
	err := workflow.ExecuteActivity(ctx, "Work", "this").Get(ctx, &out)
	return out, err
}

func (w *world) run(t *testing.T, id, agent string) client.WorkflowRun {
	t.Helper()
	run, err := w.client.ExecuteWorkflow(t.Context(), client.StartWorkflowOptions{ID: id, TaskQueue: "flows"}, "CallAgent", agent)
	if err != nil {
		t.Fatal(err)
	}
	return run
}

// compareFn is a Comparer.
type compareFn func(repository, wanted, got string, paths []string) (steps.Relation, error)

func (f compareFn) Compare(_ context.Context, repository, wanted, got string, paths []string) (steps.Relation, error) {
	return f(repository, wanted, got, paths)
}

func (w *world) options() Options {
	return Options{
		Upstream: w.upstream, Namespace: namespace, Key: []byte(strings.Repeat("k", 32)), Agents: w.registry,
		Fleet: NewView(time.Now, func(Change) {}), Logger: slog.New(slog.DiscardHandler),
		Comparer: compareFn(func(string, string, string, []string) (steps.Relation, error) {
			return steps.Relation{Kind: steps.RelationSame}, nil
		}),
	}
}

// serve runs a gateway until the test ends or stop is called, and returns its address.
func serve(t *testing.T, o Options) (address string, stop func()) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	return serveOn(t, o, l)
}

func serveOn(t *testing.T, o Options, l net.Listener) (address string, stop func()) {
	t.Helper()
	g, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- g.Serve(l) }()
	stop = sync.OnceFunc(func() {
		g.Stop()
		g.Stop() // twice is once
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(stop)
	return l.Addr().String(), stop
}

// enrolled returns a credential that works.
func enrolled(t *testing.T, r *Registry, name string) promo.Secret {
	t.Helper()
	token, _, err := r.Create(t.Context(), name, "admin", nil)
	if err != nil {
		t.Fatal(err)
	}
	credential := NewCredential(name)
	if _, err := r.Enroll(t.Context(), token, HashSecret(credential)); err != nil {
		t.Fatal(err)
	}
	return credential
}

// perCall sends a credential with every call.
type perCall struct{ secret promo.Secret }

func (p perCall) GetRequestMetadata(context.Context, ...string) (map[string]string, error) {
	return map[string]string{"authorization": "Bearer " + p.secret.Reveal()}, nil
}

func connect(t *testing.T, address string, secret promo.Secret) *grpc.ClientConn {
	t.Helper()
	opts := []grpc.DialOption{grpc.WithTransportCredentials(insecure.NewCredentials())}
	if secret != "" {
		opts = append(opts, grpc.WithPerRPCCredentials(perCall{secret}))
	}
	conn, err := grpc.NewClient(address, opts...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func poll(ctx context.Context, conn *grpc.ClientConn, ns, queue string) (*workflowservice.PollActivityTaskQueueResponse, error) {
	ctx, cancel := context.WithTimeout(ctx, 30*time.Second) // Temporal refuses polls without one
	defer cancel()
	return workflowservice.NewWorkflowServiceClient(conn).PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{
		Namespace: ns, TaskQueue: &taskqueuepb.TaskQueue{Name: queue}, Identity: "whoever",
	})
}

func mustPoll(t *testing.T, conn *grpc.ClientConn, queue string) *workflowservice.PollActivityTaskQueueResponse {
	t.Helper()
	task, err := poll(t.Context(), conn, namespace, queue)
	if err != nil || len(task.GetTaskToken()) == 0 {
		t.Fatalf("no task on %s: %v", queue, err)
	}
	return task
}

func wantCode(t *testing.T, what string, err error, want codes.Code) {
	t.Helper()
	if got := status.Code(err); got != want {
		t.Errorf("%s: got %v (%v), want %v", what, got, err, want)
	}
}

func result(s string) *commonpb.Payloads {
	return &commonpb.Payloads{Payloads: []*commonpb.Payload{{Metadata: map[string][]byte{"encoding": []byte("json/plain")}, Data: []byte(`"` + s + `"`)}}}
}

// listening tells what each authentication came to.
type listening struct {
	*Registry
	results chan error
}

func (l listening) Authenticate(ctx context.Context, name, hash string) (Agent, error) {
	a, err := l.Registry.Authenticate(ctx, name, hash)
	l.results <- err
	return a, err
}

// offline returns options whose upstream is never called.
func offline() Options {
	conn, err := grpc.NewClient("127.0.0.1:1", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		panic(err)
	}
	return Options{
		Upstream: workflowservice.NewWorkflowServiceClient(conn), Namespace: namespace, Key: make([]byte, 32),
		Agents: NewRegistry(NewMemoryStore(), time.Now), Fleet: NewView(time.Now, func(Change) {}), Logger: slog.New(slog.DiscardHandler),
		Comparer: compareFn(func(repository, wanted, got string, paths []string) (steps.Relation, error) {
			return steps.Relation{Kind: steps.RelationOvertaken, By: strings.Join(append(paths, repository, wanted, got), ",")}, nil
		}),
	}
}

type openAddr struct{ net.Listener }
