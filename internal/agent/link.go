package agent

import (
	"context"
	"errors"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/davit-cd/davit/internal/gateway"
	"github.com/davit-cd/davit/internal/promo"
	"github.com/davit-cd/davit/steps"
)

const (
	// callLimit bounds one call to the server; the longest is a part of a report.
	callLimit = 30 * time.Second
	// A server that is gone without a word is noticed after pingAfter+pingLimit.
	pingAfter, pingLimit = 20 * time.Second, 10 * time.Second
)

// link is the connection for Davit's own service. Temporal's client has one of its own to the same port.
type link struct {
	conn *grpc.ClientConn
	keys *keyring
}

func newLink(o Options, keys *keyring) (*link, error) {
	transport := insecure.NewCredentials()
	if o.TLS != nil {
		transport = credentials.NewTLS(o.TLS)
	}
	pace := backoff.DefaultConfig
	pace.MaxDelay = maxPause
	conn, err := grpc.NewClient(o.Server, grpc.WithTransportCredentials(transport),
		grpc.WithConnectParams(grpc.ConnectParams{Backoff: pace, MinConnectTimeout: pingLimit}),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: pingAfter, Timeout: pingLimit, PermitWithoutStream: true}))
	if err != nil {
		return nil, promo.Errorf(promo.CodeConfiguration, "server %q: %w", o.Server, err)
	}
	return &link{conn: conn, keys: keys}, nil
}

func (l *link) close() { _ = l.conn.Close() }

func with(ctx context.Context, s promo.Secret) context.Context {
	return metadata.AppendToOutgoingContext(ctx, "authorization", "Bearer "+s.Reveal())
}

// call makes one unary call with the given credential.
func (l *link) call(ctx context.Context, s promo.Secret, method string, req, resp any) error {
	in, err := gateway.Pack(req)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(with(ctx, s), callLimit)
	defer cancel()
	out := new(wrapperspb.BytesValue)
	if err := l.conn.Invoke(ctx, method, in, out); err != nil {
		return gateway.Unwire(err)
	}
	return gateway.Unpack(out, resp)
}

func (l *link) enroll(ctx context.Context, token, credential promo.Secret) error {
	return l.call(ctx, token, gateway.MethodEnroll, gateway.EnrollRequest{CredentialHash: gateway.HashSecret(credential)}, &gateway.EnrollReply{})
}

func (l *link) rotate(ctx context.Context, next promo.Secret) error {
	return l.call(ctx, l.keys.secret(), gateway.MethodRotate, gateway.RotateRequest{CredentialHash: gateway.HashSecret(next)}, &gateway.Empty{})
}

func (l *link) report(ctx context.Context, r gateway.Report) (reply gateway.ReportReply, err error) {
	err = l.call(ctx, l.keys.secret(), gateway.MethodReport, r, &reply)
	return reply, err
}

// Compare implements steps.Comparer by asking the server, which has the mirror.
func (l *link) Compare(ctx context.Context, repository, wanted, got string, paths []string) (r steps.Relation, err error) {
	req := gateway.CompareRequest{Repository: repository, Wanted: wanted, Got: got, Paths: paths}
	err = l.call(ctx, l.keys.secret(), gateway.MethodCompare, req, &r)
	return r, err
}

// hello is an open presence stream.
type hello struct {
	stream  grpc.ClientStream
	welcome gateway.Welcome
}

func (l *link) hello(ctx context.Context, o Options) (*hello, error) {
	stream, err := l.conn.NewStream(with(ctx, l.keys.secret()), &grpc.StreamDesc{ServerStreams: true}, gateway.MethodHello)
	if err != nil {
		return nil, gateway.Unwire(err)
	}
	in, err := gateway.Pack(gateway.HelloRequest{Version: o.Version, Capabilities: o.Capabilities})
	if err != nil {
		return nil, err
	}
	h := &hello{stream: stream}
	if err := errors.Join(stream.SendMsg(in), stream.CloseSend()); err != nil {
		return nil, gateway.Unwire(stream.RecvMsg(new(wrapperspb.BytesValue))) // the stream knows why
	}
	frame, err := h.next()
	if err != nil {
		return nil, err
	}
	if frame.Welcome == nil {
		return nil, promo.Errorf(promo.CodeInternal, "the server sent no welcome")
	}
	h.welcome = *frame.Welcome
	return h, nil
}

func (h *hello) next() (frame gateway.HelloFrame, err error) {
	out := new(wrapperspb.BytesValue)
	if err := h.stream.RecvMsg(out); err != nil {
		return frame, gateway.Unwire(err)
	}
	return frame, gateway.Unpack(out, &frame)
}

// wait returns why the stream ended.
func (h *hello) wait() error {
	for {
		if _, err := h.next(); err != nil {
			return err
		}
	}
}
