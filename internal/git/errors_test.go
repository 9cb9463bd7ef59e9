package git_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/davit-cd/davit/internal/git"
	"github.com/davit-cd/davit/internal/promo"
)

func TestServerSaysNo(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		reason string
		status int
		header map[string]string
		code   promo.Code
		word   string
	}{
		"unauthorized": {"wrong token", 401, nil, promo.CodeAuthentication, "credentials"},
		"forbidden":    {"no right", 403, nil, promo.CodeAuthorization, "says why"},
		"limited":      {"too often", 429, map[string]string{"Retry-After": "17"}, promo.CodeRateLimit, "17"},
		"limited 403":  {"too often, in other words", 403, map[string]string{"Retry-After": "17"}, promo.CodeRateLimit, "17"},
		"not found":    {"no such repository", 404, nil, promo.CodeNotFound, "no such repository"},
		"broken":       {"out of order", 502, nil, promo.CodeConnectivity, "502"},
		"slow":         {"a proxy gave up", 504, nil, promo.CodeTimeout, "504"},
		"elsewhere":    {"redirects elsewhere are not followed", 302, map[string]string{"Location": "http://other.example.com/x"}, promo.CodeConfiguration, "redirects"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			f := newFixture(t, git.Options{})
			r := f.repo(t, f.URL)
			f.server.Wrap(func(http.Handler) http.Handler {
				return http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
					for k, v := range tc.header {
						w.Header().Set(k, v)
					}
					w.WriteHeader(tc.status)
					_, _ = io.WriteString(w, "server says why\n")
				})
			})
			_, err := r.Head(t.Context(), "main")
			wantCode(t, err, tc.code, tc.word)
			_, err = r.Change(t.Context(), change("op", "a", "b"))
			wantCode(t, err, tc.code, tc.word)
			f.server.Wrap(nil)
			mustChange(t, r, change("op", "a", "b"))
		})
	}
}

func TestCredentials(t *testing.T) {
	t.Parallel()
	f := newFixture(t, git.Options{})
	var seen atomic.Value
	f.server.Wrap(func(next http.Handler) http.Handler {
		return http.HandlerFunc(func(w http.ResponseWriter, q *http.Request) {
			seen.Store(q.Header.Get("Authorization"))
			next.ServeHTTP(w, q)
		})
	})
	for want, auth := range map[string]git.Auth{
		"Basic dTpw": {Username: "u", Password: "p"},
		"Bearer b":   {Bearer: "b"},
		"":           {},
	} {
		r, err := f.mirrors.Open(t.Context(), git.Remote{Name: "acme/deploy", URL: f.URL, Auth: auth})
		if err != nil {
			t.Fatal(err)
		}
		if _, err := r.Head(t.Context(), "main"); err != nil {
			t.Fatal(err)
		}
		if got := seen.Load(); got != want {
			t.Errorf("signed in with %q, want %q", got, want)
		}
	}
}

func TestRemoteURLs(t *testing.T) {
	t.Parallel()
	m := (&fixture{}).open(t, t.TempDir(), git.Options{})
	for url, word := range map[string]string{
		"ssh://git@example.com/x":          "scheme",
		"git://example.com/x":              "scheme",
		"ext::sh -c touch% /tmp/x":         "url",
		"https://user:token@example.com/x": "credentials",
		"https://example.com":              "no path",
		"file://host/x":                    "file:///",
		"file:relative":                    "file:///",
		"https://example.com/x?y=z":        "query",
		"-oProxyCommand=x":                 "scheme",
	} {
		_, err := m.Open(t.Context(), git.Remote{Name: "x", URL: url})
		wantCode(t, err, promo.CodeConfiguration, word)
		if strings.Contains(err.Error(), "token") {
			t.Errorf("error tells the token: %v", err)
		}
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	dead := httptest.NewServer(http.NotFoundHandler())
	url := dead.URL
	dead.Close()
	m := (&fixture{}).open(t, t.TempDir(), git.Options{})
	r, err := m.Open(t.Context(), git.Remote{Name: "x", URL: url + "/x.git"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Head(t.Context(), "main")
	wantCode(t, err, promo.CodeConnectivity, "127.0.0.1")
	r, err = m.Open(t.Context(), git.Remote{Name: "x", URL: "file:///nowhere/at/all.git"})
	if err != nil {
		t.Fatal(err)
	}
	_, err = r.Head(t.Context(), "main")
	wantCode(t, err, promo.CodeNotFound, "/nowhere/at/all.git")

	hang := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, q *http.Request) { <-q.Context().Done() }))
	t.Cleanup(hang.Close)
	r, err = m.Open(t.Context(), git.Remote{Name: "x", URL: hang.URL + "/x.git"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	_, err = r.Head(ctx, "main")
	wantCode(t, err, promo.CodeTimeout)
	_, err = r.Change(ctx, change("op", "a", "b"))
	wantCode(t, err, promo.CodeTimeout)
	ctx, cancel = context.WithCancel(t.Context())
	cancel()
	if _, err = r.Head(ctx, "main"); !errors.Is(err, context.Canceled) {
		t.Errorf("cancellation became %v", err)
	}
	if _, err = r.Change(ctx, change("op", "a", "b")); !errors.Is(err, context.Canceled) {
		t.Errorf("cancellation became %v", err)
	}
}

func TestGarbageFromServer(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"empty":        "",
		"page":         "<html>please sign in</html>",
		"short line":   "0003",
		"cut line":     "00ffversion 2",
		"no flush":     "000eversion 2\n",
		"huge length":  "ffff",
		"error packet": "0015ERR access denied",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, body) }))
			t.Cleanup(s.Close)
			m := (&fixture{}).open(t, t.TempDir(), git.Options{})
			r, err := m.Open(t.Context(), git.Remote{Name: "x", URL: s.URL + "/x.git"})
			if err != nil {
				t.Fatal(err)
			}
			want := promo.CodeConnectivity
			if name == "error packet" {
				want = promo.CodeAuthorization
			}
			_, err = r.Change(t.Context(), change("op", "a", "b"))
			wantCode(t, err, want)
		})
	}
}
