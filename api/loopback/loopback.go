// Package loopback reports which addresses stay on this machine: what is sent to them crosses
// no network, and other machines cannot reach what listens there.
package loopback

import (
	"net"
	"net/netip"
	"strings"
)

// IsHost reports whether a host without a port, as url.URL.Hostname returns it, is this
// machine alone: "localhost" or an address of the loopback. No other name is looked up, as
// whoever answers for it may change what it stands for.
func IsHost(host string) bool {
	if strings.EqualFold(host, "localhost") {
		return true
	}
	ip, err := netip.ParseAddr(host)
	return err == nil && ip.IsLoopback()
}

// IsAddress reports whether an address, "host:port" or a host alone, is of this machine alone.
// An address without a host, such as ":6182", is of all interfaces.
func IsAddress(address string) bool {
	host, _, err := net.SplitHostPort(address)
	if err != nil {
		host = address
	}
	return IsHost(host)
}

// IsRemote reports whether the end of a connection is beyond this machine. Ends that are no
// addresses of TCP, such as those of pipes in memory, are not.
func IsRemote(end net.Addr) bool {
	address, ok := end.(*net.TCPAddr)
	return ok && !address.AddrPort().Addr().Unmap().IsLoopback()
}
