package server

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"
)

func TestBanner(t *testing.T) {
	everywhere := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv6zero, Port: port} }
	long := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(192, 168, 100, 200), Port: port} }
	for file, g := range map[string]banner{
		"banner.txt":       {http: everywhere(6182), put: everywhere(6181), line: everywhere(6180), grpc: everywhere(6183)},
		"banner_udp.txt":   {http: long(56182), put: long(56181), line: long(56180), udp: long(56181), grpc: long(56183), udpFormat: "line"},
		"banner_tcp.txt":   {put: everywhere(6181), udp: &net.UDPAddr{IP: net.IPv4zero, Port: 6181}, udpFormat: "put"},
		"banner_users.txt": {http: everywhere(6182), secure: true, users: true},
	} {
		g.version, g.about = "1.2.3", "./data"
		var text strings.Builder
		g.write(&text)
		bannerIs(t, file, text.String())
	}
}

func TestTypable(t *testing.T) {
	for _, test := range [][2]string{
		{"0.0.0.0:1", "localhost:1"}, {"[::]:1", "localhost:1"}, {"127.0.0.1:1", "127.0.0.1:1"}, {"[::1]:1", "[::1]:1"}, {"192.0.2.1:80", "192.0.2.1:80"},
	} {
		a, err := net.ResolveTCPAddr("tcp", test[0])
		if err != nil {
			t.Fatal(err)
		}
		if got := typable(a); got != test[1] {
			t.Errorf("%s: %s, want %s", test[0], got, test[1])
		}
	}
	if got := typable(&net.UnixAddr{Name: "/run/x"}); got != "/run/x" {
		t.Error(got)
	}
}

// bannerIs compares with a file in testdata.
func bannerIs(t *testing.T, name, got string) {
	t.Helper()
	want, err := os.ReadFile(filepath.Join("testdata", name))
	if err != nil {
		t.Fatal(err)
	}
	if got != string(want) {
		t.Errorf("%s differs:\n%s", name, got)
	}
	const columnsMax = 100
	for line := range strings.Lines(got) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > columnsMax {
			t.Errorf("%d columns: %s", n, line)
		}
	}
}
