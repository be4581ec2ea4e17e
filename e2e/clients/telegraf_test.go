package clients

import (
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// telegrafAgent reads lines from a file, and is quicker than people have it.
const telegrafAgent = `[agent]
  interval = "1s"
  flush_interval = "200ms"
  omit_hostname = true

[[inputs.tail]]
  files = [%q]
  initial_read_offset = "beginning"
  path_tag = ""
  data_format = "influx"

`

// telegrafOutputs are the outputs of ingest's page as Telegraf's log names them.
var telegrafOutputs = []string{"influxdb", "influxdb_v2", "opentsdb::lines", "opentsdb::json", "http"}

// telegrafConfig is the agent with the outputs that ingest's page shows, which write to
// these addresses in place of the usual ones.
func telegrafConfig(t *testing.T, input, web, put string) string {
	t.Helper()
	page, err := os.ReadFile("../../router/ingest/README.md")
	if err != nil {
		t.Fatal(err)
	}
	config := fmt.Sprintf(telegrafAgent, input)
	for _, block := range strings.Split(string(page), "```toml\n")[1:] {
		text, _, _ := strings.Cut(block, "```")
		config += text
	}
	port := func(scheme, host, port string) string {
		return fmt.Sprintf("host = \"%s%s\"\n  port = %s\n", scheme, host, port)
	}
	webHost, webPort, err := net.SplitHostPort(web)
	if err != nil {
		t.Fatal(err)
	}
	putHost, putPort, err := net.SplitHostPort(put)
	if err != nil {
		t.Fatal(err)
	}
	config = strings.NewReplacer("localhost:6182", web, port("http://", "localhost", "6182"), port("http://", webHost, webPort),
		port("", "localhost", "6181"), port("", putHost, putPort)).Replace(config)
	if strings.Contains(config, "localhost") {
		t.Fatalf("an address is left:\n%s", config)
	}
	return config
}

// buildTelegraf compiles Telegraf, which takes its time when nothing is cached.
func buildTelegraf(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "telegraf")
	began := time.Now()
	command := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-o", path, ".")
	command.Dir = "telegraf"
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, output)
	}
	t.Logf("Telegraf was built in %v", time.Since(began).Round(time.Second))
	return path
}

// overload answers as many requests to each path as a test says the way a server does that
// has too much to do, and passes the others on.
type overload struct {
	mu      sync.Mutex
	refuse  map[string]int
	forward http.Handler
}

func newOverload(target string) *overload {
	return &overload{refuse: map[string]int{}, forward: httputil.NewSingleHostReverseProxy(&url.URL{Scheme: "http", Host: target})}
}

// ServeHTTP implements http.Handler.
func (o *overload) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	o.mu.Lock()
	refused := o.refuse[r.URL.Path] > 0
	if refused {
		o.refuse[r.URL.Path]--
	}
	o.mu.Unlock()
	if refused {
		w.Header().Set("Retry-After", "1")
		http.Error(w, `{"error":"overloaded: too many bytes in flight"}`, http.StatusServiceUnavailable)
		return
	}
	o.forward.ServeHTTP(w, r)
}

// writePaths are where the outputs write over HTTP.
var writePaths = []string{"/write", "/api/v2/write", "/api/put", "/api/v1/write"}

func (o *overload) set(times int) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, path := range writePaths {
		o.refuse[path] = times
	}
}

// left returns the paths that have not been refused as often as was said.
func (o *overload) left() (paths []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	for path, n := range o.refuse {
		if n > 0 {
			paths = append(paths, path)
		}
	}
	return paths
}

// telegraf is a test's agent, its input, and what has to be stored of it.
type telegraf struct {
	t       *testing.T
	server  *server
	log     string // path
	input   *os.File
	startMs int64
	lines   int
	want    map[string]map[string]stock // by database and metric
}

// write appends lines to the input: two numbers, a truth and a text.
func (g *telegraf) write(n int) {
	g.t.Helper()
	for range n {
		i := g.lines
		g.lines++
		timeMs := g.startMs + int64(i)*1000
		temperature, people := float64(i)/4-10, i*i
		if _, err := fmt.Fprintf(g.input, "room,n=%d,site=lab temp=%v,people=%di,open=%v,note=\"text\" %d\n", i, temperature, people, i%2 == 0, timeMs*1e6); err != nil {
			g.t.Fatal(err)
		}
		tags := map[string]string{"n": fmt.Sprint(i), "site": "lab"}
		open := float64(1 - i%2)
		for field, value := range map[string]float64{"temp": temperature, "people": float64(people), "open": open} {
			named := map[string]string{"n": tags["n"], "site": "lab", "_field": field}
			for _, database := range []string{"telegraf", "home"} {
				g.expect(database, "room", named, timeMs, value)
			}
			g.expect("metrics", "room_"+field, tags, timeMs, value)
			if field != "open" { // the output has numbers only
				g.expect("", "lines.room_"+field, tags, timeMs, value)
				g.expect("", "json.room_"+field, tags, timeMs, value)
			}
		}
	}
}

func (g *telegraf) expect(database, metric string, tags map[string]string, timeMs int64, value float64) {
	if g.want[database] == nil {
		g.want[database] = map[string]stock{}
	}
	if g.want[database][metric] == nil {
		g.want[database][metric] = stock{}
	}
	g.want[database][metric].add(seriesName(metric, tags), timeMs, value)
}

// arrived waits until all that was written can be read in a query language.
func (g *telegraf) arrived(language string) {
	g.t.Helper()
	eventually(g.t, func() string {
		for database, metrics := range g.want {
			for metric, want := range metrics {
				got, err := readers()[language](g.t.Context(), g.server, database, metric, g.startMs-1000, g.startMs+3600_000)
				if err != nil {
					return err.Error()
				}
				if found := difference(want, got); found != "" {
					return fmt.Sprintf("%s, database %q, metric %s: %s", language, database, metric, found)
				}
			}
		}
		return ""
	})
}

// failures waits until each output has failed to write since the log was that long.
func (g *telegraf) failures(since int) {
	g.t.Helper()
	eventually(g.t, func() string {
		log, err := os.ReadFile(g.log)
		if err != nil {
			return err.Error()
		}
		for _, output := range telegrafOutputs {
			if !strings.Contains(string(log[since:]), "Error writing to outputs."+output+":") {
				return fmt.Sprintf("%s has not failed\n%s", output, log[since:])
			}
		}
		return ""
	})
}

// TestTelegraf: what Telegraf reads is stored by each of its outputs and can be read in
// every query language; nothing is lost while the server is away, and what is refused
// because of overload comes again.
func TestTelegraf(t *testing.T) {
	s := newServer(t)
	program := buildTelegraf(t)
	front := newOverload(s.addresses.HTTP)
	web := httptest.NewServer(front)
	defer web.Close()
	dir := t.TempDir()
	input, err := os.Create(filepath.Join(dir, "input"))
	if err != nil {
		t.Fatal(err)
	}
	defer input.Close()
	g := &telegraf{t: t, server: s, log: filepath.Join(dir, "log"), input: input, want: map[string]map[string]stock{},
		startMs: time.Now().Add(-30 * time.Minute).Truncate(time.Second).UnixMilli()}
	path := filepath.Join(dir, "telegraf.conf")
	config := telegrafConfig(t, input.Name(), strings.TrimPrefix(web.URL, "http://"), s.addresses.Put)
	if err := os.WriteFile(path, []byte(config), 0o644); err != nil {
		t.Fatal(err)
	}
	g.write(20)
	agent, err := harness.StartProcess(harness.ProcessOptions{Path: program, Args: []string{"--config", path}, LogPath: g.log})
	if err != nil {
		t.Fatal(err)
	}
	defer agent.Kill()
	defer func() {
		if t.Failed() {
			t.Logf("Telegraf's log ends with\n%s", agent.LogTail(4096))
		}
	}()
	g.arrived("opentsdb")

	log, err := os.Stat(g.log)
	if err != nil {
		t.Fatal(err)
	}
	s.stop()
	g.write(20)
	g.failures(int(log.Size()))
	s.start()
	g.write(20)
	g.arrived("opentsdb")

	front.set(2)
	g.write(20)
	for language := range readers() {
		g.arrived(language)
	}
	if left := front.left(); len(left) > 0 {
		t.Errorf("not refused often enough: %v", left)
	}
	if err := agent.Terminate(waitMax); err != nil {
		t.Errorf("telegraf: %v", err)
	}
}
