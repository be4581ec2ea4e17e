package transport

import (
	"errors"
	"net"
	"testing"
)

// farConn is a connection that leads somewhere.
type farConn struct {
	net.Conn
	to net.IP
}

func (c *farConn) RemoteAddr() net.Addr { return &net.TCPAddr{IP: c.to, Port: 6190} }

func TestLoopbackStaysOnThisMachine(t *testing.T) {
	for address, want := range map[string]bool{"127.0.0.1": true, "127.9.8.7": true, "::1": true, "10.0.0.1": false, "192.0.2.1": false, "2001:db8::1": false, "0.0.0.0": false} {
		near, far := net.Pipe()
		_, info, err := Loopback().Clone().ClientHandshake(t.Context(), "x", &farConn{near, net.ParseIP(address)})
		if (err == nil) != want || err != nil && !errors.Is(err, ErrTLS) || err == nil && info.AuthType() != "insecure" {
			t.Errorf("%s: %v", address, err)
		}
		_, _ = near.Close(), far.Close()
	}
}
