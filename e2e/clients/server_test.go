package clients

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"path/filepath"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/harness/harnesstest"
)

// waitMax bounds every wait.
const waitMax = 2 * time.Minute

// server is a standalone server that can be stopped and started again.
type server struct {
	t         *testing.T
	options   harness.StandaloneOptions
	addresses harness.StandaloneAddresses
	running   *harness.Standalone
}

// newServer builds and starts a server; it ends with the test.
func newServer(t *testing.T) *server {
	t.Helper()
	if testing.Short() {
		t.Skip("-short: this test builds the server and a client, and runs both for some seconds")
	}
	addresses, err := harness.NewStandaloneAddresses()
	if err != nil {
		t.Fatal(err)
	}
	s := &server{t: t, addresses: addresses, options: harness.StandaloneOptions{Binary: harnesstest.Build(t), DataDir: filepath.Join(t.TempDir(), "data")}}
	s.start()
	t.Cleanup(func() {
		if s.running != nil {
			s.stop()
		}
	})
	return s
}

func (s *server) start() {
	s.t.Helper()
	running, err := harness.StartStandalone(s.t.Context(), s.options, s.addresses)
	if err != nil {
		s.t.Fatal(err)
	}
	s.running = running
}

func (s *server) stop() {
	s.t.Helper()
	if err := s.running.Terminate(waitMax); err != nil {
		s.t.Errorf("the server did not end cleanly: %v\n%s", err, s.running.LogTail(4096))
	}
	s.running = nil
}

// get asks the server for a path. Status 400 returns an empty body: it is how an unknown
// metric is answered.
func (s *server) get(ctx context.Context, path string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addresses.HTTP+path, nil)
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	body, err := io.ReadAll(io.LimitReader(response.Body, 64<<20))
	if err != nil {
		return nil, err
	}
	switch response.StatusCode {
	case http.StatusOK:
		return body, nil
	case http.StatusBadRequest:
		return nil, nil
	}
	return nil, fmt.Errorf("%s answers %s: %.300s", path, response.Status, body)
}

// eventually waits until wrong finds nothing wrong.
func eventually(t *testing.T, wrong func() string) {
	t.Helper()
	ticker := time.NewTicker(100 * time.Millisecond)
	defer ticker.Stop()
	for deadline := time.Now().Add(waitMax); ; <-ticker.C {
		found := wrong()
		if found == "" {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("after %v still: %s", waitMax, found)
		}
	}
}
