package auth

import (
	"net"
	"net/http"
	"slices"
	"strings"
)

// DemoHosts are the names under which a demo server may be asked for. Another name in the Host header means that
// a foreign page made the browser resolve its own name to this machine.
func DemoHosts() []string { return []string{"localhost", "127.0.0.1", "::1"} }

// Guard is the outer wall, before any route: it answers 421 where the Host header names none of hosts (any, if
// hosts is empty), and 403 where a browser sends an unsafe request from another origin.
//
// What a browser does on its own accord tells where it comes from by Sec-Fetch-Site or Origin; other clients send
// neither, and no cookies. So an unsafe request that has a cookie but neither of the headers is refused too.
func Guard(hosts []string, next http.Handler) http.Handler {
	crossOrigin := http.NewCrossOriginProtection()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if len(hosts) > 0 && !slices.Contains(hosts, hostName(r.Host)) {
			http.Error(w, "this server is not called "+quote(r.Host), http.StatusMisdirectedRequest)
			return
		}
		if err := crossOrigin.Check(r); err != nil || ambiguous(r) {
			http.Error(w, "a request from another origin can't change anything here", http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// ambiguous is an unsafe request with a cookie that doesn't tell where it comes from.
func ambiguous(r *http.Request) bool {
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodOptions:
		return false
	}
	return r.Header.Get("Cookie") != "" && r.Header.Get("Origin") == "" && r.Header.Get("Sec-Fetch-Site") == ""
}

// hostName is the Host header without port, brackets and a trailing dot, in lower case.
func hostName(host string) string {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	host = strings.TrimSuffix(strings.TrimPrefix(host, "["), "]")
	return strings.ToLower(strings.TrimSuffix(host, "."))
}

// quote keeps what a stranger sent from being anything but text.
func quote(s string) string {
	const limit = 100
	if len(s) > limit {
		s = s[:limit]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r > '~' {
			return '?'
		}
		return r
	}, s)
}

// Require lets only known senders pass and puts the Identity into the request's context; refuse answers the
// others. Doors that call Authenticate themselves don't need it.
func (a *Authenticator) Require(next http.Handler, refuse func(http.ResponseWriter, *http.Request, error)) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx, _, err := a.Authenticate(r)
		if err != nil {
			refuse(w, r, err)
			return
		}
		next.ServeHTTP(w, r.WithContext(ctx)) //nolint:contextcheck // Authenticate derives it from the request's
	})
}
