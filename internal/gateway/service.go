package gateway

import (
	"context"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/davit-cd/davit/internal/contract"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
)

const (
	// helloInterval is the time between empty frames on a Hello stream.
	helloInterval = 10 * time.Second
	// Bounds on what an agent may ask to be compared, and say of itself.
	maxComparePaths = 200
	maxText         = 4096
	maxCapabilities = 32
)

// Fleet is told what agents report. Calls for one agent come one at a time.
type Fleet interface {
	// Report hands over whole snapshots and, in order, the changes since.
	Report(ctx context.Context, agent string, r Report) error
	// Presence is called when an agent comes and when it goes.
	Presence(ctx context.Context, agent string, p Presence) error
}

// Presence says whether an agent is connected, and since when that is so.
type Presence struct {
	Connected    bool      `json:"connected"`
	Since        time.Time `json:"since"`
	Version      string    `json:"version,omitempty"`
	Capabilities []string  `json:"capabilities,omitempty"`
}

// service is Davit's own service.
type service struct{ g *Gateway }

// serviceDesc is what protoc would have generated.
func serviceDesc() *grpc.ServiceDesc {
	return &grpc.ServiceDesc{
		ServiceName: ServiceName, HandlerType: (*any)(nil),
		Methods: []grpc.MethodDesc{
			method("Enroll", (*service).enroll), method("Rotate", (*service).rotate),
			method("Report", (*service).report), method("Compare", (*service).compare),
		},
		Streams: []grpc.StreamDesc{{StreamName: "Hello", ServerStreams: true, Handler: func(srv any, ss grpc.ServerStream) error {
			s, ok := srv.(*service)
			if !ok {
				return status.Error(codes.Internal, "wrong service")
			}
			return s.hello(ss)
		}}},
	}
}

// method makes a unary method of a typed function.
func method[Req, Resp any](name string, fn func(*service, context.Context, Req) (Resp, error)) grpc.MethodDesc {
	run := func(srv any, ctx context.Context, in any) (any, error) {
		var req Req
		s, isService := srv.(*service)
		b, isBytes := in.(*wrapperspb.BytesValue)
		if !isService || !isBytes {
			return nil, status.Error(codes.Internal, "wrong service")
		}
		if err := Unpack(b, &req); err != nil {
			return nil, wire(err)
		}
		resp, err := fn(s, ctx, req)
		if err != nil {
			return nil, wire(err)
		}
		return Pack(resp)
	}
	return grpc.MethodDesc{MethodName: name, Handler: func(srv any, ctx context.Context, dec func(any) error, i grpc.UnaryServerInterceptor) (any, error) {
		in := new(wrapperspb.BytesValue)
		if err := dec(in); err != nil {
			return nil, err
		}
		info := &grpc.UnaryServerInfo{Server: srv, FullMethod: "/" + ServiceName + "/" + name}
		return i(ctx, in, info, func(ctx context.Context, req any) (any, error) { return run(srv, ctx, req) })
	}}
}

func (s *service) enroll(ctx context.Context, r EnrollRequest) (EnrollReply, error) {
	token, err := bearer(ctx)
	if err != nil {
		return EnrollReply{}, err
	}
	a, err := s.g.o.Agents.Enroll(ctx, token, r.CredentialHash)
	if err != nil {
		return EnrollReply{}, err
	}
	s.g.o.Logger.InfoContext(ctx, "agent enrolled", "agent", a.Name)
	return EnrollReply{Name: a.Name}, nil
}

func (s *service) rotate(ctx context.Context, r RotateRequest) (Empty, error) {
	c := callerOf(ctx)
	if err := s.g.o.Agents.Rotate(ctx, c.Name, c.hash, r.CredentialHash); err != nil {
		return Empty{}, err
	}
	s.g.mu.Lock()
	defer s.g.mu.Unlock()
	s.g.rotated[c.hash] = r.CredentialHash
	return Empty{}, nil
}

func (s *service) compare(ctx context.Context, r CompareRequest) (steps.Relation, error) {
	if len(r.Paths) > maxComparePaths || len(r.Repository)+len(r.Wanted)+len(r.Got) > maxText {
		return steps.Relation{}, promo.Errorf(promo.CodeConfiguration, "comparison of %d paths", len(r.Paths)).
			WithHint("at most %d", maxComparePaths)
	}
	return s.g.o.Comparer.Compare(ctx, r.Repository, r.Wanted, r.Got, r.Paths)
}

// hello keeps the stream whose life is the agent's presence.
func (s *service) hello(ss grpc.ServerStream) error {
	in := new(wrapperspb.BytesValue)
	if err := ss.RecvMsg(in); err != nil {
		return err
	}
	var req HelloRequest
	if err := Unpack(in, &req); err != nil {
		return wire(err)
	}
	if len(req.Version) > maxText || len(req.Capabilities) > maxCapabilities {
		return status.Error(codes.InvalidArgument, "version or capabilities too long")
	}
	ctx, done := s.g.watch(ss.Context())
	defer done()
	a := callerOf(ctx)
	if err := s.g.o.Agents.Seen(ctx, a.Name, req.Version, req.Capabilities); err != nil {
		return wire(err)
	}
	if err := s.g.arrive(ctx, a.Name, req); err != nil {
		return wire(err)
	}
	defer s.g.depart(context.WithoutCancel(ctx), a.Name, req)
	frame := HelloFrame{Welcome: &Welcome{Name: a.Name, Namespace: s.g.o.Namespace, TaskQueue: contract.AgentTaskQueue(a.Name)}}
	tick := time.NewTicker(helloInterval)
	defer tick.Stop()
	for {
		out, err := Pack(frame)
		if err != nil {
			return wire(err)
		}
		if err := ss.SendMsg(out); err != nil {
			return err
		}
		frame = HelloFrame{}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return wire(context.Cause(ctx))
		}
	}
}

// arrive tells the fleet when the first stream of an agent opens.
func (g *Gateway) arrive(ctx context.Context, agent string, r HelloRequest) error {
	g.presence.Lock() // keeps the fleet's calls in the order of the counts
	defer g.presence.Unlock()
	if g.countHello(agent, 1) > 1 {
		return nil
	}
	g.o.Logger.InfoContext(ctx, "agent connected", "agent", agent, "version", r.Version)
	p := Presence{Connected: true, Since: time.Now(), Version: r.Version, Capabilities: r.Capabilities}
	if err := g.o.Fleet.Presence(ctx, agent, p); err != nil {
		g.countHello(agent, -1)
		return err
	}
	return nil
}

// depart tells the fleet when the last stream of an agent has ended.
func (g *Gateway) depart(ctx context.Context, agent string, r HelloRequest) {
	g.presence.Lock()
	defer g.presence.Unlock()
	if g.countHello(agent, -1) > 0 {
		return
	}
	g.o.Logger.WarnContext(ctx, "agent disconnected", "agent", agent)
	p := Presence{Since: time.Now(), Version: r.Version, Capabilities: r.Capabilities}
	if err := g.o.Fleet.Presence(ctx, agent, p); err != nil {
		g.o.Logger.ErrorContext(ctx, "an agent's departure was not noted", "agent", agent, "error", err)
	}
}

func (g *Gateway) countHello(agent string, n int) int {
	g.mu.Lock()
	defer g.mu.Unlock()
	s := g.state(agent)
	s.hellos += n
	return s.hellos
}
