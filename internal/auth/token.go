package auth

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"errors"
	"net/http"
	"strings"

	"github.com/davit-cd/davit/internal/promo"
)

const (
	// TokenPrefix lets people and secret scanners recognise a token.
	TokenPrefix = "davit_"
	// tokenBytes of randomness can't be guessed, so that lookups need no limit of their own.
	tokenBytes = 32
	// maxCredential bounds what is hashed at the request of someone unknown.
	maxCredential = 512
)

// TokenSource finds tokens made at run time. One that doesn't exist is promo.CodeNotFound.
type TokenSource interface {
	TokenByHash(ctx context.Context, hash string) (Token, error)
}

// NewSecret makes a token's secret, to be shown once, and its hash, to be kept.
func NewSecret() (secret promo.Secret, hash string) {
	raw := make([]byte, tokenBytes)
	_, _ = rand.Read(raw) // never fails: crypto/rand ends the process rather than give less
	s := TokenPrefix + base64.RawURLEncoding.EncodeToString(raw)
	return promo.Secret(s), HashToken(promo.Secret(s))
}

// HashToken is the hex SHA-256 of a token's secret. A plain hash is enough: the secret is random.
func HashToken(secret promo.Secret) string {
	sum := sha256.Sum256([]byte(secret.Reveal()))
	return hex.EncodeToString(sum[:])
}

// credential returns the token that the request carries: as a bearer, or as the password of basic
// authentication, which is what git can send. given is false where there is no Authorization header.
func credential(r *http.Request) (secret promo.Secret, given bool, err error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return "", false, nil
	}
	if len(header) <= maxCredential {
		if _, password, ok := r.BasicAuth(); ok && password != "" {
			return promo.Secret(password), true, nil
		}
		scheme, value, _ := strings.Cut(header, " ")
		if value = strings.TrimSpace(value); strings.EqualFold(scheme, "Bearer") && value != "" {
			return promo.Secret(value), true, nil
		}
	}
	return "", true, promo.Errorf(promo.CodeAuthentication, "the Authorization header can't be read").
		WithHint("send Authorization: Bearer TOKEN")
}

// find looks a token up by hash, in the directory and then among those made at run time, and checks its expiry.
func (a *Authenticator) find(ctx context.Context, dir *Directory, hash string) (Token, error) {
	t, ok := dir.token(hash)
	if !ok {
		if a.tokens == nil {
			return Token{}, unknownToken()
		}
		found, err := a.tokens.TokenByHash(ctx, hash)
		var e *promo.Error
		if errors.As(err, &e) && e.Code == promo.CodeNotFound {
			return Token{}, unknownToken()
		}
		if err != nil {
			return Token{}, err
		}
		t = found
	}
	if !t.Expires.IsZero() && !a.now().Before(t.Expires) {
		return Token{}, promo.Errorf(promo.CodeAuthentication, "token %q of %q expired", t.Name, t.User).WithHint("ask an admin for a new one")
	}
	return t, nil
}

func unknownToken() error {
	return promo.Errorf(promo.CodeAuthentication, "the token is not known").WithHint("it was revoked, mistyped, or belongs to another server")
}
