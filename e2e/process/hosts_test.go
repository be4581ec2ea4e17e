package process

import (
	"net/http"
	"path/filepath"
	"testing"
)

// A server with TLS of its own is asked by the names of its certificate and those that nobody
// can register, and by no others.
func TestHostsOverTLS(t *testing.T) {
	a := newAuthority(t, "clients")
	files := newIdentity(t, "", a, a)
	s := startServer(t, filepath.Join(t.TempDir(), "data"), "--http-hosts", "flag.example", "--tls-cert", files.Cert, "--tls-key", files.Key)
	h := &http.Client{Timeout: waitMax, Transport: &http.Transport{TLSClientConfig: files.open(t).ClientConfig("127.0.0.1")}}
	for host, want := range map[string]int{
		"": http.StatusOK, "localhost": http.StatusOK, certifiedHost: http.StatusOK, certifiedHost + ":6182": http.StatusOK, "flag.example": http.StatusOK,
		"evil.example": http.StatusMisdirectedRequest, "x." + certifiedHost: http.StatusMisdirectedRequest, certifiedHost + ".evil.example": http.StatusMisdirectedRequest,
	} {
		for _, path := range []string{"/healthz", "/metrics", "/api/version"} {
			r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "https://"+s.addr["http"]+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = host
			response, err := h.Do(r)
			if err != nil {
				t.Fatal(err)
			}
			if status, text := answerOf(t, response); status != want {
				t.Errorf("%s of %q: %d %s", path, host, status, text)
			}
		}
	}
}
