package process

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
)

const stopping = "stopping: no new connections"

// TestTermination stops a server in the middle of a write. The write is answered,
// the process ends with 0, and the next start has the sample.
func TestTermination(t *testing.T) {
	t.Parallel()
	for _, signal := range []os.Signal{syscall.SIGTERM, os.Interrupt} {
		dir := t.TempDir()
		s := startServer(t, dir)
		c, err := net.Dial("tcp", s.addr["http"])
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_ = c.SetDeadline(time.Now().Add(waitMax))
		const body = "cpu,host=a value=0.64 1700000000000000000"
		fmt.Fprintf(c, "POST /write HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: %d\r\n\r\n", len(body))
		answers := bufio.NewReader(c)
		// The server reads the body now: the write is in flight.
		if line, err := answers.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100") {
			t.Fatalf("%q, %v", line, err)
		}
		_, _ = answers.ReadString('\n')
		s.signal(signal)
		s.waitLog(stopping, nil)
		fmt.Fprint(c, body)
		response, err := http.ReadResponse(answers, nil)
		if err != nil {
			t.Fatal(err)
		}
		if response.StatusCode != http.StatusNoContent || !response.Close {
			t.Errorf("%v: status %d, close %v", signal, response.StatusCode, response.Close)
		}
		if state := s.wait(); state.ExitCode() != 0 {
			t.Errorf("%v: %v", signal, state)
		}
		s.checkLog(t, "INFO", "stopped; the data folder is clean")
		again := startServer(t, dir)
		if opened := again.waitLog("opened", nil); opened["replayed_entries"] != 0.0 || opened["series"] != 1.0 {
			t.Errorf("%v: %v", signal, opened)
		}
		if _, body := get(t, again.url("/api/query?start=1699999999&end=1700000001&m=sum:cpu%7Bhost=a%7D")); !strings.Contains(body, `"dps":{"1700000000":0.64}`) {
			t.Errorf("%v: %s", signal, body)
		}
	}
}

// checkLog holds that the log's last line says so, and that no line is worse than
// those of the given level.
func (s *testServer) checkLog(t *testing.T, level, message string) {
	t.Helper()
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.plain) > 0 || len(s.log) == 0 || s.log[len(s.log)-1]["msg"] != message {
		t.Errorf("the log ends otherwise: %v %q", s.log, s.plain)
	}
	for _, line := range s.log {
		if l := line["level"]; l != "INFO" && l != level {
			t.Errorf("the log has %v", line)
		}
	}
}

// TestShutdownDelay holds that a stopping server says so and serves on, and that
// a second signal ends it, with nothing lost that was acknowledged.
func TestShutdownDelay(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	s := startServer(t, dir, "--shutdown-delay=1h")
	healthOf := func() healthpb.HealthCheckResponse_ServingStatus {
		t.Helper()
		client, err := grpc.NewClient(s.addr["grpc"], grpc.WithTransportCredentials(insecure.NewCredentials()))
		if err != nil {
			t.Fatal(err)
		}
		defer client.Close()
		answer, err := healthpb.NewHealthClient(client).Check(t.Context(), &healthpb.HealthCheckRequest{})
		if err != nil {
			t.Fatal(err)
		}
		return answer.GetStatus()
	}
	if status, body := get(t, s.url("/readyz")); status != http.StatusOK {
		t.Errorf("%d %s", status, body)
	}
	if status := healthOf(); status != healthpb.HealthCheckResponse_SERVING {
		t.Error(status)
	}
	s.signal(syscall.SIGTERM)
	s.waitLog("not ready any more", nil)
	if status, body := get(t, s.url("/readyz")); status != http.StatusServiceUnavailable || body != "not ready: starting or stopping\n" {
		t.Errorf("%d %q", status, body)
	}
	if status, _ := get(t, s.url("/healthz")); status != http.StatusOK {
		t.Error(status)
	}
	if status := healthOf(); status != healthpb.HealthCheckResponse_NOT_SERVING {
		t.Error(status)
	}
	if status, body := post(t, s.url("/write"), "cpu value=2 1700000000000000000"); status != http.StatusNoContent {
		t.Errorf("%d %s", status, body)
	}
	s.signal(syscall.SIGTERM)
	status, ok := s.wait().Sys().(syscall.WaitStatus)
	if !ok || status.Signal() != syscall.SIGTERM {
		t.Errorf("%v", s.cmd.ProcessState)
	}
	again := startServer(t, dir)
	if _, body := get(t, again.url("/api/query?start=1699999999&end=1700000001&m=sum:cpu")); !strings.Contains(body, `"dps":{"1700000000":2}`) {
		t.Error(body)
	}
}

// TestShutdownTimeout has a request that never ends.
func TestShutdownTimeout(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--shutdown-timeout=1ms")
	c, err := net.Dial("tcp", s.addr["http"])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(waitMax))
	fmt.Fprint(c, "POST /write HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 10\r\n\r\n")
	if _, err := io.ReadFull(c, make([]byte, len("HTTP/1.1 100 Continue\r\n"))); err != nil {
		t.Fatal(err)
	}
	s.signal(syscall.SIGTERM)
	if state := s.wait(); state.ExitCode() != 0 {
		t.Error(state)
	}
	s.checkLog(t, "WARN", "stopped; the data folder is clean")
}
