package app

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"strings"
	"time"

	"github.com/davit-cd/davit/internal/auth"
	"github.com/davit-cd/davit/internal/promo"
)

// certificate is what the server shows, and how it trusts itself.
type certificate struct {
	config *tls.Config
	// trust accepts the server's own certificate beside those of the system.
	trust *x509.CertPool
	// name is one that the certificate is for.
	name string
}

// openTLS checks that what is listened on may be, and reads the certificate.
func (a *App) openTLS(context.Context) error {
	given := a.o.TLSCert != "" || a.o.TLSKey != ""
	if a.o.Users == "" {
		if err := auth.CheckListen(a.o.Listen); err != nil {
			return err
		}
	}
	for _, address := range []string{a.o.Listen, a.o.AgentListen} {
		if err := auth.CheckTLS(address, given); err != nil {
			return err
		}
	}
	if !given {
		return nil
	}
	pair, err := tls.LoadX509KeyPair(a.o.TLSCert, a.o.TLSKey)
	if err != nil {
		return promo.Errorf(promo.CodeConfiguration, "certificate %q with key %q: %w", a.o.TLSCert, a.o.TLSKey, err).
			WithHint("--tls-cert and --tls-key are PEM files that belong together")
	}
	pool, err := x509.SystemCertPool()
	if err != nil {
		pool = x509.NewCertPool() // the server still trusts itself
	}
	pool.AddCert(pair.Leaf)
	name := pair.Leaf.Subject.CommonName
	switch {
	case len(pair.Leaf.DNSNames) > 0:
		name = pair.Leaf.DNSNames[0]
	case len(pair.Leaf.IPAddresses) > 0:
		name = pair.Leaf.IPAddresses[0].String()
	}
	a.tls = &certificate{
		config: &tls.Config{MinVersion: tls.VersionTLS12, Certificates: []tls.Certificate{pair}}, trust: pool, name: strings.Replace(name, "*", "davit", 1),
	}
	return nil
}

// agentTLS is what the gateway serves with: nothing on loopback, where the agents of sandbox clusters knock.
func (a *App) agentTLS() *tls.Config {
	if tcp, ok := a.agents.Addr().(*net.TCPAddr); a.tls == nil || (ok && tcp.IP.IsLoopback()) {
		return nil
	}
	return a.tls.config
}

// selfTLS is how this process's own clients know its server; nil without TLS.
func (a *App) selfTLS() *tls.Config {
	if a.tls == nil {
		return nil
	}
	return &tls.Config{MinVersion: tls.VersionTLS12, RootCAs: a.tls.trust, ServerName: a.tls.name}
}

// sandboxTLS is how the agents of sandbox clusters know the gateway.
func (a *App) sandboxTLS() *tls.Config {
	if a.agentTLS() == nil {
		return nil
	}
	return a.selfTLS()
}

// gitClient reaches the local forge through the server's own address.
func (a *App) gitClient() *http.Client {
	if a.tls == nil {
		return nil
	}
	return &http.Client{
		Timeout: 10 * time.Minute, // as for any repository: the first contact with a large one is slow
		Transport: &http.Transport{
			TLSClientConfig: a.selfTLS(), MaxIdleConnsPerHost: 16, IdleConnTimeout: time.Minute,
			TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: time.Minute,
		},
	}
}

// addresses sets where people find the server, and where it finds itself.
func (a *App) addresses() error {
	scheme := "http://"
	if a.tls != nil {
		scheme = "https://"
	}
	own := a.listener.Addr().String()
	if host, port, err := net.SplitHostPort(own); err == nil {
		if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
			own = net.JoinHostPort("localhost", port)
		}
	}
	a.self = scheme + own
	a.url = a.self
	if a.o.URL == "" {
		return nil
	}
	u, err := url.Parse(a.o.URL)
	if err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Host == "" || strings.Trim(u.Path, "/") != "" {
		return promo.Errorf(promo.CodeConfiguration, "--url %q is no address of a server", a.o.URL).WithHint("like https://davit.example.com")
	}
	a.url = u.Scheme + "://" + u.Host
	return nil
}

// sandboxServer is where the agents of sandbox clusters reach the gateway.
func (a *App) sandboxServer() string {
	host, port, err := net.SplitHostPort(a.agents.Addr().String())
	if err != nil {
		return a.agents.Addr().String()
	}
	if ip, err := netip.ParseAddr(host); err == nil && ip.IsUnspecified() {
		host = "localhost"
	}
	return net.JoinHostPort(host, port)
}
