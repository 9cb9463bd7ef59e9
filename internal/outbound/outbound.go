// Package outbound makes the one HTTP client by which pipelines reach the world (Http, Notify, webhooks out). It
// refuses loopback, private, link-local and other addresses that are not the public internet's, unless the
// server's configuration names the host, and addresses of cloud metadata always. The address that is really
// dialled is judged, so that neither DNS nor a redirect leads around it.
//
// It must not know pipelines or secrets. Start reading at New.
package outbound

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/davit-cd/davit/internal/promo"
)

// maxRedirects is what a browser would find odd; an API needs one or two.
const maxRedirects = 5

// Options say what may be reached.
type Options struct {
	// Allow names hosts that may have any address (but metadata): "jenkins.internal", "*.corp.example.com",
	// "10.1.2.3", "10.0.0.0/8", each with ":port" for one port only.
	Allow []string
	// Timeout bounds a request, its redirects and body included; 30 s by default.
	Timeout time.Duration
	// Resolver replaces the system's (tests).
	Resolver *net.Resolver
}

// New returns the client. It uses no proxy from the environment: a proxy would be what is dialled.
func New(o Options) (*http.Client, error) {
	g := guard{}
	for _, a := range o.Allow {
		r, err := parseRule(a)
		if err != nil {
			return nil, err
		}
		g.rules = append(g.rules, r)
	}
	if o.Timeout <= 0 {
		o.Timeout = 30 * time.Second
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second, Resolver: o.Resolver}
	g.dialer = dialer
	return &http.Client{
		Timeout:       o.Timeout,
		CheckRedirect: checkRedirect,
		Transport: &http.Transport{
			DialContext:            g.dial,
			ForceAttemptHTTP2:      true,
			MaxIdleConns:           50,
			IdleConnTimeout:        30 * time.Second, // an address that was allowed may change hands
			TLSHandshakeTimeout:    10 * time.Second,
			ResponseHeaderTimeout:  o.Timeout,
			MaxResponseHeaderBytes: 64 << 10,
		},
	}, nil
}

// rule allows hosts by name, or addresses by range.
type rule struct {
	host   string // exact, or with a leading dot for everything below
	prefix netip.Prefix
	port   string
}

func parseRule(s string) (rule, error) {
	bad := promo.Errorf(promo.CodeConfiguration, "outbound.allow: %q is no host", s).
		WithHint(`write "jenkins.internal", "*.corp.example.com", "10.1.2.3:8443" or "10.0.0.0/8"`)
	var r rule
	host := strings.ToLower(strings.TrimSpace(s))
	if h, port, err := net.SplitHostPort(host); err == nil {
		if _, err := strconv.ParseUint(port, 10, 16); err != nil {
			return rule{}, bad
		}
		host, r.port = h, port
	}
	host = strings.Trim(host, "[]")
	if p, err := netip.ParsePrefix(host); err == nil {
		r.prefix = p.Masked()
		return r, nil
	}
	if a, err := netip.ParseAddr(host); err == nil {
		r.prefix = netip.PrefixFrom(a.Unmap(), a.Unmap().BitLen())
		return r, nil
	}
	r.host = strings.TrimPrefix(host, "*")
	if r.host == "" || r.host == "." || strings.ContainsAny(r.host, "*/ @:") || host != r.host && r.host[0] != '.' {
		return rule{}, bad
	}
	return r, nil
}

// names reports whether the rule allows a host by its name.
func (r rule) names(host, port string) bool {
	if r.host == "" || r.port != "" && r.port != port {
		return false
	}
	host = strings.TrimSuffix(strings.ToLower(host), ".")
	return host == r.host || r.host[0] == '.' && strings.HasSuffix(host, r.host)
}

// covers reports whether the rule allows an address.
func (r rule) covers(a netip.Addr, port string) bool {
	return r.host == "" && r.prefix.IsValid() && r.prefix.Contains(a) && (r.port == "" || r.port == port)
}

// guard dials only what is allowed.
type guard struct {
	rules  []rule
	dialer *net.Dialer
}

// errRefused marks a refusal, so that it is told from a connection that failed.
var errRefused = errors.New("refused")

func (g guard) dial(ctx context.Context, network, address string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	named := false
	for _, r := range g.rules {
		named = named || r.names(host, port)
	}
	d := *g.dialer
	// Control runs after resolution with the address that is connected to: there is nothing between it and the
	// connection that could change it.
	d.ControlContext = func(_ context.Context, _, dialled string, _ syscall.RawConn) error {
		return g.judge(host, dialled, named)
	}
	conn, err := d.DialContext(ctx, network, address)
	if err == nil {
		return conn, nil
	}
	if refused, ok := errors.AsType[*promo.Error](err); ok {
		return nil, refused
	}
	return nil, err
}

func (g guard) judge(host, dialled string, named bool) error { //nolint:revive // named is a fact about the host
	ap, err := netip.ParseAddrPort(dialled)
	if err != nil {
		return fmt.Errorf("%w: %q is no address", errRefused, dialled)
	}
	a := ap.Addr().WithZone("").Unmap()
	if isMetadata(a) {
		return promo.Errorf(promo.CodeConfiguration, "%s is at %s, an address of cloud metadata", host, a).
			WithHint("it can't be allowed")
	}
	if named || isPublic(a) {
		return nil
	}
	for _, r := range g.rules {
		if r.covers(a, fmt.Sprint(ap.Port())) {
			return nil
		}
	}
	return promo.Errorf(promo.CodeConfiguration, "%s is at %s, which is not a public address", host, a).
		WithHint("an administrator can name the host in the server's outbound.allow")
}

// checkRedirect follows a few redirects and never carries what the request was trusted with to another host.
func checkRedirect(req *http.Request, via []*http.Request) error {
	if len(via) > maxRedirects {
		return promo.Errorf(promo.CodeConfiguration, "more than %d redirects", maxRedirects)
	}
	first := via[0].URL
	if first.Scheme == "https" && req.URL.Scheme != "https" {
		return promo.Errorf(promo.CodeConfiguration, "%s redirects from https to %s", first.Host, req.URL.Scheme)
	}
	if req.URL.Host != first.Host {
		for name := range req.Header {
			switch name {
			case "Accept", "Accept-Encoding", "Content-Type", "User-Agent", "Idempotency-Key":
			default:
				req.Header.Del(name)
			}
		}
	}
	return nil
}
