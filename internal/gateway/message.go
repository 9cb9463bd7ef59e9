package gateway

import (
	"context"
	"encoding/json"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/types/known/wrapperspb"

	"github.com/davit-cd/davit/internal/promo"
)

// The methods of Davit's own service on the gateway's port. Messages are the structs below as JSON inside
// google.protobuf.BytesValue, so that neither end needs generated code.
const (
	ServiceName   = "davit.agent.v1.Agent"
	MethodEnroll  = "/" + ServiceName + "/Enroll"
	MethodRotate  = "/" + ServiceName + "/Rotate"
	MethodHello   = "/" + ServiceName + "/Hello"
	MethodReport  = "/" + ServiceName + "/Report"
	MethodCompare = "/" + ServiceName + "/Compare"
)

// EnrollRequest gives the hash of the credential that the agent made for itself. The enrolment token comes as
// the call's bearer token.
type EnrollRequest struct {
	CredentialHash string `json:"credentialHash"`
}

// EnrollReply says who the agent is.
type EnrollReply struct {
	Name string `json:"name"`
}

// RotateRequest gives the hash of the credential that replaces the one of the call.
type RotateRequest struct {
	CredentialHash string `json:"credentialHash"`
}

// Empty is the answer of calls that only act.
type Empty struct{}

// HelloRequest opens the stream whose life is the agent's presence.
type HelloRequest struct {
	Version      string   `json:"version"`
	Capabilities []string `json:"capabilities,omitempty"`
}

// HelloFrame is what the server sends on that stream: a welcome first, then an empty frame now and then, so
// that a stream that is silent for long is known to be dead.
type HelloFrame struct {
	Welcome *Welcome `json:"welcome,omitempty"`
}

// Welcome tells the agent what it needs to work.
type Welcome struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
	TaskQueue string `json:"taskQueue"`
}

// Report is a part of what the agent sees. Parts are numbered from 1 in each epoch (a random name for one run
// of the agent). A snapshot is one or several parts with Snapshot set, More on all but the last; it replaces
// everything. Other parts are changes.
type Report struct {
	Epoch        string                 `json:"epoch"`
	Seq          uint64                 `json:"seq"`
	Snapshot     bool                   `json:"snapshot,omitempty"`
	More         bool                   `json:"more,omitempty"`
	Applications []promo.Application    `json:"applications,omitempty"`
	Removed      []promo.ApplicationRef `json:"removed,omitempty"`
}

// ReportReply asks for a snapshot where the server has missed a part.
type ReportReply struct {
	SendSnapshot bool `json:"sendSnapshot,omitempty"`
}

// CompareRequest asks how got stands to wanted, as far as the paths go.
type CompareRequest struct {
	Repository string   `json:"repository"`
	Wanted     string   `json:"wanted"`
	Got        string   `json:"got"`
	Paths      []string `json:"paths"`
}

// Pack puts a message into its envelope.
func Pack(m any) (*wrapperspb.BytesValue, error) {
	raw, err := json.Marshal(m)
	if err != nil {
		return nil, promo.Errorf(promo.CodeInternal, "encode %T: %w", m, err)
	}
	return wrapperspb.Bytes(raw), nil
}

// Unpack takes a message out of its envelope. Unknown fields are ignored: the other end may be newer.
func Unpack(b *wrapperspb.BytesValue, m any) error {
	if err := json.Unmarshal(b.GetValue(), m); err != nil {
		return promo.Errorf(promo.CodeConfiguration, "decode %T: %w", m, err)
	}
	return nil
}

// Unwire gives what a call of the service returned its code back. It returns nil for nil.
func Unwire(err error) error {
	s := status.Convert(err)
	switch s.Code() {
	case codes.OK:
		return nil
	case codes.Canceled:
		return context.Canceled
	case codes.Unauthenticated:
		return promo.Errorf(promo.CodeAuthentication, "%s", s.Message())
	case codes.PermissionDenied:
		return promo.Errorf(promo.CodeAuthorization, "%s", s.Message())
	case codes.NotFound:
		return promo.Errorf(promo.CodeNotFound, "%s", s.Message())
	case codes.InvalidArgument:
		return promo.Errorf(promo.CodeConfiguration, "%s", s.Message())
	case codes.Aborted:
		return promo.Errorf(promo.CodeConflict, "%s", s.Message())
	case codes.ResourceExhausted:
		return promo.Errorf(promo.CodeRateLimit, "%s", s.Message())
	case codes.DeadlineExceeded:
		return promo.Errorf(promo.CodeTimeout, "%s", s.Message())
	case codes.Unavailable:
		return promo.Errorf(promo.CodeConnectivity, "%s", s.Message())
	default:
		return promo.Errorf(promo.CodeInternal, "%s", s.Message())
	}
}
