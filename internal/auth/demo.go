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

// CheckListen refuses to serve demo users, who need no password, where others than this machine's people can
// reach them. It is promo.CodeConfiguration.
func CheckListen(address string) error {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		return promo.Errorf(promo.CodeConfiguration, "listen address %q: %w", address, err)
	}
	if ip, err := netip.ParseAddr(host); host == "localhost" || (err == nil && ip.Unmap().IsLoopback()) {
		return nil
	}
	return promo.Errorf(promo.CodeConfiguration, "demo users need no password, so %q can't be served", address).
		WithHint("listen on 127.0.0.1 or [::1], or run davit server with a users file")
}
