package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	enumspb "go.temporal.io/api/enums/v1"
	failurepb "go.temporal.io/api/failure/v1"
	"go.temporal.io/api/workflowservice/v1"
	"go.temporal.io/sdk/activity"
	"go.temporal.io/sdk/client"
	sdklog "go.temporal.io/sdk/log"
	"go.temporal.io/sdk/worker"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/reflect/protoregistry"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/davit-cd/davit/internal/promo"
)

func (perCall) RequireTransportSecurity() bool { return false }

// TestAgentsAreKeptApart is the promise of the package: agent b gets nowhere near agent a's work.
func TestAgentsAreKeptApart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	address, _ := serve(t, w.options())
	a, b := connect(t, address, enrolled(t, w.registry, "a")), connect(t, address, enrolled(t, w.registry, "b"))

	t.Run("Tasks", func(t *testing.T) {
		t.Parallel()
		run := w.run(t, "kept-apart", "a")
		task := mustPoll(t, a, "agent.a")
		for name, token := range map[string][]byte{"sealed": task.GetTaskToken(), "raw": task.GetTaskToken()[32:], "none": nil} {
			for method, err := range answers(t.Context(), b, namespace, token) {
				wantCode(t, "b "+method+" with a's "+name+" token", err, codes.PermissionDenied)
			}
		}
		checkTampering(t, a, task.GetTaskToken())
		for method, err := range answers(t.Context(), a, "other", task.GetTaskToken()) {
			wantCode(t, "a "+method+" in another namespace", err, codes.PermissionDenied)
		}
		ac := workflowservice.NewWorkflowServiceClient(a)
		if _, err := ac.RecordActivityTaskHeartbeat(t.Context(), &workflowservice.RecordActivityTaskHeartbeatRequest{
			Namespace: namespace, TaskToken: task.GetTaskToken(), Identity: "somebody else",
		}); err != nil {
			t.Errorf("a heartbeats its own task: %v", err)
		}
		if _, err := ac.RespondActivityTaskCompleted(t.Context(), &workflowservice.RespondActivityTaskCompletedRequest{
			Namespace: namespace, TaskToken: task.GetTaskToken(), Identity: "somebody else", Result: result("done by a"),
		}); err != nil {
			t.Errorf("a completes its own task: %v", err)
		}
		var got string
		if err := run.Get(t.Context(), &got); err != nil || got != "done by a" {
			t.Errorf("workflow: got %q, %v", got, err)
		}
		checkIdentity(t, w.client, "kept-apart")
	})
	t.Run("Polls", func(t *testing.T) {
		t.Parallel()
		for _, queue := range []string{"agent.a", "agent.", "agent.B", "agent.b/_partition", "/_sys/agent.b/1", "flows", "davit", ""} {
			_, err := poll(t.Context(), b, namespace, queue)
			wantCode(t, "b polls "+queue, err, codes.InvalidArgument) // at which a worker gives up
		}
		_, err := poll(t.Context(), b, "other", "agent.b")
		wantCode(t, "b polls another namespace", err, codes.InvalidArgument)
	})
	t.Run("Namespace", func(t *testing.T) {
		t.Parallel()
		checkDescribe(t, b, w.client)
	})
	t.Run("EveryOtherMethod", func(t *testing.T) {
		t.Parallel()
		checkMethods(t, b, connect(t, address, ""))
	})
}

// answers tries every way to answer a task and returns the errors by method.
func answers(ctx context.Context, conn *grpc.ClientConn, ns string, token []byte) map[string]error {
	c, out := workflowservice.NewWorkflowServiceClient(conn), map[string]error{}
	_, out["completes"] = c.RespondActivityTaskCompleted(ctx, &workflowservice.RespondActivityTaskCompletedRequest{Namespace: ns, TaskToken: token})
	_, out["fails"] = c.RespondActivityTaskFailed(ctx, &workflowservice.RespondActivityTaskFailedRequest{Namespace: ns, TaskToken: token, Failure: &failurepb.Failure{}})
	_, out["cancels"] = c.RespondActivityTaskCanceled(ctx, &workflowservice.RespondActivityTaskCanceledRequest{Namespace: ns, TaskToken: token})
	_, out["heartbeats"] = c.RecordActivityTaskHeartbeat(ctx, &workflowservice.RecordActivityTaskHeartbeatRequest{Namespace: ns, TaskToken: token})
	return out
}

func checkTampering(t *testing.T, a *grpc.ClientConn, token []byte) {
	t.Helper()
	for i := range token {
		bad := slices.Clone(token)
		bad[i] ^= 1
		_, err := workflowservice.NewWorkflowServiceClient(a).RecordActivityTaskHeartbeat(t.Context(),
			&workflowservice.RecordActivityTaskHeartbeatRequest{Namespace: namespace, TaskToken: bad})
		if status.Code(err) == codes.ResourceExhausted { // more bytes than calls in a burst
			break
		}
		wantCode(t, "a tampers with its own token", err, codes.PermissionDenied)
	}
}

func checkIdentity(t *testing.T, c client.Client, id string) {
	t.Helper()
	for it := c.GetWorkflowHistory(t.Context(), id, "", false, enumspb.HISTORY_EVENT_FILTER_TYPE_ALL_EVENT); it.HasNext(); {
		e, err := it.Next()
		if err != nil {
			t.Fatal(err)
		}
		for _, got := range []string{e.GetActivityTaskStartedEventAttributes().GetIdentity(), e.GetActivityTaskCompletedEventAttributes().GetIdentity()} {
			if got != "" && got != "agent:a" {
				t.Errorf("identity in the history: %q", got)
			}
		}
	}
}

func checkDescribe(t *testing.T, b *grpc.ClientConn, direct client.Client) {
	t.Helper()
	got, err := workflowservice.NewWorkflowServiceClient(b).DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	want, err := direct.WorkflowService().DescribeNamespace(t.Context(), &workflowservice.DescribeNamespaceRequest{Namespace: namespace})
	if err != nil {
		t.Fatal(err)
	}
	if l := got.GetNamespaceInfo().GetLimits(); l.GetBlobSizeLimitError() == 0 || !proto.Equal(l, want.GetNamespaceInfo().GetLimits()) {
		t.Errorf("limits: got %v, want %v", l, want.GetNamespaceInfo().GetLimits())
	}
	if c := got.GetNamespaceInfo().GetCapabilities(); proto.Size(c) != 0 {
		t.Errorf("capabilities: %v", c)
	}
	if got.GetNamespaceInfo().GetId() != "" || got.GetConfig() != nil {
		t.Errorf("more than agents need: %v", got)
	}
	for _, r := range []*workflowservice.DescribeNamespaceRequest{{Namespace: "temporal-system"}, {Id: want.GetNamespaceInfo().GetId()}} {
		_, err := workflowservice.NewWorkflowServiceClient(b).DescribeNamespace(t.Context(), r)
		wantCode(t, "describe "+r.String(), err, codes.PermissionDenied)
	}
}

// checkMethods walks all of Temporal's services that this program knows and demands a refusal.
func checkMethods(t *testing.T, b, stranger *grpc.ClientConn) {
	t.Helper()
	allowed := map[string]bool{
		"GetSystemInfo": true, "DescribeNamespace": true, "ShutdownWorker": true, "PollActivityTaskQueue": true,
		"RecordActivityTaskHeartbeat": true, "RespondActivityTaskCompleted": true, "RespondActivityTaskFailed": true,
		"RespondActivityTaskCanceled": true,
	}
	seen, walked := map[string]bool{}, 0
	protoregistry.GlobalFiles.RangeFiles(func(f protoreflect.FileDescriptor) bool {
		for i := range f.Services().Len() {
			s := f.Services().Get(i)
			if !strings.HasPrefix(string(s.FullName()), "temporal.") {
				continue
			}
			for j := range s.Methods().Len() {
				m := s.Methods().Get(j)
				name := "/" + string(s.FullName()) + "/" + string(m.Name())
				walked++
				ok := s.FullName() == "temporal.api.workflowservice.v1.WorkflowService" && allowed[string(m.Name())]
				seen[string(m.Name())] = seen[string(m.Name())] || ok
				if !ok {
					wantCode(t, "b calls "+name, invoke(t, b, name, m), codes.Unimplemented)
				}
				want := codes.Unauthenticated
				switch {
				case s.FullName() != "temporal.api.workflowservice.v1.WorkflowService":
					want = codes.Unimplemented // the service isn't there at all
				case m.Name() == "PollActivityTaskQueue":
					want = codes.InvalidArgument
				}
				wantCode(t, "a stranger calls "+name, invoke(t, stranger, name, m), want)
			}
		}
		return true
	})
	for name := range allowed {
		if !seen[name] {
			t.Errorf("%s was not among the methods", name)
		}
	}
	if walked < 120 {
		t.Errorf("walked only %d methods", walked)
	}
}

// invoke calls a method with a message that names the namespace, again while there were too many calls.
func invoke(t *testing.T, conn *grpc.ClientConn, name string, m protoreflect.MethodDescriptor) error {
	t.Helper()
	in, err := protoregistry.GlobalTypes.FindMessageByName(m.Input().FullName())
	if err != nil {
		t.Fatal(err)
	}
	out, err := protoregistry.GlobalTypes.FindMessageByName(m.Output().FullName())
	if err != nil {
		t.Fatal(err)
	}
	req := in.New()
	if f := m.Input().Fields().ByName("namespace"); f != nil && f.Kind() == protoreflect.StringKind {
		req.Set(f, protoreflect.ValueOfString(namespace))
	}
	for {
		err := conn.Invoke(t.Context(), name, req.Interface(), out.New().Interface())
		if status.Code(err) != codes.ResourceExhausted {
			return err
		}
	}
}

// TestRevoke cuts what an agent has open.
func TestRevoke(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	events := make(chan Presence, 10)
	o := w.options()
	o.Fleet = NewView(time.Now, func(c Change) { events <- *c.Presence })
	address, _ := serve(t, o)
	conn := connect(t, address, enrolled(t, w.registry, "a"))
	other := connect(t, address, enrolled(t, w.registry, "b"))

	hello := openHello(t, conn)
	if p := <-events; !p.Connected || p.Version != "v1" {
		t.Errorf("presence after hello: %+v", p)
	}
	polled, otherPolled := make(chan error, 1), make(chan error, 1)
	go func() { _, err := poll(t.Context(), conn, namespace, "agent.a"); polled <- err }()
	otherCtx, cancelOther := context.WithCancel(t.Context())
	go func() { _, err := poll(otherCtx, other, namespace, "agent.b"); otherPolled <- err }()

	start := time.Now()
	if err := w.registry.Revoke(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "open poll", <-polled, codes.InvalidArgument)
	wantCode(t, "open hello", hello.RecvMsg(new(wrapperspb.BytesValue)), codes.Unauthenticated)
	if took := time.Since(start); took > time.Second {
		t.Errorf("cut after %s", took)
	}
	if p := <-events; p.Connected || p.Since.Before(start) {
		t.Errorf("presence after revocation: %+v", p)
	}
	_, err := workflowservice.NewWorkflowServiceClient(conn).GetSystemInfo(t.Context(), &workflowservice.GetSystemInfoRequest{})
	wantCode(t, "next call", err, codes.Unauthenticated)
	cancelOther()
	wantCode(t, "the other agent's poll, open until it gave up", <-otherPolled, codes.Canceled)
}

// TestRotate replaces a credential under an open stream, which goes on until the agent is revoked.
func TestRotate(t *testing.T) {
	t.Parallel()
	var elapsed atomic.Int64
	r := NewRegistry(NewMemoryStore(), func() time.Time { return time.Unix(elapsed.Load(), 0) })
	o := offline()
	o.Agents = r
	rechecks := make(chan error, 1000)
	o.Agents = listening{r, rechecks}
	address, _ := serve(t, o)
	first, second := enrolled(t, r, "a"), NewCredential("a")
	hello := openHello(t, connect(t, address, first))
	if _, err := call[Empty](t, connect(t, address, first), MethodRotate, RotateRequest{CredentialHash: HashSecret(second)}); err != nil {
		t.Fatal(err)
	}
	elapsed.Add(int64(rotationGrace / time.Second))
	for err := range rechecks {
		if err != nil {
			break // the old credential was refused
		}
	}
	if err := <-rechecks; err != nil { // and the stream then judged by the new one
		t.Error(err)
	}
	if err := r.Revoke(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "open hello", hello.RecvMsg(new(wrapperspb.BytesValue)), codes.Unauthenticated)
}

// TestRestart changes the gateway under a task: with the same key the task is completed, with another it is
// refused, and an open poll doesn't hold up Stop.
func TestRestart(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	credential := enrolled(t, w.registry, "a")
	address, stop := serve(t, w.options())
	first := connect(t, address, credential)
	run := w.run(t, "restart", "a")
	task := mustPoll(t, first, "agent.a")
	open := make(chan error, 1)
	go func() { _, err := poll(t.Context(), first, namespace, "agent.a"); open <- err }()
	hello := openHello(t, first)

	start := time.Now()
	stop()
	if took := time.Since(start); took > stopLimit {
		t.Errorf("Stop took %s", took)
	}
	wantCode(t, "open poll", <-open, codes.Unavailable)
	wantCode(t, "open hello", hello.RecvMsg(new(wrapperspb.BytesValue)), codes.Unavailable)

	other := w.options()
	other.Key = []byte(strings.Repeat("x", 32))
	address, _ = serve(t, other)
	for method, err := range answers(t.Context(), connect(t, address, credential), namespace, task.GetTaskToken()) {
		wantCode(t, method+" after the key was lost", err, codes.PermissionDenied)
	}
	address, _ = serve(t, w.options())
	if _, err := workflowservice.NewWorkflowServiceClient(connect(t, address, credential)).RespondActivityTaskCompleted(t.Context(),
		&workflowservice.RespondActivityTaskCompletedRequest{Namespace: namespace, TaskToken: task.GetTaskToken(), Result: result("after")}); err != nil {
		t.Fatal(err)
	}
	var got string
	if err := run.Get(t.Context(), &got); err != nil || got != "after" {
		t.Errorf("workflow: got %q, %v", got, err)
	}
}

// TestWorkers runs Temporal's own activity worker through the gateway, over TLS: work, heartbeats, a failure
// that is tried again, a worker that goes away in the middle and another that goes on.
func TestWorkers(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	web := httptest.NewTLSServer(nil)
	t.Cleanup(web.Close)
	o := w.options()
	o.TLS = &tls.Config{Certificates: web.TLS.Certificates, MinVersion: tls.VersionTLS13}
	address, _ := serve(t, o)
	transport, ok := web.Client().Transport.(*http.Transport)
	if !ok {
		t.Fatalf("transport is %T", web.Client().Transport)
	}
	var attempts atomic.Int32
	started := make(chan int32, 10)
	work := func(ctx context.Context, what string) (string, error) {
		n := attempts.Add(1)
		started <- activity.GetInfo(ctx).Attempt
		switch n {
		case 1:
			return "", errors.New("again, please")
		case 2:
			<-ctx.Done() // hangs without heartbeats, as if the agent had died
			return "", ctx.Err()
		}
		activity.RecordHeartbeat(ctx, "alive")
		return what + " done", nil
	}
	credential := enrolled(t, w.registry, "a")
	dial := func() (client.Client, worker.Worker) {
		c, err := client.NewLazyClient(client.Options{
			HostPort: address, Namespace: namespace, Logger: sdklog.NewStructuredLogger(slog.New(slog.DiscardHandler)),
			Credentials:       client.NewAPIKeyStaticCredentials(credential.Reveal()),
			ConnectionOptions: client.ConnectionOptions{TLS: transport.TLSClientConfig},
		})
		if err != nil {
			t.Fatal(err)
		}
		wk := worker.New(c, "agent.a", worker.Options{DisableWorkflowWorker: true})
		wk.RegisterActivityWithOptions(work, activity.RegisterOptions{Name: "Work"})
		if err := wk.Start(); err != nil {
			t.Fatal(err)
		}
		return c, wk
	}
	c, wk := dial()
	run := w.run(t, "workers", "a")
	got := []int32{<-started, <-started}
	wk.Stop()
	c.Close()
	c, wk = dial()
	defer c.Close()
	defer wk.Stop()
	var out string
	if err := run.Get(t.Context(), &out); err != nil || out != "this done" {
		t.Errorf("workflow: got %q, %v", out, err)
	}
	if diff := cmp.Diff([]int32{1, 2, 3}, append(got, <-started)); diff != "" {
		t.Errorf("attempts (-want +got):\n%s", diff)
	}
}

// TestBusyAgent uses up one agent's share; the other's is untouched.
func TestBusyAgent(t *testing.T) {
	t.Parallel()
	o := offline()
	r := NewRegistry(NewMemoryStore(), time.Now)
	o.Agents = r
	address, _ := serve(t, o)
	a, b := connect(t, address, enrolled(t, r, "a")), connect(t, address, enrolled(t, r, "b"))
	call := func(conn *grpc.ClientConn) error {
		_, err := workflowservice.NewWorkflowServiceClient(conn).ShutdownWorker(t.Context(), &workflowservice.ShutdownWorkerRequest{})
		return err
	}
	var exhausted bool
	for range 10 * callBurst {
		if err := call(a); err != nil {
			wantCode(t, "too many calls", err, codes.ResourceExhausted)
			exhausted = true
			break
		}
	}
	if !exhausted {
		t.Error("no limit")
	}
	if err := call(b); err != nil {
		t.Errorf("the other agent: %v", err)
	}
}

func (openAddr) Addr() net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 0, 2, 1), Port: 1} }

func TestNewRefuses(t *testing.T) {
	t.Parallel()
	cases := map[string]struct {
		reason string
		change func(*Options)
		want   string
	}{
		"ShortKey":  {"a guessed key lets agents forge tokens", func(o *Options) { o.Key = make([]byte, 16) }, "key has 16 bytes"},
		"NoFleet":   {"a port that is missing is a mistake of the wiring", func(o *Options) { o.Fleet = nil }, "needs"},
		"Plaintext": {"credentials would cross the network in the clear", func(*Options) {}, "no TLS"},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := offline()
			tc.change(&o)
			g, err := New(o)
			if err == nil {
				err = g.Serve(openAddr{})
			}
			if promo.CodeOf(err) != promo.CodeConfiguration || err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("%s: got %v, want %q", tc.reason, err, tc.want)
			}
		})
	}
}
