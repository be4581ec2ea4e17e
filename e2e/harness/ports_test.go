package harness

import (
	"net"
	"net/netip"
	"os"
	"slices"
	"testing"
)

func TestListeningPorts(t *testing.T) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer listener.Close()
	want := netip.MustParseAddrPort(listener.Addr().String())
	ports, err := ListeningPorts(os.Getpid())
	if err != nil || !slices.Contains(ports, want) {
		t.Fatalf("%v is not among %v (%v)", want, ports, err)
	}
	listener.Close()
	if ports, err = ListeningPorts(os.Getpid()); err != nil || slices.Contains(ports, want) {
		t.Fatalf("%v is still among %v (%v)", want, ports, err)
	}
	if _, err := ListeningPorts(1 << 30); err == nil {
		t.Fatal("a process that is not there listens")
	}
	for _, text := range []string{"", "0100007F", "zz00007F:0050", "0100007F:00500"} {
		if _, err := parseHexAddress(text); err == nil {
			t.Errorf("%q is an address", text)
		}
	}
}
