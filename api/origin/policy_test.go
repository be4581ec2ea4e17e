package origin_test

import (
	"crypto/x509"
	"crypto/x509/pkix"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tickmesh/tickmesh/api/origin"
)

func policy(t *testing.T, o origin.Options) *origin.Policy {
	t.Helper()
	p, err := origin.New(o)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// Names that a stranger can point at this server are refused, whatever looks like them.
func TestHosts(t *testing.T) {
	p := policy(t, origin.Options{Hosts: []string{"TSDB.example.com", "*.wild.example"}, Hostname: "web1.internal.example"})
	for host, want := range map[string]bool{
		"": true, "127.0.0.1": true, "127.0.0.1:6182": true, "10.1.2.3:80": true, "[::1]": true, "[::1]:6182": true, "localhost": true, "LOCALHOST:6182": true, "localhost.": true,
		"a.localhost": true, "tickmesh:6182": true, "tickmesh.monitoring.svc": true, "tickmesh.monitoring.svc:6182": true, "tickmesh.monitoring.svc.cluster.local": true,
		"tsdb.example.com": true, "tsdb.example.com:443": true, "tsdb.example.com.": true, "a.wild.example": true, "a.b.wild.example:80": true, "web1.internal.example": true,
		"evil.example": false, "evil.example:6182": false, "wild.example": false, "xwild.example": false, "x.tsdb.example.com": false, "tsdb.example.com.evil.example": false,
		"127.0.0.1.evil.example": false, "127.0.0.1.nip.io:6182": false, "localhost.evil.example": false, "evil.localhost.example": false, "x.svc.evil.example": false,
		".svc": false, "svc.cluster.local": false, "cluster.local": false, "printer.local": false, "1.2.3.x4": false,
	} {
		for _, r := range []origin.Request{{Host: []byte(host)}, {Host: []byte("localhost"), Target: []byte(host)}} {
			if _, err := p.Check(&r); (err == nil) != want || err != nil && !errors.Is(err, origin.ErrHost) {
				t.Errorf("%s, %s: %v, want taken %v", r.Host, r.Target, err, want)
			}
		}
		if _, err := policy(t, origin.Options{Hosts: []string{"*"}}).Check(&origin.Request{Host: []byte(host)}); err != nil {
			t.Errorf("%s with *: %v", host, err)
		}
	}
	for _, wrong := range []string{"", "a:80", "http://a", "*a", "a.*", "*.", "*.*"} {
		if _, err := origin.New(origin.Options{Hosts: []string{wrong}}); !errors.Is(err, origin.ErrOptions) && wrong != "*." {
			t.Errorf("%q: %v", wrong, err)
		}
	}
}

// Over the server's own TLS its certificate's names are taken, those of now, and no others.
func TestHostsOfCertificate(t *testing.T) {
	var now *x509.Certificate
	p := policy(t, origin.Options{Hosts: []string{"flag.example"}, Certificate: func() *x509.Certificate { return now }})
	first := &x509.Certificate{Subject: pkix.Name{CommonName: "common.example"}, DNSNames: []string{"tsdb.example.com", "*.wild.example"}, IPAddresses: []net.IP{net.IPv4(10, 0, 0, 1)}}
	for _, c := range []struct {
		certificate *x509.Certificate
		host        string
		want        bool
	}{
		{first, "tsdb.example.com", true}, {first, "TSDB.example.com:6182", true}, {first, "tsdb.example.com.", true}, {first, "a.wild.example:443", true}, {first, "flag.example", true},
		{first, "localhost:6182", true}, {first, "10.9.9.9", true}, {first, "[2001:db8::1]:6182", true}, {first, "", true},
		{first, "evil.example", false}, {first, "wild.example", false}, {first, "a.b.wild.example", false}, {first, "x.tsdb.example.com", false}, {first, "common.example", false},
		{first, "tsdb.example.com.evil.example", false},
		{&x509.Certificate{DNSNames: []string{"next.example"}}, "next.example", true}, {&x509.Certificate{DNSNames: []string{"next.example"}}, "tsdb.example.com", false},
		{nil, "tsdb.example.com", false}, {nil, "flag.example", true},
	} {
		now = c.certificate
		for _, r := range []origin.Request{{Host: []byte(c.host)}, {Host: []byte("localhost"), Target: []byte(c.host)}} {
			if _, err := p.Check(&r); (err == nil) != c.want || err != nil && !errors.Is(err, origin.ErrHost) {
				t.Errorf("%s, %s: %v, want taken %v", r.Host, r.Target, err, c.want)
			}
		}
	}
}

// Pages of other origins are refused but those that are named, and "*" lets the rest read.
func TestPages(t *testing.T) {
	named := policy(t, origin.Options{Origins: []string{"https://grafana.example"}})
	open := policy(t, origin.Options{Origins: []string{"https://grafana.example", "*"}})
	const refused = 99
	for _, c := range []struct {
		r                  origin.Request
		withNamed, withAny origin.Sender
	}{
		{origin.Request{}, origin.Own, origin.Own},
		{origin.Request{FetchSite: []byte("same-origin"), Origin: []byte("https://proxy.example")}, origin.Own, origin.Own},
		{origin.Request{FetchSite: []byte("none")}, origin.Own, origin.Own},
		{origin.Request{Origin: []byte("http://LOCALHOST:6182")}, origin.Own, origin.Own},
		{origin.Request{Origin: []byte("https://front.example"), ForwardedHost: []byte("front.example")}, origin.Own, origin.Own},
		{origin.Request{Origin: []byte("HTTPS://grafana.example"), FetchSite: []byte("cross-site")}, origin.Named, origin.Named},
		{origin.Request{Origin: []byte("https://grafana.example.evil.example")}, refused, origin.Any},
		{origin.Request{Origin: []byte("http://localhost:3000")}, refused, origin.Any},
		{origin.Request{Origin: []byte("http://localhost:3000"), FetchSite: []byte("same-site")}, refused, origin.Any},
		{origin.Request{Origin: []byte("null")}, refused, origin.Any},
		{origin.Request{Origin: []byte("://")}, refused, origin.Any},
		{origin.Request{Origin: []byte("https://evil.example"), FetchSite: []byte("cross-site")}, refused, origin.Any},
		{origin.Request{FetchSite: []byte("cross-site")}, refused, refused}, // a page that asks without CORS cannot read
		{origin.Request{FetchSite: []byte("new-word")}, refused, refused},
		{origin.Request{Reads: true, FetchSite: []byte("cross-site"), FetchMode: []byte("navigate"), FetchDest: []byte("document")}, origin.Own, origin.Own},
		{origin.Request{FetchSite: []byte("cross-site"), FetchMode: []byte("navigate"), FetchDest: []byte("document")}, refused, refused},
		{origin.Request{Reads: true, FetchSite: []byte("cross-site"), FetchMode: []byte("navigate"), FetchDest: []byte("iframe")}, refused, refused},
		{origin.Request{Reads: true, FetchSite: []byte("cross-site"), FetchMode: []byte("no-cors"), FetchDest: []byte("script")}, refused, refused},
	} {
		c.r.Host = []byte("localhost:6182")
		for p, want := range map[*origin.Policy]origin.Sender{named: c.withNamed, open: c.withAny} {
			got, err := p.Check(&c.r)
			if (err != nil) != (want == refused) || err == nil && got != want || err != nil && !errors.Is(err, origin.ErrPage) {
				t.Errorf("%s: %v, %v, want %v", fmt.Sprintf("%q %q %q", c.r.Origin, c.r.FetchSite, c.r.FetchMode), got, err, want)
			}
		}
	}
}

// A port of net/http is guarded alike.
func TestHandler(t *testing.T) {
	h := policy(t, origin.Options{Origins: []string{"*"}}).Handler(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusAccepted) }))
	for _, c := range []struct {
		method, host, origin string
		want                 int
	}{
		{"GET", "localhost", "", 202}, {"POST", "localhost", "", 202}, {"GET", "evil.example", "", 421}, {"POST", "localhost", "http://localhost", 202},
		{"GET", "localhost", "http://evil.example", 202}, {"POST", "localhost", "http://evil.example", 403},
	} {
		r := httptest.NewRequest(c.method, "/", nil)
		r.Host = c.host
		r.Header.Set("Origin", c.origin)
		w := httptest.NewRecorder()
		if h.ServeHTTP(w, r); w.Code != c.want {
			t.Errorf("%+v: %d", c, w.Code)
		}
	}
}

func BenchmarkCheck(b *testing.B) {
	p, err := origin.New(origin.Options{Hosts: []string{"tsdb.example.com"}})
	if err != nil {
		b.Fatal(err)
	}
	r := origin.Request{Host: []byte("tsdb.example.com:6182")}
	b.ReportAllocs()
	for b.Loop() {
		if _, err := p.Check(&r); err != nil {
			b.Fatal(err)
		}
	}
}
