package auth

import (
	"net"
	"net/netip"

	"github.com/davit-cd/davit/internal/promo"
)

// The demo's users.
const (
	DemoDeveloper      = "developer"
	DemoReleaseManager = "release-manager"
	DemoAdmin          = "admin"
	// DemoDefault is who a request acts as that doesn't say: the person whose machine it is.
	DemoDefault = DemoAdmin
	// DemoGroup is the group that the demo's approvals ask for.
	DemoGroup = "release-managers"
)

// DemoDirectory holds the demo's users. None has a password: see CheckListen.
func DemoDirectory() *Directory {
	return NewDirectory(
		[]promo.Principal{
			{Name: DemoDeveloper, Email: "developer@example.com", Groups: []string{"developers"}},
			{Name: DemoReleaseManager, Email: "release-manager@example.com", Groups: []string{DemoGroup}},
			{Name: DemoAdmin, Email: "admin@example.com", Groups: []string{"admins", DemoGroup}},
		},
		[]Binding{
			{Role: RoleDeveloper, Project: AllProjects, Users: []string{DemoDeveloper}},
			{Role: RoleApprover, Project: AllProjects, Users: []string{DemoReleaseManager}},
			{Role: RoleAdmin, Project: AllProjects, Users: []string{DemoAdmin}},
		},
		nil, nil,
	)
}

// CheckTLS refuses to take tokens in the clear over a network: without a certificate only loopback addresses are
// served. It is promo.CodeConfiguration.
func CheckTLS(address string, certificate bool) error { //nolint:revive // a fact about the server
	ok, err := loopback(address)
	if err != nil || ok || certificate {
		return err
	}
	return promo.Errorf(promo.CodeConfiguration, "%q is open to others and has no TLS: tokens would be sent in the clear", address).
		WithHint("give --tls-cert and --tls-key, or listen on 127.0.0.1 behind a proxy that has TLS")
}

func loopback(address string) (bool, error) {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return false, promo.Errorf(promo.CodeConfiguration, "listen address %q: %w", address, err)
	}
	ip, err := netip.ParseAddr(host)
	return host == "localhost" || (err == nil && ip.Unmap().IsLoopback()), nil
}

// CheckListen refuses to serve demo users, who need no password, where others than this machine's people can
// reach them. It is promo.CodeConfiguration.
func CheckListen(address string) error {
	if ok, err := loopback(address); err != nil || ok {
		return err
	}
	return promo.Errorf(promo.CodeConfiguration, "demo users need no password, so %q can't be served", address).
		WithHint("listen on 127.0.0.1 or [::1], or name a users file with --users")
}
