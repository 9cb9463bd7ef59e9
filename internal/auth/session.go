package auth

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

const (
	// sessionAge bounds a session: a working day. A token that ends earlier ends it earlier.
	sessionAge = 12 * time.Hour
	// maxCookie bounds what is read of a cookie; ours have some 200 bytes.
	maxCookie = 2 << 10
)

// session is what the cookie says: signed, not secret. It names a token by hash, so that revoking the token ends
// the session, or a demo user.
type session struct {
	Token   string `json:"t,omitempty"`
	Demo    string `json:"d,omitempty"`
	Expires int64  `json:"x"` // Unix seconds
}

// cookieName has the prefix that keeps other hosts of the domain from planting the cookie, where browsers allow it.
func (a *Authenticator) cookieName() string {
	if a.secure {
		return "__Host-davit_session"
	}
	return "davit_session"
}

// SignIn begins a browser's session with a token's secret. Errors are promo.CodeAuthentication.
func (a *Authenticator) SignIn(w http.ResponseWriter, r *http.Request, secret promo.Secret) (Identity, error) {
	dir, err := a.source.Directory(r.Context())
	if err != nil {
		return Identity{}, err
	}
	if len(secret) > maxCredential {
		return Identity{}, unknownToken()
	}
	hash := HashToken(secret)
	id, err := a.byToken(r.Context(), dir, hash)
	if err != nil {
		return Identity{}, err
	}
	return id, a.set(w, session{Token: hash})
}

// SignOut ends the browser's session.
func (a *Authenticator) SignOut(w http.ResponseWriter) {
	http.SetCookie(w, a.cookie("", -1))
}

// Switch makes the browser act as another demo user. Outside demo mode it is promo.CodeAuthorization.
func (a *Authenticator) Switch(w http.ResponseWriter, r *http.Request, name string) error {
	if !a.demo {
		return promo.Errorf(promo.CodeAuthorization, "users can be switched in demo mode only")
	}
	dir, err := a.source.Directory(r.Context())
	if err != nil {
		return err
	}
	if _, ok := dir.User(name); !ok {
		return promo.Errorf(promo.CodeNotFound, "there is no demo user %q", name).WithHint("the demo users are %s", userNames(dir))
	}
	return a.set(w, session{Demo: name})
}

// set writes the signed cookie.
func (a *Authenticator) set(w http.ResponseWriter, s session) error {
	s.Expires = a.now().Add(sessionAge).Unix()
	payload, err := json.Marshal(s)
	if err != nil {
		return promo.Errorf(promo.CodeInternal, "session: %w", err)
	}
	enc := base64.RawURLEncoding
	http.SetCookie(w, a.cookie(enc.EncodeToString(payload)+"."+enc.EncodeToString(a.sign(payload)), int(sessionAge.Seconds())))
	return nil
}

func (a *Authenticator) cookie(value string, maxAge int) *http.Cookie {
	return &http.Cookie{ //nolint:gosec // all three are set; Secure is off only where the server speaks plain HTTP
		Name: a.cookieName(), Value: value, Path: "/", MaxAge: maxAge, Secure: a.secure, HttpOnly: true,
		SameSite: http.SameSiteLaxMode, // Strict would sign people out who follow a link in a chat; Guard stops the rest
	}
}

// session reads the request's cookie; ok is false for none, a forged or an ended one.
func (a *Authenticator) session(r *http.Request) (s session, ok bool) {
	c, err := r.Cookie(a.cookieName())
	if err != nil || len(c.Value) > maxCookie {
		return session{}, false
	}
	head, tail, _ := strings.Cut(c.Value, ".")
	payload, err := base64.RawURLEncoding.DecodeString(head)
	if err != nil {
		return session{}, false
	}
	signature, err := base64.RawURLEncoding.DecodeString(tail)
	if err != nil || !hmac.Equal(signature, a.sign(payload)) {
		return session{}, false
	}
	if err := json.Unmarshal(payload, &s); err != nil || a.now().Unix() >= s.Expires {
		return session{}, false
	}
	return s, true
}

// sign names its purpose, so that the key may sign other things too.
func (a *Authenticator) sign(payload []byte) []byte {
	mac := hmac.New(sha256.New, a.key)
	mac.Write([]byte("davit session v1\n"))
	mac.Write(payload)
	return mac.Sum(nil)
}
