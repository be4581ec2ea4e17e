package process

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/process"
)

// TestServer asks a started process for all that operators look at.
func TestServer(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	if status, body := post(t, s.url("/write"), "cpu value=1"); status != http.StatusNoContent {
		t.Errorf("%d %s", status, body)
	}
	status, metrics := get(t, s.url("/metrics"))
	if status != http.StatusOK {
		t.Error(status)
	}
	for _, want := range []string{
		"tickmesh_series 1", "tickmesh_read_only 0", `tickmesh_ingest_points_total{outcome="accepted",protocol="http_influx1"} 1`,
		`tickmesh_build_info{revision="`, "go_goroutines ", "process_resident_memory_bytes ", "tickmesh_log_unsynced_bytes 0",
	} {
		if !strings.Contains(metrics, "\n"+want) {
			t.Errorf("/metrics has no %s", want)
		}
	}
	for path, want := range map[string]string{"/healthz": "ok\n", "/-/healthy": "ok\n", "/readyz": "ready\n", "/-/ready": "ready\n"} {
		if status, body := get(t, s.url(path)); status != http.StatusOK || body != want {
			t.Errorf("%s: %d %q", path, status, body)
		}
	}
	if status, body := get(t, s.url("/debug/pprof/")); status != http.StatusNotFound || !strings.Contains(body, "Endpoint not found") {
		t.Errorf("profiles: %d %q", status, body)
	}
	if status, body := get(t, s.url("/api/stats")); status != http.StatusOK || !strings.Contains(body, `"metric":"tickmesh.series"`) {
		t.Errorf("%d %.200s", status, body)
	}
	if status, body := get(t, s.url("/api/query?start=2023/11/14-12:00:00&tz=Asia/Kathmandu&m=sum:1dc-sum:cpu")); status != http.StatusOK {
		t.Errorf("a time zone: %d %s", status, body)
	}
}

func TestProfiles(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir(), "--pprof")
	if status, body := get(t, s.url("/debug/pprof/goroutine?debug=1")); status != http.StatusOK || !strings.HasPrefix(body, "goroutine profile: ") {
		t.Errorf("%d %.100q", status, body)
	}
}

// TestPutPort sends puts, wrong lines among them, and a command as a fence.
func TestPutPort(t *testing.T) {
	t.Parallel()
	s := startServer(t, t.TempDir())
	c, err := net.Dial("tcp", s.addr["put"])
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	_ = c.SetDeadline(time.Now().Add(waitMax))
	fmt.Fprint(c, "put cpu 1700000000 0.5 host=a\nput cpu now 0.5 host=a\nversion\nexit\n")
	answer, err := io.ReadAll(c)
	if err != nil || !strings.HasPrefix(string(answer), "put: ") || !strings.Contains(string(answer), "tickmesh "+process.Version) {
		t.Errorf("%q, %v", answer, err)
	}
	if _, body := get(t, s.url("/api/query?start=1699999999&end=1700000001&m=sum:cpu")); !strings.Contains(body, `"dps":{"1700000000":0.5}`) {
		t.Error(body)
	}
}

// TestKill kills a server after an acknowledged write, without any warning.
func TestKill(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	for _, mode := range []string{"always", "interval", "off"} {
		dir := filepath.Join(dir, mode)
		s := startServer(t, dir, "--wal-sync="+mode)
		if status, body := post(t, s.url("/api/put"), `{"metric":"cpu","timestamp":1700000000,"value":"7","tags":{"host":"a"}}`); status != http.StatusNoContent {
			t.Fatalf("%d %s", status, body)
		}
		s.signal(os.Kill)
		s.wait()
		again := startServer(t, dir)
		if line := again.waitLog("opened", nil); line["replayed_entries"] != 1.0 {
			t.Errorf("%s: %v", mode, line)
		}
		if _, body := get(t, again.url("/api/query?start=1699999999&end=1700000001&m=sum:cpu")); !strings.Contains(body, `"dps":{"1700000000":7}`) {
			t.Errorf("%s: %s", mode, body)
		}
	}
}

// TestLogs reads the log of a process as a person, and as a machine, would.
func TestLogs(t *testing.T) {
	t.Parallel()
	line := regexp.MustCompile(`^time=\S+ level=(WARN|INFO) msg=("[^"]+"|\w+)( \w+=("[^"]*"|\S+))*$`)
	arguments := append([]string{"standalone", "--log-format=text"}, anyPorts()...)
	// An address of no interface lets the server open its data folder, log that,
	// and end.
	arguments = append(arguments, "--put-addr", "192.0.2.1:0")
	code, stdout, stderr := run(t, []string{"TICKMESH_SHARD=3"}, arguments...)
	lines := strings.Split(strings.TrimSpace(stderr), "\n")
	if code != 1 || stdout != "" || len(lines) < 4 {
		t.Fatalf("%d %q %q", code, stdout, stderr)
	}
	for _, text := range lines[:len(lines)-1] {
		if !line.MatchString(text) {
			t.Error(text)
		}
	}
	if !strings.Contains(lines[0], "level=WARN") || !strings.Contains(lines[0], "names=TICKMESH_SHARD") {
		t.Error("no word about a strange variable:", lines[0])
	}
	s := startServer(t, t.TempDir()) // logs JSON
	s.signal(os.Interrupt)
	s.wait()
	s.checkLog(t, "INFO", "stopped; the data folder is clean")
	if !strings.HasPrefix(s.banner.String(), "TickMesh "+process.Version+" keeps its data in ") {
		t.Errorf("standard output: %q", s.banner)
	}
	if _, _, stderr := run(t, nil, append(arguments, "--log-level=error")...); !strings.HasPrefix(stderr, "tickmesh: --put-addr") {
		t.Errorf("more than errors: %q", stderr)
	}
}

func TestVersion(t *testing.T) {
	t.Parallel()
	code, stdout, stderr := run(t, nil, "version")
	if !regexp.MustCompile(`^tickmesh `+regexp.QuoteMeta(process.Version)+` [\w-]+ go\S+ linux/\w+\n$`).MatchString(stdout) || code != 0 || stderr != "" {
		t.Errorf("%d %q %q", code, stdout, stderr)
	}
	code, stdout, _ = run(t, nil, "failpoints")
	if names := strings.Fields(stdout); code != 0 || len(names) < 5 {
		t.Errorf("%d %q", code, names)
	}
}
