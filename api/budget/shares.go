package budget

import (
	"net"
	"net/netip"
)

// Multiples of the free bytes that one owner may hold; see the package's documentation. That of tenants is a pool's default.
const (
	addressMultiple = 4
	tenantMultiple  = 1
)

// Owner is whom a lease is charged to. A zero field is not known and bounds nothing.
type Owner struct {
	Address netip.Addr // see AddressOf
	Tenant  string
}

// Name returns the tenant, or else the address.
func (o Owner) Name() string {
	if o.Tenant == "" && o.Address.IsValid() {
		return o.Address.String()
	}
	return o.Tenant
}

// ipv6PrefixBits is what one site has of IPv6: single addresses in it cost nothing.
const ipv6PrefixBits = 64

// AddressOf returns the address that a connection's remote end is charged to: of IPv6 its
// network of 64 bits, of other than TCP and UDP none.
func AddressOf(remote net.Addr) netip.Addr {
	var at netip.Addr
	switch remote := remote.(type) {
	case *net.TCPAddr:
		at = remote.AddrPort().Addr()
	case *net.UDPAddr:
		at = remote.AddrPort().Addr()
	default:
		return at
	}
	at = at.Unmap().WithZone("")
	if at.Is6() {
		if network, err := at.Prefix(ipv6PrefixBits); err == nil {
			return network.Addr()
		}
	}
	return at
}

// shares is who holds how much. It is a value without locks, goroutines or time.
type shares struct {
	bytesMax  int64
	ofTenant  int64 // multiple of the free bytes that one tenant may hold
	used      int64
	addresses map[netip.Addr]int64
	tenants   map[string]int64
}

func newShares(bytesMax, ofTenant int64) shares {
	return shares{bytesMax: bytesMax, ofTenant: ofTenant, addresses: map[netip.Addr]int64{}, tenants: map[string]int64{}}
}

// allows reports whether a lease that holds some bytes already may have n more.
func (s *shares) allows(o *Owner, held, n int64) bool {
	free := s.bytesMax - s.used - n
	if free < 0 {
		return false
	}
	if s.used == held {
		return true // it is alone
	}
	return (!o.Address.IsValid() || s.addresses[o.Address]+n <= addressMultiple*free) &&
		(o.Tenant == "" || s.tenants[o.Tenant]+n <= s.ofTenant*free)
}

// allowsLeaving is allows for a lease that leaves spare bytes to others, unless it is alone.
func (s *shares) allowsLeaving(o *Owner, held, n, spare int64) bool {
	return s.allows(o, held, n) && (s.used == held || s.used+n+spare <= s.bytesMax)
}

// add charges n bytes, which are negative when they are released.
func (s *shares) add(o *Owner, n int64) {
	s.used += n
	if o.Address.IsValid() {
		charge(s.addresses, o.Address, n)
	}
	if o.Tenant != "" {
		charge(s.tenants, o.Tenant, n)
	}
}

func charge[K comparable](held map[K]int64, key K, n int64) {
	if left := held[key] + n; left != 0 {
		held[key] = left
	} else {
		delete(held, key)
	}
}

// heldBy returns what an owner holds in all: of its address, or of its tenant where no
// address is known.
func (s *shares) heldBy(o *Owner) int64 {
	if o.Address.IsValid() {
		return s.addresses[o.Address]
	}
	return s.tenants[o.Tenant]
}
