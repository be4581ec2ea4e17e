package auth

import (
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/tickmesh/tickmesh/api/access"
)

func TestHandler(t *testing.T) {
	w := newWorld(t, people(t))
	mux := http.NewServeMux()
	mux.HandleFunc("/", func(out http.ResponseWriter, r *http.Request) {
		if err := access.Check(r.Context(), access.Everything, access.Admin); err != nil {
			http.Error(out, access.Of(r.Context()).Name(), http.StatusForbidden)
		}
	})
	for _, probe := range []string{"/healthz", "/-/healthy", "/-/ready"} {
		mux.HandleFunc("GET "+probe, func(http.ResponseWriter, *http.Request) {})
	}
	h := w.Handler(mux)
	for _, c := range []struct {
		method, target, header, certificate string
		want                                int
	}{
		{"GET", "/healthz", "", "", 200}, {"HEAD", "/healthz", "", "", 200}, {"GET", "/healthz?x", "", "", 200}, {"POST", "/healthz", "", "", 401},
		{"GET", "/-/ready", "", "", 200}, {"GET", "/-/healthy", "", "", 200}, {"GET", "/-/metrics", "", "", 401},
		{"GET", "/healthz/", "", "", 401}, {"GET", "//healthz", "", "", 401}, {"GET", "/%68ealthz", "", "", 401}, {"GET", "/healthz/../metrics", "", "", 401},
		{"GET", "/metrics", "", "", 401}, {"GET", "/metrics", "Bearer x", "", 401}, {"GET", "/metrics", "Bearer " + tokenOfBob, "", 403},
		{"GET", "/metrics", basic("root", "r"), "", 200}, {"GET", "/metrics", "", "root", 200}, {"GET", "/metrics", "", "eve", 401}, {"GET", "/metrics", "Bearer x", "root", 401},
	} {
		r := httptest.NewRequest(c.method, c.target, nil)
		if c.header != "" {
			r.Header.Set("Authorization", c.header)
		}
		if c.certificate != "" {
			r.TLS = &tls.ConnectionState{PeerCertificates: []*x509.Certificate{{Subject: pkix.Name{CommonName: c.certificate}}}}
		}
		out := httptest.NewRecorder()
		h.ServeHTTP(out, r)
		if out.Code != c.want || (out.Code == 401) != (len(out.Header().Values("WWW-Authenticate")) == 2) {
			t.Errorf("%s %s %q %q: %d, want %d", c.method, c.target, c.header, c.certificate, out.Code, c.want)
		}
	}
	for range waitingFailedMax {
		w.gate.book.failed("192.0.2.1")
		w.gate.mu.waiting[failed] = append(w.gate.mu.waiting[failed], &waiter{from: "192.0.2.9"})
	}
	r := httptest.NewRequest("GET", "/metrics", nil)
	r.Header.Set("Authorization", basic("ann", "not seen before"))
	out := httptest.NewRecorder()
	h.ServeHTTP(out, r)
	if out.Code != 503 || out.Header().Get("Retry-After") != "1" {
		t.Errorf("%d %v", out.Code, out.Header())
	}
}
