package outbound

import (
	"encoding/binary"
	"net/netip"
)

// metadata lists the addresses at which clouds hand out credentials: Amazon, Google, Azure, OpenStack and most
// others share the first; ECS and EKS, Alibaba, Oracle, Azure's wire server.
func metadata() []string {
	return []string{
		"169.254.169.254", "169.254.170.2", "169.254.170.23", "100.100.100.200", "192.0.0.192", "168.63.129.16",
		"fd00:ec2::254", "fd00:ec2::23", "fd20:ce::254",
	}
}

// special lists ranges that are not the public internet's beyond those that net/netip knows (RFC 6890 and later).
func special() []string {
	return []string{
		"0.0.0.0/8", "100.64.0.0/10", "192.0.0.0/24", "192.0.2.0/24", "192.88.99.0/24", "198.18.0.0/15", "198.51.100.0/24",
		"203.0.113.0/24", "240.0.0.0/4", "255.255.255.255/32",
		"::/96", "100::/64", "2001::/23", "2001:db8::/32", "3fff::/20", "5f00::/16", "fec0::/10",
	}
}

func isMetadata(a netip.Addr) bool {
	for _, inner := range embedded(a) {
		for _, m := range metadata() {
			if inner == netip.MustParseAddr(m) {
				return true
			}
		}
	}
	return false
}

// isPublic reports whether an address, and any IPv4 address within it, is the public internet's.
func isPublic(a netip.Addr) bool {
	for _, inner := range embedded(a) {
		if !inner.IsValid() || inner.IsUnspecified() || inner.IsLoopback() || inner.IsPrivate() || inner.IsLinkLocalUnicast() ||
			inner.IsMulticast() || inner.IsInterfaceLocalMulticast() || inner.IsLinkLocalMulticast() {
			return false
		}
		for _, s := range special() {
			if netip.MustParsePrefix(s).Contains(inner) {
				return false
			}
		}
	}
	return true
}

// embedded returns the address and the IPv4 address that a translator would find in it: NAT64 (64:ff9b::/96 and
// 64:ff9b:1::/48) and 6to4 (2002::/16).
func embedded(a netip.Addr) []netip.Addr {
	a = a.Unmap()
	out := []netip.Addr{a}
	if !a.Is6() {
		return out
	}
	b := a.As16()
	v4 := func(at int) netip.Addr {
		var raw [4]byte
		binary.BigEndian.PutUint32(raw[:], binary.BigEndian.Uint32(b[at:at+4]))
		return netip.AddrFrom4(raw)
	}
	switch {
	case netip.MustParsePrefix("64:ff9b::/96").Contains(a), netip.MustParsePrefix("64:ff9b:1::/48").Contains(a):
		out = append(out, v4(12))
	case netip.MustParsePrefix("2002::/16").Contains(a):
		out = append(out, v4(2))
	}
	return out
}
