package influxdiff

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

const configuration = `reporting-disabled = true
bind-address = "%[2]s"
[meta]
  dir = "%[1]s/meta"
[data]
  dir = "%[1]s/data"
  wal-dir = "%[1]s/wal"
  query-log-enabled = false
[http]
  bind-address = "%[3]s"
  log-enabled = false
[monitor]
  store-enabled = false
[continuous_queries]
  log-enabled = false
  run-interval = "1s"
`

// waitMax is how long a server may take to start.
const waitMax = 2 * time.Minute

// startInfluxd starts a real InfluxDB and returns its URL.
func startInfluxd(t *testing.T) string {
	t.Helper()
	program, err := harness.Install(t.Context(), "influxd", "influxdb")
	if errors.Is(err, harness.ErrMissing) {
		t.Skip(err)
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	addresses, err := harness.FreeAddresses(2)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "influxdb.conf")
	if err := os.WriteFile(file, fmt.Appendf(nil, configuration, dir, addresses[0], addresses[1]), 0o600); err != nil {
		t.Fatal(err)
	}
	p, err := harness.StartProcess(harness.ProcessOptions{Path: program, Args: []string{"-config", file}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Kill)
	base := "http://" + addresses[1]
	waitFor(t, base+"/ping")
	return base
}

// waitFor waits until a server answers.
func waitFor(t *testing.T, address string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	for {
		if r, err := http.Get(address); err == nil {
			_ = r.Body.Close()
			if r.StatusCode < 300 {
				return
			}
		}
		select {
		case <-ctx.Done():
			t.Fatalf("%s does not answer", address)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// ask sends a query and returns the status and the body of its answer.
func ask(t *testing.T, base, query string, parameters url.Values) (int, []byte) {
	t.Helper()
	form := url.Values{"q": {query}, "db": {"d"}}
	for name, values := range parameters {
		form[name] = values
	}
	r, err := http.PostForm(base+"/query", form)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	body, err := io.ReadAll(r.Body)
	if err != nil {
		t.Fatal(err)
	}
	return r.StatusCode, body
}

// write sends lines of line protocol, with times in milliseconds.
func write(t *testing.T, base string, lines []byte) {
	t.Helper()
	r, err := http.Post(base+"/write?db=d&precision=ms", "text/plain", bytes.NewReader(lines))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = r.Body.Close() }()
	if body, _ := io.ReadAll(r.Body); r.StatusCode != http.StatusNoContent {
		t.Fatalf("write: %d %s", r.StatusCode, body)
	}
}
