package gateway

import (
	"context"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"sync"
	"time"

	"go.temporal.io/api/serviceerror"
	"go.temporal.io/api/workflowservice/v1"
	"golang.org/x/time/rate"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"

	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
)

const (
	// recheck is how often a long call's credential is looked at again; with the registry's cache a revoked
	// agent is out within a second.
	recheck = 500 * time.Millisecond
	// maxMessage is Temporal's own limit for a message, in bytes.
	maxMessage = 4 << 20
	// Calls of one agent: a busy one (dozens of syncs with heartbeats and reports) makes under 20 a second.
	callsPerSecond, callBurst = 100, 200
	// maxOpenCalls of one agent: polls, heartbeats and reports under way.
	maxOpenCalls = 64
	// minPing is how often an agent may ping; Temporal's SDK does every 30 s, and gRPC's default limit of 5 min
	// would cut it off.
	minPing = 10 * time.Second
	// A peer that is gone without a word is noticed after pingAfter+pingLimit.
	pingAfter, pingLimit = 10 * time.Second, 5 * time.Second
	// stopLimit bounds Stop; what is still under way then is cut.
	stopLimit = 5 * time.Second
	minKey    = 32
)

// Options are what a gateway needs.
type Options struct {
	// Upstream is Temporal's frontend.
	Upstream  workflowservice.WorkflowServiceClient
	Namespace string
	// Key seals task tokens; at least 32 bytes, kept by the caller over restarts.
	Key      []byte
	Agents   Agents
	Fleet    Fleet
	Comparer steps.Comparer
	// TLS may be nil only on a loopback listener.
	TLS    *tls.Config
	Logger *slog.Logger
}

// Gateway serves agents on one listener.
type Gateway struct {
	o      Options
	seal   seal
	server *grpc.Server
	// stopping ends the long calls, so that Stop needn't wait for them.
	stopping chan struct{}
	stop     func()

	mu     sync.Mutex
	agents map[string]*agentState
	limits limitsCache
	// rotated maps hashes of credentials to what their agents replaced them with while this process runs: one
	// entry a day and agent.
	rotated map[string]string
	// presence keeps what the fleet hears of comings and goings in order.
	presence sync.Mutex
}

// agentState is what the gateway remembers of an agent that has called.
type agentState struct {
	rate    *rate.Limiter
	open    int
	hellos  int // Hello calls under way; above 0 the agent is connected
	reports reportSequence
}

// New returns a gateway that Serve runs.
func New(o Options) (*Gateway, error) {
	if o.Upstream == nil || o.Agents == nil || o.Fleet == nil || o.Comparer == nil || o.Logger == nil || o.Namespace == "" {
		return nil, promo.Errorf(promo.CodeConfiguration, "the agent gateway needs Upstream, Namespace, Agents, Fleet, Comparer and Logger")
	}
	if len(o.Key) < minKey {
		return nil, promo.Errorf(promo.CodeConfiguration, "the agent gateway's key has %d bytes", len(o.Key)).
			WithHint("at least %d random bytes", minKey)
	}
	g := &Gateway{o: o, seal: seal{key: o.Key}, stopping: make(chan struct{}), agents: map[string]*agentState{}, rotated: map[string]string{}}
	opts := []grpc.ServerOption{
		grpc.UnaryInterceptor(g.unary), grpc.StreamInterceptor(g.stream),
		grpc.MaxRecvMsgSize(maxMessage), grpc.MaxSendMsgSize(maxMessage), grpc.MaxConcurrentStreams(maxOpenCalls),
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: minPing, PermitWithoutStream: true}),
		grpc.KeepaliveParams(keepalive.ServerParameters{Time: pingAfter, Timeout: pingLimit}),
	}
	if o.TLS != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(o.TLS)))
	}
	g.server = grpc.NewServer(opts...)
	workflowservice.RegisterWorkflowServiceServer(g.server, &frontend{g: g})
	g.server.RegisterService(serviceDesc(), &service{g: g})
	g.stop = sync.OnceFunc(g.stopOnce)
	return g, nil
}

// Serve takes calls until Stop and then returns nil. Without TLS it serves loopback addresses only.
func (g *Gateway) Serve(l net.Listener) error {
	if a, ok := l.Addr().(*net.TCPAddr); g.o.TLS == nil && (!ok || !a.IP.IsLoopback()) {
		return promo.Errorf(promo.CodeConfiguration, "agents' address %s is open to others and has no TLS", l.Addr()).
			WithHint("give a certificate, or listen on 127.0.0.1")
	}
	if err := g.server.Serve(l); err != nil && !errors.Is(err, grpc.ErrServerStopped) {
		return promo.Errorf(promo.CodeConnectivity, "serve agents on %s: %w", l.Addr(), err)
	}
	return nil
}

// Stop ends the open polls, lets short calls finish and returns within 5 s. It may be called more than once.
func (g *Gateway) Stop() { g.stop() }

func (g *Gateway) stopOnce() {
	close(g.stopping)
	done := make(chan struct{})
	go func() {
		defer close(done)
		g.server.GracefulStop()
	}()
	select {
	case <-done:
	case <-time.After(stopLimit):
		g.server.Stop()
		<-done
	}
}

// caller is the agent that makes a call, and the hash of the credential it came with.
type caller struct {
	Agent
	hash string
}

type callerKey struct{}

func callerOf(ctx context.Context) caller {
	c, _ := ctx.Value(callerKey{}).(caller)
	return c
}

// enter authenticates a call and counts it; leave must be called at its end.
func (g *Gateway) enter(ctx context.Context) (_ context.Context, leave func(), err error) {
	secret, err := bearer(ctx)
	if err != nil {
		return nil, nil, err
	}
	name, ok := nameIn(credentialPrefix, secret)
	if !ok {
		return nil, nil, wire(refused("the agent's credential is not one of Davit's"))
	}
	hash := HashSecret(secret)
	a, err := g.o.Agents.Authenticate(ctx, name, hash)
	if err != nil {
		return nil, nil, wire(err)
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.state(a.Name)
	if !s.rate.Allow() || s.open >= maxOpenCalls {
		return nil, nil, status.Errorf(codes.ResourceExhausted, "agent %q makes too many calls", a.Name)
	}
	s.open++
	leave = func() {
		g.mu.Lock()
		defer g.mu.Unlock()
		s.open--
	}
	return context.WithValue(ctx, callerKey{}, caller{a, hash}), leave, nil
}

// state returns the agent's state; g.mu is held. Only authenticated names come here, so it can't grow at will.
func (g *Gateway) state(name string) *agentState {
	s, ok := g.agents[name]
	if !ok {
		s = &agentState{rate: rate.NewLimiter(callsPerSecond, callBurst)}
		g.agents[name] = s
	}
	return s
}

func bearer(ctx context.Context) (promo.Secret, error) {
	md, _ := metadata.FromIncomingContext(ctx)
	if v := md.Get("authorization"); len(v) == 1 && len(v[0]) > len("Bearer ") && v[0][:len("Bearer ")] == "Bearer " {
		return promo.Secret(v[0][len("Bearer "):]), nil
	}
	return "", status.Error(codes.Unauthenticated, "the call carries no credential")
}

func (g *Gateway) unary(ctx context.Context, req any, info *grpc.UnaryServerInfo, next grpc.UnaryHandler) (any, error) {
	if info.FullMethod == MethodEnroll { // has a token of its own
		return next(ctx, req)
	}
	in, leave, err := g.enter(ctx)
	if err != nil {
		if info.FullMethod == workflowservice.WorkflowService_PollActivityTaskQueue_FullMethodName {
			err = fatal(err)
		}
		return nil, err
	}
	defer leave()
	return next(in, req)
}

func (g *Gateway) stream(srv any, ss grpc.ServerStream, _ *grpc.StreamServerInfo, next grpc.StreamHandler) error {
	in, leave, err := g.enter(ss.Context())
	if err != nil {
		return err
	}
	defer leave()
	return next(srv, agentStream{ss, in})
}

// agentStream is a stream whose context knows the caller.
type agentStream struct {
	grpc.ServerStream
	ctx context.Context //nolint:containedctx // how gRPC streams carry theirs
}

// Context returns the context with the caller.
func (s agentStream) Context() context.Context { return s.ctx }

// watch returns a context that ends when the caller's credential stops being right or the gateway stops;
// its cause is the status to answer with. A credential that the agent itself has replaced stays right.
func (g *Gateway) watch(ctx context.Context) (context.Context, context.CancelFunc) {
	c := callerOf(ctx)
	out, cancel := context.WithCancelCause(ctx)
	go func() {
		tick := time.NewTicker(recheck)
		defer tick.Stop()
		for {
			select {
			case <-out.Done():
				return
			case <-g.stopping:
				cancel(status.Error(codes.Unavailable, "the server stops"))
				return
			case <-tick.C:
				// Trouble of the store is no refusal: the call goes on.
				_, err := g.o.Agents.Authenticate(out, c.Name, c.hash)
				if err == nil || promo.CodeOf(err) != promo.CodeAuthentication {
					continue
				}
				next, rotated := g.successor(c.hash)
				if !rotated {
					cancel(wire(err))
					return
				}
				c.hash = next // judged at the next tick
			}
		}
	}()
	return out, func() { cancel(nil) }
}

// successor returns the hash of the credential that an agent has replaced one with.
func (g *Gateway) successor(hash string) (string, bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	next, ok := g.rotated[hash]
	return next, ok
}

// wire gives an error of the domain or of Temporal its gRPC form.
func wire(err error) error {
	var pe *promo.Error
	if !errors.As(err, &pe) {
		return serviceerror.ToStatus(err).Err()
	}
	return status.Error(grpcCode(pe.Code), pe.Error())
}

func grpcCode(c promo.Code) codes.Code {
	switch c {
	case promo.CodeAuthentication:
		return codes.Unauthenticated
	case promo.CodeAuthorization:
		return codes.PermissionDenied
	case promo.CodeNotFound:
		return codes.NotFound
	case promo.CodeConfiguration:
		return codes.InvalidArgument
	case promo.CodeConflict:
		return codes.Aborted
	case promo.CodeRateLimit:
		return codes.ResourceExhausted
	case promo.CodeTimeout:
		return codes.DeadlineExceeded
	case promo.CodeConnectivity:
		return codes.Unavailable
	case promo.CodeSync, promo.CodeMigration, promo.CodeInternal, promo.CodePolicy, promo.CodeApproval, promo.CodeHealth,
		promo.CodeVerification, promo.CodeAll: // how steps end; no reason to refuse a call
	}
	return codes.Internal
}

// fatal turns a refusal that no retry mends into the code at which Temporal's worker gives up.
func fatal(err error) error {
	switch s := status.Convert(err); s.Code() {
	case codes.Unauthenticated, codes.PermissionDenied:
		return status.Error(codes.InvalidArgument, s.Message())
	default:
		return err
	}
}
