package loopback_test

import (
	"net"
	"testing"

	"github.com/tickmesh/tickmesh/api/loopback"
)

func TestIsAddress(t *testing.T) {
	for address, want := range map[string]bool{
		"localhost": true, "LocalHost:80": true, "127.0.0.1": true, "127.0.0.1:6182": true, "127.9.8.7:1": true, "[::1]:80": true, "::1": true, "[::ffff:127.0.0.1]:80": true,
		"": false, ":6182": false, "0.0.0.0:80": false, "[::]:80": false, "10.0.0.1:80": false, "192.0.2.1": false, "[2001:db8::1]:80": false, "example.com:80": false,
		"localhost.evil.example:80": false, "127.0.0.1.evil.example": false, "127.1": false, "0x7f000001": false, "dns:///localhost:80": false,
	} {
		if got := loopback.IsAddress(address); got != want {
			t.Errorf("%q: %v, want %v", address, got, want)
		}
	}
}

func TestIsHost(t *testing.T) {
	for host, want := range map[string]bool{"localhost": true, "127.0.0.1": true, "::1": true, "::ffff:127.0.0.1": true, "": false, "localhost:80": false, "10.0.0.1": false, "a.localhost": false} {
		if got := loopback.IsHost(host); got != want {
			t.Errorf("%q: %v, want %v", host, got, want)
		}
	}
}

func TestIsRemote(t *testing.T) {
	near, far := net.Pipe()
	defer near.Close()
	defer far.Close()
	tcp := func(ip string) net.Addr { return &net.TCPAddr{IP: net.ParseIP(ip), Port: 6190} }
	for end, want := range map[net.Addr]bool{
		tcp("127.0.0.1"): false, tcp("127.9.8.7"): false, tcp("::1"): false, tcp("::ffff:127.0.0.1"): false, near.RemoteAddr(): false,
		tcp("10.0.0.1"): true, tcp("192.0.2.1"): true, tcp("2001:db8::1"): true, tcp("0.0.0.0"): true, &net.TCPAddr{}: true,
	} {
		if got := loopback.IsRemote(end); got != want {
			t.Errorf("%v: %v, want %v", end, got, want)
		}
	}
}
