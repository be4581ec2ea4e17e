package process

import (
	"bufio"
	"crypto/tls"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestCheckedListenerOverTLS holds that a handler sees the client's certificate, and that what
// comes through TLS is checked, too.
func TestCheckedListenerOverTLS(t *testing.T) {
	t.Parallel()
	made := httptest.NewTLSServer(http.NotFoundHandler()) // of which the certificate is taken
	made.Close()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.TLS == nil || len(r.TLS.PeerCertificates) != 1 {
			t.Errorf("no certificate: %+v", r.TLS)
		}
		_, _ = fmt.Fprint(w, "served")
	})}
	defer server.Close()
	secure := &tls.Config{Certificates: made.TLS.Certificates, ClientAuth: tls.RequireAnyClientCert, NextProtos: []string{"h2", "http/1.1"}}
	go func() { _ = server.Serve(newCheckedListener(listener, secure)) }()
	for text, want := range map[string]int{
		"GET / HTTP/1.1\r\nHost: a\r\n\r\n":               http.StatusOK,
		"GET / HTTP/1.1\r\nHost: a\r\nA: b\r\n c\r\n\r\n": http.StatusBadRequest,
		"GET / HTTP/1.1\nHost: a\n\n":                     http.StatusBadRequest,
	} {
		conn, err := tls.Dial("tcp", listener.Addr().String(), &tls.Config{Certificates: made.TLS.Certificates, InsecureSkipVerify: true, NextProtos: []string{"h2", "http/1.1"}})
		if err != nil {
			t.Fatal(err)
		}
		if spoken := conn.ConnectionState().NegotiatedProtocol; spoken != "http/1.1" {
			t.Errorf("%q is spoken", spoken)
		}
		_, _ = fmt.Fprint(conn, text)
		response, err := http.ReadResponse(bufio.NewReader(conn), nil)
		if err != nil || response.StatusCode != want {
			t.Errorf("%q: %+v, %v", text, response, err)
		}
		_ = conn.Close()
	}
}
