package gateway

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
)

// seal binds task tokens to agents: a token leaves as mac|token, where mac covers the agent's name and the
// token. The key must survive restarts, or tasks under way are lost and time out.
type seal struct{ key []byte }

func (s seal) mac(agent string, token []byte) []byte {
	h := hmac.New(sha256.New, s.key)
	var n [4]byte
	binary.BigEndian.PutUint32(n[:], uint32(len(agent))) //nolint:gosec // a name has at most 63 bytes
	h.Write(n[:])                                        // the length keeps name and token apart
	h.Write([]byte(agent))
	h.Write(token)
	return h.Sum(nil)
}

func (s seal) close(agent string, token []byte) []byte {
	return append(s.mac(agent, token), token...)
}

func (s seal) open(agent string, sealed []byte) ([]byte, error) {
	if len(sealed) <= sha256.Size || !hmac.Equal(s.mac(agent, sealed[sha256.Size:]), sealed[:sha256.Size]) {
		return nil, status.Error(codes.PermissionDenied, "the task token does not belong to this agent")
	}
	return sealed[sha256.Size:], nil
}
