package auth

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/davit-cd/davit/internal/promo"
)

func TestGuard(t *testing.T) {
	t.Parallel()
	const refused, stranger, fine = http.StatusForbidden, http.StatusMisdirectedRequest, http.StatusOK
	type headers map[string]string
	cases := map[string]struct {
		reason  string
		method  string
		host    string
		headers headers
		want    int
	}{
		"page":                          {"a plain visit", "GET", "localhost:8080", nil, fine},
		"by address":                    {"the other name", "GET", "127.0.0.1:8080", nil, fine},
		"by IPv6":                       {"the other name", "GET", "[::1]:8080", nil, fine},
		"without port":                  {"a name is a name", "GET", "LOCALHOST.", nil, fine},
		"rebinding":                     {"a foreign name that resolves here", "GET", "evil.example.com:8080", nil, stranger},
		"rebinding, lookalike":          {"no prefix match", "GET", "localhost.example.com", nil, stranger},
		"rebinding, own origin":         {"its pages have the same origin, so the name must do", "POST", "evil.example.com", headers{"Origin": "http://evil.example.com"}, stranger},
		"command line":                  {"no browser: no headers, no cookies", "POST", "localhost:8080", nil, fine},
		"own form":                      {"same origin", "POST", "localhost:8080", headers{"Sec-Fetch-Site": "same-origin", "Origin": "http://localhost:8080", "Cookie": "davit_session=x"}, fine},
		"own form, old browser":         {"Origin alone", "POST", "localhost:8080", headers{"Origin": "http://localhost:8080", "Cookie": "davit_session=x"}, fine},
		"typed address":                 {"by the person", "POST", "localhost:8080", headers{"Sec-Fetch-Site": "none", "Cookie": "davit_session=x"}, fine},
		"foreign form":                  {"the classic", "POST", "localhost:8080", headers{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example.com", "Cookie": "davit_session=x"}, refused},
		"foreign form, no cookie":       {"the demo needs none", "POST", "localhost:8080", headers{"Origin": "https://evil.example.com"}, refused},
		"foreign form, other port":      {"another origin on this machine", "POST", "localhost:8080", headers{"Origin": "http://localhost:9090"}, refused},
		"same site":                     {"a neighbour is not the same origin", "POST", "localhost:8080", headers{"Sec-Fetch-Site": "same-site"}, refused},
		"null origin":                   {"a sandboxed frame", "POST", "localhost:8080", headers{"Origin": "null"}, refused},
		"cookie, no origin":             {"doesn't tell where it comes from", "POST", "localhost:8080", headers{"Cookie": "davit_session=x"}, refused},
		"cookie, no origin, delete":     {"doesn't tell where it comes from", "DELETE", "localhost:8080", headers{"Cookie": "davit_session=x"}, refused},
		"cookie, no origin, read":       {"changes nothing", "GET", "localhost:8080", headers{"Cookie": "davit_session=x"}, fine},
		"foreign read":                  {"its answer can't be read there", "GET", "localhost:8080", headers{"Sec-Fetch-Site": "cross-site", "Origin": "https://evil.example.com"}, fine},
		"foreign put, with credentials": {"any unsafe method", "PUT", "localhost:8080", headers{"Sec-Fetch-Site": "cross-site", "Authorization": "Basic eDp5"}, refused},
	}
	guard := Guard(DemoHosts(), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(fine) }))
	for name, tc := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := httptest.NewRequest(tc.method, "/", nil)
			r.Host = tc.host
			for k, v := range tc.headers {
				r.Header.Set(k, v)
			}
			w := httptest.NewRecorder()
			guard.ServeHTTP(w, r)
			if w.Code != tc.want {
				t.Errorf("%s: want %d, got %d: %s", tc.reason, tc.want, w.Code, w.Body)
			}
		})
	}
}

func TestGuardAnyHost(t *testing.T) {
	t.Parallel()
	guard := Guard(nil, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusOK) }))
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Host = "davit.example.com"
	w := httptest.NewRecorder()
	guard.ServeHTTP(w, r)
	if w.Code != http.StatusOK {
		t.Errorf("got %d", w.Code)
	}
}

func TestRequire(t *testing.T) {
	t.Parallel()
	a := newAuthenticator(t, Options{Source: DemoDirectory(), Demo: true})
	var seen Identity
	var refused error
	h := a.Require(
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = IdentityFrom(r.Context()) }),
		func(_ http.ResponseWriter, _ *http.Request, err error) { refused = err },
	)
	h.ServeHTTP(httptest.NewRecorder(), withHeader(httptest.NewRequest(http.MethodGet, "/", nil), HeaderAs, DemoDeveloper))
	if seen.Name != DemoDeveloper || refused != nil {
		t.Errorf("got %+v, %v", seen, refused)
	}
	seen = Identity{}
	h.ServeHTTP(httptest.NewRecorder(), bearer("davit_x"))
	if seen.Name != "" || promo.CodeOf(refused) != promo.CodeAuthentication {
		t.Errorf("got %+v, %v", seen, refused)
	}
}
