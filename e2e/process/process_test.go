package process

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// binary is the program under test, built once by TestMain.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

// buildAndRun builds the program and runs the tests at the root of the repository, from which they
// name files.
func buildAndRun(m *testing.M) int {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "tickmesh-test-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binary, err = harness.Build(context.Background(), dir); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// waitMax bounds what a test waits for; no result depends on it.
const waitMax = time.Minute

// anyPorts are the flags of a server that takes free ports.
func anyPorts() []string {
	return []string{
		"--http-addr", "127.0.0.1:0", "--put-addr", "127.0.0.1:0", "--line-addr", "127.0.0.1:0",
		"--udp-addr", "127.0.0.1:0", "--grpc-addr", "127.0.0.1:0",
	}
}

// testServer is a running process of the program, whose log is JSON.
type testServer struct {
	t      *testing.T
	cmd    *exec.Cmd
	addr   map[string]string // by port: http, put, line, udp, grpc
	banner *bytes.Buffer     // read it when the process has ended
	ended  chan struct{}

	mu    sync.Mutex
	log   []map[string]any
	plain []string      // lines of standard error that are no JSON
	more  chan struct{} // closed and made anew with each line
}

// cleanEnviron is the environment without settings of ours.
func cleanEnviron() []string {
	var kept []string
	for _, variable := range os.Environ() {
		if !strings.HasPrefix(variable, "TICKMESH_") {
			kept = append(kept, variable)
		}
	}
	return kept
}

// startServer starts a standalone server and waits until it listens.
func startServer(t *testing.T, dataDir string, flags ...string) *testServer {
	t.Helper()
	return startProcess(t, 5, append(append([]string{"standalone", "--data-dir", dataDir}, anyPorts()...), flags...)...)
}

// startProcess starts the program and waits until it listens on so many ports.
func startProcess(t *testing.T, ports int, arguments ...string) *testServer {
	t.Helper()
	s := &testServer{t: t, addr: map[string]string{}, banner: &bytes.Buffer{}, ended: make(chan struct{}), more: make(chan struct{})}
	s.cmd = exec.Command(binary, append(arguments, "--log-format=json")...)
	s.cmd.Env = cleanEnviron()
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	s.cmd.Stdout = s.banner
	stderr, err := s.cmd.StderrPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			s.hear(lines.Bytes())
		}
		_ = s.cmd.Wait() // the tests look at ProcessState
	}()
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill()
		<-s.ended
	})
	for range ports {
		line := s.waitLog("listening", func(l map[string]any) bool { return s.addr[fmt.Sprint(l["port"])] == "" })
		s.addr[fmt.Sprint(line["port"])] = fmt.Sprint(line["address"])
	}
	return s
}

func (s *testServer) hear(line []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	var fields map[string]any
	if json.Unmarshal(line, &fields) != nil {
		s.plain = append(s.plain, string(line))
	} else {
		s.log = append(s.log, fields)
	}
	close(s.more)
	s.more = make(chan struct{})
}

// waitLog waits for a line whose message begins with the text.
func (s *testServer) waitLog(text string, match func(map[string]any) bool) map[string]any {
	s.t.Helper()
	deadline := time.After(waitMax)
	for {
		s.mu.Lock()
		for _, line := range s.log {
			if message, _ := line["msg"].(string); strings.HasPrefix(message, text) && (match == nil || match(line)) {
				s.mu.Unlock()
				return line
			}
		}
		more, log, plain := s.more, s.log, s.plain
		s.mu.Unlock()
		select {
		case <-more:
		case <-s.ended:
			s.t.Fatalf("the server ended without a log line %q: %v %q", text, log, plain)
		case <-deadline:
			s.t.Fatalf("no log line %q: %v %q", text, log, plain)
		}
	}
}

func (s *testServer) signal(signal os.Signal) {
	s.t.Helper()
	if err := s.cmd.Process.Signal(signal); err != nil {
		s.t.Fatal(err)
	}
}

// wait waits for the end of the process.
func (s *testServer) wait() *os.ProcessState {
	s.t.Helper()
	select {
	case <-s.ended:
	case <-time.After(waitMax):
		s.t.Fatal("the server does not end")
	}
	return s.cmd.ProcessState
}

func (s *testServer) url(path string) string { return "http://" + s.addr["http"] + path }

// get returns status and body.
func get(t *testing.T, url string) (int, string) {
	t.Helper()
	response, err := (&http.Client{Timeout: waitMax}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	return answerOf(t, response)
}

// writeText writes a file of settings or rules, and returns its name.
func writeText(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tickmesh.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func post(t *testing.T, url, body string) (int, string) {
	t.Helper()
	response, err := (&http.Client{Timeout: waitMax}).Post(url, "text/plain", strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	return answerOf(t, response)
}

func answerOf(t *testing.T, response *http.Response) (int, string) {
	t.Helper()
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// run runs the program to its end.
func run(t *testing.T, environ []string, arguments ...string) (code int, stdout, stderr string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), waitMax)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, arguments...)
	cmd.Env, cmd.Dir = append(cleanEnviron(), environ...), t.TempDir()
	var out, log bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &log
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) || ctx.Err() != nil {
		t.Fatalf("%v %v\n%s", err, ctx.Err(), log.String())
	}
	return cmd.ProcessState.ExitCode(), out.String(), log.String()
}

func TestUsedDataFolder(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	first := startServer(t, dir)
	code, _, stderr := run(t, nil, append([]string{"standalone", "--data-dir", dir}, anyPorts()...)...)
	want := "tickmesh: --data-dir " + dir + ": another process uses this folder (locked by another process); stop it, or choose another folder\n"
	if code != 1 || stderr != want {
		t.Errorf("code %d, %q", code, stderr)
	}
	if status, body := get(t, first.url("/readyz")); status != http.StatusOK || body != "ready\n" {
		t.Errorf("the first is no longer well: %d %q", status, body)
	}
}

func TestUsedPort(t *testing.T) {
	t.Parallel()
	tcp, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer tcp.Close()
	udp, err := net.ListenPacket("udp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer udp.Close()
	for flag, address := range map[string]string{
		"http-addr": tcp.Addr().String(), "put-addr": tcp.Addr().String(), "line-addr": tcp.Addr().String(),
		"grpc-addr": tcp.Addr().String(), "udp-addr": udp.LocalAddr().String(),
	} {
		code, _, stderr := run(t, nil, append(append([]string{"standalone"}, anyPorts()...), "--"+flag, address)...)
		want := fmt.Sprintf("tickmesh: --%s %s: bind: address already in use; stop the program that listens there, or choose another address\n", flag, address)
		if code != 1 || !strings.HasSuffix(stderr, want) {
			t.Errorf("code %d, %q, want %q", code, stderr, want)
		}
	}
	code, _, stderr := run(t, nil, append(append([]string{"standalone"}, anyPorts()...), "--http-addr", "192.0.2.1:0")...)
	if want := "--http-addr 192.0.2.1:0: bind: cannot assign requested address; choose an address of this machine\n"; code != 1 || !strings.HasSuffix(stderr, want) {
		t.Errorf("code %d, %q, want %q", code, stderr, want)
	}
}

func TestWrongCommandLines(t *testing.T) {
	t.Parallel()
	const help = "\n          see `tickmesh standalone --help`\n"
	file := filepath.Join(t.TempDir(), "is-a-file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		environ, arguments []string
		want               string
	}{
		{nil, []string{"standalone", "--htp-addr", ":1"}, "tickmesh: unknown flag: --htp-addr" + help},
		{nil, []string{"standalone", "--shards"}, "tickmesh: flag needs an argument: --shards" + help},
		{nil, []string{"standalone", "--shards", "many"}, `tickmesh: --shards: invalid value "many": expected a whole number` + help},
		{nil, []string{"standalone", "--pprof=maybe"}, `tickmesh: --pprof: invalid value "maybe": expected true or false` + help},
		{[]string{"TICKMESH_SHARDS=many"}, []string{"standalone"}, `tickmesh: TICKMESH_SHARDS: invalid value "many": expected a whole number` + help},
		{nil, []string{"standalone", "--shards=0", "--tags-max=5000"},
			"tickmesh: --shards: invalid value \"0\": expected 1 to 4096\n          --tags-max: invalid value \"5000\": expected 1 to 1024" + help},
		{nil, []string{"standalone", "--memory-limit=5MB"}, `tickmesh: --memory-limit: invalid value "5000000": expected 0, or at least 16MiB`},
		{nil, []string{"standalone", "more"}, "tickmesh: unknown command \"more\" for \"tickmesh standalone\"\n"},
		{nil, []string{"standalon"}, "tickmesh: unknown command \"standalon\" for \"tickmesh\", did you mean standalone?\n          see `tickmesh --help`\n"},
		{nil, []string{"status", "--addr", "127.0.0.1:1,127.0.0.1:2", "--timeout", "5s"}, "tickmesh: no server could be reached at 127.0.0.1:1, 127.0.0.1:2: dial tcp 127.0.0.1:"},
		{nil, []string{"export", "--addr", "127.0.0.1:1", "--timeout", "5s"}, "tickmesh: no server could be reached at 127.0.0.1:1: dial tcp 127.0.0.1:"},
		{nil, []string{"frobnicate"}, "tickmesh: unknown command \"frobnicate\" for \"tickmesh\"\n          see `tickmesh --help`\n"},
		{nil, []string{"standalone", "--failpoints", "nowhere=kill@1"}, "tickmesh: --failpoints: "},
		{nil, []string{"standalone", "--data-dir", file}, "tickmesh: --data-dir " + file + ": make the data folder: "},
	} {
		code, stdout, stderr := run(t, test.environ, test.arguments...)
		if code != 1 || stdout != "" || !strings.HasPrefix(stderr, test.want) {
			t.Errorf("%v %v: code %d, %q, %q; want %q", test.environ, test.arguments, code, stdout, stderr, test.want)
		}
	}
}
