package gateway

import (
	"context"
	"sync"

	enumspb "go.temporal.io/api/enums/v1"
	namespacepb "go.temporal.io/api/namespace/v1"
	taskqueuepb "go.temporal.io/api/taskqueue/v1"
	"go.temporal.io/api/workflowservice/v1"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/davit-cd/davit/internal/contract"
)

// frontend is the slice of Temporal's frontend that agents see. A call that has no method here is answered
// with Unimplemented, which also makes Temporal's worker stop asking (RecordWorkerHeartbeat).
type frontend struct {
	workflowservice.UnimplementedWorkflowServiceServer
	g *Gateway
}

// GetSystemInfo passes what the server can do.
func (f *frontend) GetSystemInfo(ctx context.Context, _ *workflowservice.GetSystemInfoRequest) (*workflowservice.GetSystemInfoResponse, error) {
	resp, err := f.g.o.Upstream.GetSystemInfo(ctx, &workflowservice.GetSystemInfoRequest{})
	return resp, wire(err)
}

// DescribeNamespace is answered here: without capabilities a worker sends no heartbeats of its own and polls
// no control queue; with the limits it fails results that are too big before it sends them.
func (f *frontend) DescribeNamespace(ctx context.Context, r *workflowservice.DescribeNamespaceRequest) (*workflowservice.DescribeNamespaceResponse, error) {
	if r.GetId() != "" {
		return nil, status.Error(codes.PermissionDenied, "agents ask by name")
	}
	if err := f.g.checkNamespace(r.GetNamespace()); err != nil {
		return nil, err
	}
	limits, err := f.g.limits.get(ctx, f.g.o)
	if err != nil {
		return nil, err
	}
	return &workflowservice.DescribeNamespaceResponse{NamespaceInfo: &namespacepb.NamespaceInfo{
		Name: f.g.o.Namespace, State: enumspb.NAMESPACE_STATE_REGISTERED,
		Capabilities: &namespacepb.NamespaceInfo_Capabilities{}, Limits: limits,
	}}, nil
}

// ShutdownWorker is said by a worker that stops; its open polls end with its connection.
func (f *frontend) ShutdownWorker(context.Context, *workflowservice.ShutdownWorkerRequest) (*workflowservice.ShutdownWorkerResponse, error) {
	return &workflowservice.ShutdownWorkerResponse{}, nil
}

// PollActivityTaskQueue waits for a task on the agent's own queue.
func (f *frontend) PollActivityTaskQueue(ctx context.Context, r *workflowservice.PollActivityTaskQueueRequest) (*workflowservice.PollActivityTaskQueueResponse, error) {
	a := callerOf(ctx)
	queue := contract.AgentTaskQueue(a.Name)
	if err := f.g.checkNamespace(r.GetNamespace()); err != nil {
		return nil, fatal(err)
	}
	if r.GetTaskQueue().GetName() != queue {
		return nil, fatal(status.Errorf(codes.PermissionDenied, "agent %q may not poll the queue %q", a.Name, r.GetTaskQueue().GetName()))
	}
	ctx, done := f.g.watch(ctx)
	defer done()
	// Made anew: no sticky queue, no rate limit of the queue, no control queue, no versioning.
	resp, err := f.g.o.Upstream.PollActivityTaskQueue(ctx, &workflowservice.PollActivityTaskQueueRequest{
		Namespace: f.g.o.Namespace, Identity: identity(a.Name),
		TaskQueue:     &taskqueuepb.TaskQueue{Name: queue, Kind: enumspb.TASK_QUEUE_KIND_NORMAL},
		PollerGroupId: r.GetPollerGroupId(), WorkerInstanceKey: r.GetWorkerInstanceKey(),
	})
	if err != nil {
		if cause := context.Cause(ctx); cause != nil && ctx.Err() != nil {
			err = cause
		}
		return nil, fatal(wire(err))
	}
	if len(resp.GetTaskToken()) > 0 {
		resp.TaskToken = f.g.seal.close(a.Name, resp.GetTaskToken())
	}
	return resp, nil
}

// RecordActivityTaskHeartbeat passes a heartbeat of the agent's own task.
func (f *frontend) RecordActivityTaskHeartbeat(ctx context.Context, r *workflowservice.RecordActivityTaskHeartbeatRequest) (*workflowservice.RecordActivityTaskHeartbeatResponse, error) {
	a, token, err := f.g.task(ctx, r)
	if err != nil {
		return nil, err
	}
	resp, err := f.g.o.Upstream.RecordActivityTaskHeartbeat(ctx, &workflowservice.RecordActivityTaskHeartbeatRequest{
		Namespace: f.g.o.Namespace, Identity: identity(a), TaskToken: token, Details: r.GetDetails(),
	})
	return resp, wire(err)
}

// RespondActivityTaskCompleted passes the result of the agent's own task.
func (f *frontend) RespondActivityTaskCompleted(ctx context.Context, r *workflowservice.RespondActivityTaskCompletedRequest) (*workflowservice.RespondActivityTaskCompletedResponse, error) {
	a, token, err := f.g.task(ctx, r)
	if err != nil {
		return nil, err
	}
	resp, err := f.g.o.Upstream.RespondActivityTaskCompleted(ctx, &workflowservice.RespondActivityTaskCompletedRequest{
		Namespace: f.g.o.Namespace, Identity: identity(a), TaskToken: token, Result: r.GetResult(),
	})
	return resp, wire(err)
}

// RespondActivityTaskFailed passes the failure of the agent's own task.
func (f *frontend) RespondActivityTaskFailed(ctx context.Context, r *workflowservice.RespondActivityTaskFailedRequest) (*workflowservice.RespondActivityTaskFailedResponse, error) {
	a, token, err := f.g.task(ctx, r)
	if err != nil {
		return nil, err
	}
	resp, err := f.g.o.Upstream.RespondActivityTaskFailed(ctx, &workflowservice.RespondActivityTaskFailedRequest{
		Namespace: f.g.o.Namespace, Identity: identity(a), TaskToken: token, Failure: r.GetFailure(),
		LastHeartbeatDetails: r.GetLastHeartbeatDetails(),
	})
	return resp, wire(err)
}

// RespondActivityTaskCanceled passes that the agent's own task ended by cancellation.
func (f *frontend) RespondActivityTaskCanceled(ctx context.Context, r *workflowservice.RespondActivityTaskCanceledRequest) (*workflowservice.RespondActivityTaskCanceledResponse, error) {
	a, token, err := f.g.task(ctx, r)
	if err != nil {
		return nil, err
	}
	resp, err := f.g.o.Upstream.RespondActivityTaskCanceled(ctx, &workflowservice.RespondActivityTaskCanceledRequest{
		Namespace: f.g.o.Namespace, Identity: identity(a), TaskToken: token, Details: r.GetDetails(),
	})
	return resp, wire(err)
}

// identity is how the agent shows up in histories; it can't choose another.
func identity(agent string) string { return "agent:" + agent }

// taskRequest is a request about one task.
type taskRequest interface {
	GetNamespace() string
	GetTaskToken() []byte
}

// task returns the caller and the true token of its task.
func (g *Gateway) task(ctx context.Context, r taskRequest) (agent string, token []byte, err error) {
	if err := g.checkNamespace(r.GetNamespace()); err != nil {
		return "", nil, err
	}
	agent = callerOf(ctx).Name
	token, err = g.seal.open(agent, r.GetTaskToken())
	return agent, token, err
}

func (g *Gateway) checkNamespace(namespace string) error {
	if namespace != g.o.Namespace {
		return status.Errorf(codes.PermissionDenied, "namespace %q is not for agents", namespace)
	}
	return nil
}

// limitsCache keeps the namespace's limits; they don't change while the server runs.
type limitsCache struct {
	mu     sync.Mutex
	limits *namespacepb.NamespaceInfo_Limits
}

func (c *limitsCache) get(ctx context.Context, o Options) (*namespacepb.NamespaceInfo_Limits, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.limits != nil {
		return c.limits, nil
	}
	resp, err := o.Upstream.DescribeNamespace(ctx, &workflowservice.DescribeNamespaceRequest{Namespace: o.Namespace})
	if err != nil {
		return nil, wire(err)
	}
	c.limits = resp.GetNamespaceInfo().GetLimits()
	return c.limits, nil
}
