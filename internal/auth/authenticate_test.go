package auth

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/davit-cd/davit/internal/promo"
)

// clock is a hand-set time.
type clock struct{ at time.Time }

func (c *clock) now() time.Time { return c.at }

func noon() *clock { return &clock{at: time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)} }

// shelf is a TokenSource.
type shelf map[string]Token

func (s shelf) TokenByHash(_ context.Context, hash string) (Token, error) {
	if t, ok := s[hash]; ok {
		return t, nil
	}
	if t, ok := s["broken"]; ok {
		return Token{}, promo.Errorf(promo.CodeConnectivity, "the store of %q is away", t.Name)
	}
	return Token{}, promo.Errorf(promo.CodeNotFound, "no such token")
}

func newAuthenticator(t *testing.T, o Options) *Authenticator {
	t.Helper()
	o.Key = []byte(strings.Repeat("k", minKey))
	if o.Now == nil {
		o.Now = noon().now
	}
	a, err := NewAuthenticator(o)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func bearer(secret promo.Secret) *http.Request {
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set("Authorization", "Bearer "+secret.Reveal())
	return r
}

func TestAuthenticateByToken(t *testing.T) {
	t.Parallel()
	fileSecret, fileHash := NewSecret()
	runtimeSecret, runtimeHash := NewSecret()
	oldSecret, oldHash := NewSecret()
	machineSecret, machineHash := NewSecret()
	dir := NewDirectory([]promo.Principal{{Name: "dave", Email: "dave@example.com", Groups: []string{"developers"}}}, nil, nil, []Token{
		{Hash: fileHash, Name: "laptop", User: "dave", Role: RoleDeveloper, Project: "shop", Expires: noon().at.Add(time.Second)},
		{Hash: oldHash, Name: "old", User: "dave", Role: RoleDeveloper, Project: "shop", Expires: noon().at},
	})
	tokens := shelf{
		runtimeHash: {Hash: runtimeHash, Name: "ci", User: "dave", Role: RoleViewer},
		machineHash: {Hash: machineHash, Name: "bot", User: "robot", Role: RoleViewer, Project: "shop"},
	}
	dave := promo.Principal{Name: "dave", Email: "dave@example.com", Groups: []string{"developers"}}
	basic := httptest.NewRequest(http.MethodGet, "/", nil)
	basic.SetBasicAuth("anyone", fileSecret.Reveal())
	header := func(value string) *http.Request {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.Header.Set("Authorization", value)
		return r
	}
	cases := map[string]struct {
		reason string
		req    *http.Request
		who    promo.Principal
		token  string
		want   string // a part of the error
	}{
		"users file":   {"its user, bounded by the token", bearer(fileSecret), dave, "laptop shop", ""},
		"run time":     {"no project means all", bearer(runtimeSecret), dave, "ci *", ""},
		"machine":      {"a token of somebody who is no user: a name without groups", bearer(machineSecret), promo.Principal{Name: "robot"}, "bot shop", ""},
		"git":          {"the password of basic authentication", basic, dave, "laptop shop", ""},
		"lower case":   {"the scheme has no case", header("bearer " + fileSecret.Reveal()), dave, "laptop shop", ""},
		"expired":      {"at its very second", bearer(oldSecret), promo.Principal{}, "", `token "old" of "dave" expired`},
		"unknown":      {"a guess", bearer("davit_guess"), promo.Principal{}, "", "the token is not known"},
		"the hash":     {"what the store keeps lets nobody in", bearer(promo.Secret(fileHash)), promo.Principal{}, "", "the token is not known"},
		"nothing":      {"nobody", httptest.NewRequest(http.MethodGet, "/", nil), promo.Principal{}, "", "nobody is signed in"},
		"other scheme": {"not understood is not passed over", header("Digest x"), promo.Principal{}, "", "can't be read"},
		"empty bearer": {"not understood is not passed over", header("Bearer "), promo.Principal{}, "", "can't be read"},
		"huge":         {"not hashed at all", header("Bearer " + strings.Repeat("x", maxCredential)), promo.Principal{}, "", "can't be read"},
		"demo header":  {"counts in demo mode only", withHeader(httptest.NewRequest(http.MethodGet, "/", nil), HeaderAs, "dave"), promo.Principal{}, "", "nobody is signed in"},
	}
	a := newAuthenticator(t, Options{Source: dir, Tokens: tokens})
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, who, err := a.Authenticate(tc.req)
			if tc.want != "" {
				if promo.CodeOf(err) != promo.CodeAuthentication || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s: want %q, got %v", tc.reason, tc.want, err)
				}
				if id := IdentityFrom(ctx); id.Name != "" || id.Token != nil {
					t.Errorf("%s: refused, but the context carries %+v", tc.reason, id)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			id := IdentityFrom(ctx)
			if diff := cmp.Diff(tc.who, who); diff != "" || !cmp.Equal(who, id.Principal) {
				t.Errorf("%s: -want +got:\n%s", tc.reason, diff)
			}
			if got := id.Token.Name + " " + id.Token.Project; got != tc.token || id.Demo {
				t.Errorf("%s: want token %q, got %q", tc.reason, tc.token, got)
			}
		})
	}
}

func withHeader(r *http.Request, name, value string) *http.Request {
	r.Header.Set(name, value)
	return r
}

func TestTokenStoreAway(t *testing.T) {
	t.Parallel()
	a := newAuthenticator(t, Options{Source: oneOfEach(), Tokens: shelf{"broken": {Name: "x"}}})
	if _, _, err := a.Authenticate(bearer("davit_x")); promo.CodeOf(err) != promo.CodeConnectivity {
		t.Errorf("could not find out is not unknown: got %v", err)
	}
}

func TestNewSecret(t *testing.T) {
	t.Parallel()
	one, hash := NewSecret()
	two, _ := NewSecret()
	if one == two || !strings.HasPrefix(one.Reveal(), TokenPrefix) || len(one) < 40 || hash != HashToken(one) || !validHash(hash) {
		t.Errorf("got %q, %q", one.Reveal(), hash)
	}
	if strings.Contains(one.String(), TokenPrefix) {
		t.Error("a secret prints itself")
	}
}

// TestTokenComparisonIsExhaustive: every token is compared, and the last of several is found like the first.
func TestTokenComparisonIsExhaustive(t *testing.T) {
	t.Parallel()
	var tokens []Token
	var hashes []string
	for range 50 {
		_, h := NewSecret()
		hashes = append(hashes, h)
		tokens = append(tokens, Token{Hash: h, Name: h})
	}
	dir := NewDirectory(nil, nil, nil, tokens)
	for _, h := range hashes {
		if got, ok := dir.token(h); !ok || got.Name != h {
			t.Errorf("%s: got %+v, %t", h, got, ok)
		}
		if _, ok := dir.token(h[:63]); ok {
			t.Error("a part of a hash is no hash")
		}
		if _, ok := dir.token(h[:63] + "x"); ok {
			t.Error("a hash but for its last digit is another")
		}
	}
	if _, ok := dir.token(""); ok {
		t.Error("the empty hash is no hash")
	}
}

func TestNewAuthenticatorRefuses(t *testing.T) {
	t.Parallel()
	key := []byte(strings.Repeat("k", minKey))
	for name, o := range map[string]Options{
		"short key": {Key: key[1:], Source: oneOfEach(), Now: noon().now}, "no source": {Key: key, Now: noon().now}, "no clock": {Key: key, Source: oneOfEach()},
	} {
		if _, err := NewAuthenticator(o); err == nil {
			t.Errorf("%s: want an error", name)
		}
	}
}

// cookieOf returns a request with the cookie that the response set.
func cookieOf(t *testing.T, w *httptest.ResponseRecorder) *http.Request {
	t.Helper()
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	cookies := w.Result().Cookies()
	if len(cookies) != 1 {
		t.Fatalf("want one cookie, got %v", cookies)
	}
	r.AddCookie(cookies[0])
	return r
}

func TestSession(t *testing.T) {
	t.Parallel()
	secret, hash := NewSecret()
	when := noon()
	tokens := shelf{hash: {Hash: hash, Name: "t", User: "dave", Role: RoleDeveloper, Project: "shop", Expires: when.at.Add(14 * time.Hour)}}
	a := newAuthenticator(t, Options{Source: oneOfEach(), Tokens: tokens, Now: when.now, Secure: true})

	w := httptest.NewRecorder()
	if _, err := a.SignIn(w, httptest.NewRequest(http.MethodPost, "/", nil), "davit_wrong"); promo.CodeOf(err) != promo.CodeAuthentication || len(w.Header()) > 0 {
		t.Errorf("a wrong token: got %v, %v", err, w.Header())
	}
	id, err := a.SignIn(w, httptest.NewRequest(http.MethodPost, "/", nil), secret)
	if err != nil || id.Name != "dave" {
		t.Fatalf("got %+v, %v", id, err)
	}
	c := w.Result().Cookies()[0]
	if !c.HttpOnly || !c.Secure || c.SameSite != http.SameSiteLaxMode || c.Path != "/" || !strings.HasPrefix(c.Name, "__Host-") {
		t.Errorf("a careless cookie: %+v", c)
	}
	if strings.Contains(c.Value, secret.Reveal()) {
		t.Error("the cookie holds the token itself")
	}
	req := cookieOf(t, w)
	ctx, who, err := a.Authenticate(req)
	if err != nil || who.Name != "dave" || IdentityFrom(ctx).Token.Role != RoleDeveloper {
		t.Errorf("got %+v, %v", who, err)
	}

	if _, _, err := a.Authenticate(withHeader(cookieOf(t, w), "Authorization", "Bearer davit_wrong")); err == nil {
		t.Error("a bad token must not be passed over in favour of the cookie")
	}
	other := newAuthenticator(t, Options{Source: oneOfEach(), Tokens: tokens, Now: when.now, Secure: true})
	other.key = []byte(strings.Repeat("j", minKey))
	if _, _, err := other.Authenticate(req); err == nil {
		t.Error("another server's cookie")
	}

	delete(tokens, hash)
	if _, _, err := a.Authenticate(req); promo.CodeOf(err) != promo.CodeAuthentication {
		t.Errorf("a revoked token ends its sessions: got %v", err)
	}
	tokens[hash] = Token{Hash: hash, Name: "t", User: "dave"}
	when.at = when.at.Add(sessionAge)
	if _, _, err := a.Authenticate(req); promo.CodeOf(err) != promo.CodeAuthentication {
		t.Errorf("a day later: got %v", err)
	}

	w = httptest.NewRecorder()
	a.SignOut(w)
	if c := w.Result().Cookies()[0]; c.MaxAge >= 0 || c.Value != "" {
		t.Errorf("got %+v", c)
	}
}

// TestForgedSessions: each way of altering a good cookie.
func TestForgedSessions(t *testing.T) {
	t.Parallel()
	a := newAuthenticator(t, Options{Source: DemoDirectory(), Demo: true})
	w := httptest.NewRecorder()
	if err := a.Switch(w, httptest.NewRequest(http.MethodPost, "/", nil), DemoDeveloper); err != nil {
		t.Fatal(err)
	}
	good := w.Result().Cookies()[0].Value
	head, tail, _ := strings.Cut(good, ".")
	for name, value := range map[string]string{
		"none": "", "no signature": head, "empty signature": head + ".", "cut signature": good[:len(good)-2], "other payload": "e30." + tail,
		"swapped": tail + "." + head, "not base64": "?.?", "huge": strings.Repeat("x", maxCookie+1), "a bit": flip(head) + "." + tail,
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		r.AddCookie(&http.Cookie{Name: a.cookieName(), Value: value})
		if s, ok := a.session(r); ok {
			t.Errorf("%s: accepted as %+v", name, s)
		}
	}
}

func flip(s string) string { return s[:5] + string(s[5]^1) + s[6:] }

func TestDemo(t *testing.T) {
	t.Parallel()
	a := newAuthenticator(t, Options{Source: DemoDirectory(), Demo: true})
	get := func() *http.Request { return httptest.NewRequest(http.MethodGet, "/", nil) }
	name := func(r *http.Request) string {
		t.Helper()
		ctx, who, err := a.Authenticate(r)
		if err != nil {
			return err.Error()
		}
		if id := IdentityFrom(ctx); !id.Demo || id.Token != nil {
			t.Errorf("got %+v", id)
		}
		return who.Name
	}
	if got := name(get()); got != DemoAdmin {
		t.Errorf("at first: %s", got)
	}
	w := httptest.NewRecorder()
	if err := a.Switch(w, get(), DemoReleaseManager); err != nil {
		t.Fatal(err)
	}
	if got := name(cookieOf(t, w)); got != DemoReleaseManager {
		t.Errorf("after the switch: %s", got)
	}
	if got := name(withHeader(cookieOf(t, w), HeaderAs, DemoDeveloper)); got != DemoDeveloper {
		t.Errorf("--as: %s", got)
	}
	if got := name(withHeader(get(), HeaderAs, "mallory")); got != `there is no demo user "mallory" (the demo users are admin, developer, release-manager)` {
		t.Errorf("an unknown user: %s", got)
	}
	if err := a.Switch(httptest.NewRecorder(), get(), "mallory"); promo.CodeOf(err) != promo.CodeNotFound {
		t.Errorf("got %v", err)
	}
	if err := newAuthenticator(t, Options{Source: DemoDirectory()}).Switch(httptest.NewRecorder(), get(), DemoAdmin); promo.CodeOf(err) != promo.CodeAuthorization {
		t.Errorf("outside demo mode: got %v", err)
	}
	forged := get()
	forged.AddCookie(&http.Cookie{Name: a.cookieName(), Value: "x.y"})
	if got := name(forged); got != DemoDefault {
		t.Errorf("a forged cookie is none: %s", got)
	}
	if _, _, err := a.Authenticate(bearer("davit_x")); promo.CodeOf(err) != promo.CodeAuthentication {
		t.Errorf("a wrong token is wrong in demo mode too: got %v", err)
	}
}

// TestDemoUsers: what the demo needs of its users.
func TestDemoUsers(t *testing.T) {
	t.Parallel()
	dir := DemoDirectory()
	a := newAuthorizer(t, dir, nil)
	for _, tc := range []struct {
		user   string
		action Action
		want   bool
	}{
		{DemoDeveloper, PromotionRun, true},
		{DemoDeveloper, PromotionDecide, false},
		{DemoReleaseManager, PromotionDecide, true},
		{DemoReleaseManager, RollbackRun, true},
		{DemoReleaseManager, DefinitionApply, false},
		{DemoAdmin, DefinitionApply, true},
		{DemoAdmin, TokenAdmin, true},
	} {
		who, ok := dir.User(tc.user)
		if err := a.Authorize(t.Context(), who, tc.action, Resource{Project: "quickstart"}); !ok || (err == nil) != tc.want {
			t.Errorf("%s, %s: got %v", tc.user, tc.action, err)
		}
	}
	for _, name := range []string{DemoReleaseManager, DemoAdmin} {
		if who, _ := dir.User(name); !strings.Contains(strings.Join(who.Groups, " "), DemoGroup) {
			t.Errorf("%s is not in %s: %v", name, DemoGroup, who.Groups)
		}
	}
}

func TestCheckListen(t *testing.T) {
	t.Parallel()
	for address, fine := range map[string]bool{
		"127.0.0.1:8080": true, "localhost:8080": true, "[::1]:8080": true, "127.5.6.7:0": true, "[::ffff:127.0.0.1]:1": true,
		":8080": false, "0.0.0.0:8080": false, "[::]:8080": false, "192.0.2.1:8080": false, "example.com:8080": false, "127.0.0.1": false,
		"localhost.example.com:1": false, "127.0.0.1.example.com:1": false,
	} {
		if err := CheckListen(address); (err == nil) != fine || (err != nil && promo.CodeOf(err) != promo.CodeConfiguration) {
			t.Errorf("%s: got %v", address, err)
		}
	}
}

// TestActAs: beside a token, --as counts for whoever may do all anyway.
func TestActAs(t *testing.T) {
	t.Parallel()
	adminSecret, adminHash := NewSecret()
	shopSecret, shopHash := NewSecret()
	developerSecret, developerHash := NewSecret()
	tokens := shelf{
		adminHash:     {Hash: adminHash, Name: "this-machine", User: DemoAdmin, Role: RoleAdmin},
		shopHash:      {Hash: shopHash, Name: "shop", User: DemoAdmin, Role: RoleAdmin, Project: "shop"},
		developerHash: {Hash: developerHash, Name: "ci", User: DemoDeveloper, Role: RoleDeveloper},
	}
	cases := map[string]struct {
		reason string
		demo   bool
		secret promo.Secret
		as     string
		want   string // the user, or a part of the error
	}{
		"the machine's":   {"approve --as release-manager, with the token of up.json", true, adminSecret, DemoReleaseManager, DemoReleaseManager},
		"unknown":         {"no such user", true, adminSecret, "mallory", `there is no demo user "mallory"`},
		"a developer's":   {"no way up", true, developerSecret, DemoAdmin, `token "ci" can't act as another user`},
		"of one project":  {"the demo's users have rights everywhere", true, shopSecret, DemoAdmin, `token "shop" can't act as another user`},
		"wrong token":     {"a token is never passed over", true, "davit_x", DemoDeveloper, "the token is not known"},
		"no demo":         {"never taken for someone else than was asked for", false, adminSecret, DemoDeveloper, "no demo users"},
		"no demo, no one": {"without --as the token counts", false, adminSecret, "", DemoAdmin},
	}
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			a := newAuthenticator(t, Options{Source: DemoDirectory(), Tokens: tokens, Demo: tc.demo})
			ctx, who, err := a.Authenticate(withHeader(bearer(tc.secret), HeaderAs, tc.as))
			if err != nil {
				if promo.CodeOf(err) != promo.CodeAuthentication || !strings.Contains(err.Error(), tc.want) {
					t.Errorf("%s: want %q, got %v", tc.reason, tc.want, err)
				}
				return
			}
			if id := IdentityFrom(ctx); who.Name != tc.want || (tc.as != "" && id.Token != nil) {
				t.Errorf("%s: want %s, got %+v", tc.reason, tc.want, id)
			}
		})
	}
}
