package process

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/audit"
)

// TestAuditHandler holds what is told of an ordinary HTTP port at both levels: how each request
// ended, a panic too, that answers stream, and nothing of probes.
func TestAuditHandler(t *testing.T) {
	port := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch r.URL.Path {
		case "/deed":
			audit.Of(r.Context()).SignedIn("ann", "token", "abc")
			audit.Of(r.Context()).Did(audit.Deed{Do: "administration"}, nil)
		case "/unknown":
			audit.Of(r.Context()).SignInFailed(&audit.SignInError{User: "bob", By: "password", Err: errors.New("wrong")})
			http.Error(w, "", http.StatusUnauthorized)
		case "/stream":
			if err := http.NewResponseController(w).Flush(); err != nil {
				t.Error(err)
			}
		case "/panic":
			panic(http.ErrAbortHandler)
		case "/gone":
			w.WriteHeader(http.StatusGone)
		}
	})
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}} // asks nothing again
	deed, unknown := `ann token abc GET /deed 1 ok 200 `, `bob password  GET /unknown 0 refused 401 wrong`
	for level, want := range map[string][]string{
		"changes": {deed, unknown},
		"all":     {deed, unknown, "   GET /stream 0 ok 200 ", "   GET /panic 0 failed 500 ", "   GET /gone 0 failed 410 ", "   GET /healthz/a%2Fb 0 ok 200 "},
	} {
		var flags AuditFlags
		set, path := pflag.NewFlagSet("", pflag.ContinueOnError), filepath.Join(t.TempDir(), "audit.jsonl")
		flags.Define(set)
		if err := set.Parse([]string{"--audit-log", path, "--audit-level", level}); err != nil {
			t.Fatal(err)
		}
		log, err := flags.Open(prometheus.NewRegistry(), slog.New(slog.DiscardHandler))
		if err != nil {
			t.Fatal(err)
		}
		server := httptest.NewServer(log.Handler(port))
		for _, path := range []string{"/deed", "/unknown", "/stream", "/panic", "/gone", "/healthz", "/readyz", "/healthz/a%2Fb"} {
			response, err := client.Get(server.URL + path + "?secret=x")
			if (err != nil) != (path == "/panic") {
				t.Fatal(path, err)
			}
			if err == nil {
				_, _ = io.Copy(io.Discard, response.Body)
				_ = response.Body.Close()
			}
		}
		server.Close()
		log.Close()
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var told []string
		for line := range bytes.Lines(text) {
			var e audit.Event
			if err := json.Unmarshal(line, &e); err != nil || time.Since(e.Time) > time.Hour || e.From == "" {
				t.Fatal(err, string(line))
			}
			told = append(told, fmt.Sprint(e.User, " ", e.By, " ", e.Credential, " ", e.Action, " ", len(e.Deeds), " ", e.Outcome, " ", e.Status, " ", e.Error))
		}
		if fmt.Sprintf("%q", told) != fmt.Sprintf("%q", want) {
			t.Errorf("%s: told is\n%q, want\n%q", level, told, want)
		}
	}
	if handler := (*AuditLog)(nil).Handler(port); fmt.Sprintf("%p", handler) != fmt.Sprintf("%p", port) {
		t.Error("without a log the handler is another")
	}
}
