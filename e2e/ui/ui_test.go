package ui

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"math"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/crypto/bcrypt"

	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/harness/harnesstest"
)

// waitMax bounds the whole of a browser's test; nothing depends on it.
const waitMax = 10 * time.Minute

// prefix is a path below which a proxy serves the page, too.
const prefix = "/some/where/"

// programs are what drives the browser.
type programs struct {
	node, chromium string
	tests          string // the folder of the browser's tests, ready to run
}

// prepare finds or installs the browser and what drives it.
func prepare(ctx context.Context, t *testing.T) programs {
	t.Helper()
	install := func(program, packageName string) string {
		path, err := harness.Install(ctx, program, packageName)
		if errors.Is(err, harness.ErrMissing) {
			t.Skipf("SKIPPED: %v", err)
		} else if err != nil {
			t.Fatal(err)
		}
		return path
	}
	p := programs{node: install("node", "nodejs"), chromium: install("chromium", "chromium")}
	npm := install("npm", "npm")
	if out, err := exec.CommandContext(ctx, p.node, "-p", "parseInt(process.versions.node, 10) >= 20").Output(); err != nil || strings.TrimSpace(string(out)) != "true" {
		t.Skipf("SKIPPED: Node.js is older than 20: %s %v", out, err)
	}
	p.tests = filepath.Join(moduleDir(ctx, t), "e2e", "ui", "browser")
	command := exec.CommandContext(ctx, npm, "ci", "--silent", "--no-progress")
	command.Dir = p.tests
	if out, err := command.CombinedOutput(); err != nil {
		t.Fatalf("npm ci: %v\n%s", err, out)
	}
	return p
}

func moduleDir(ctx context.Context, t *testing.T) string {
	t.Helper()
	dir, err := harness.ModuleDir(ctx)
	if err != nil {
		t.Fatal(err)
	}
	return dir
}

// run runs one file of the browser's tests against a server.
func (p *programs) run(ctx context.Context, t *testing.T, file string, environment ...string) {
	t.Helper()
	shots := filepath.Join(moduleDir(ctx, t), ".cache", "page-screenshots")
	if err := os.MkdirAll(shots, 0o755); err != nil {
		t.Fatal(err)
	}
	command := exec.CommandContext(ctx, p.node, "--test", "--test-reporter=spec", filepath.Join(p.tests, file))
	command.Env = append(os.Environ(), append(environment, "CHROMIUM="+p.chromium, "SCREENSHOTS="+shots, "TZ=UTC")...)
	out, err := command.CombinedOutput()
	t.Logf("%s", out)
	if err != nil {
		t.Fatalf("%s: %v", file, err)
	}
}

// write writes points of the last hours: waves of six hosts, and a metric of many series.
func write(t *testing.T, server string) {
	t.Helper()
	var lines strings.Builder
	send := func() {
		response, err := http.Post(server+"/write", "", strings.NewReader(lines.String()))
		if err != nil {
			t.Fatal(err)
		}
		defer response.Body.Close()
		if response.StatusCode != http.StatusNoContent {
			t.Fatalf("writing: %s", response.Status)
		}
		lines.Reset()
	}
	now := time.Now().Unix()
	for at := now - 2*3600; at <= now; at += 15 {
		for host := range 6 {
			wave := 45 + 30*math.Sin(float64(at)/700+float64(host)) + 4*math.Sin(float64(at)/37*float64(host+1))
			fmt.Fprintf(&lines, "cpu_percent,host=web-%d,rack=r%d value=%.2f %d000000000\n", host+1, host%2, wave, at)
		}
		fmt.Fprintf(&lines, "http_requests_total,code=200 value=%d %d000000000\n", (at-now+9000)*3, at)
		fmt.Fprintf(&lines, "memory.free,host=web-1 value=%.0f %d000000000\n", 4e9+1e9*math.Sin(float64(at)/2000), at)
	}
	send()
	for unit := range 300 {
		fmt.Fprintf(&lines, "sensor_temperature,room=room-%d,unit=u%d value=%d %d000000000\n", unit%30, unit, 15+unit%13, now)
	}
	send()
	response, err := http.Post(server+"/write?db=other", "", strings.NewReader("elsewhere,host=a value=1"))
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
}

// prefixed serves a server below a prefix of the path.
func prefixed(t *testing.T, server string) string {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(http.StripPrefix(strings.TrimSuffix(prefix, "/"), httputil.NewSingleHostReverseProxy(target)))
	t.Cleanup(proxy.Close)
	return proxy.URL + prefix
}

// vouching serves a server, and says who is there for whoever does not say it.
func vouching(t *testing.T, server, user, password string) string {
	t.Helper()
	target, err := url.Parse(server)
	if err != nil {
		t.Fatal(err)
	}
	to := httputil.NewSingleHostReverseProxy(target)
	proxy := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") == "" {
			r.SetBasicAuth(user, password)
		}
		to.ServeHTTP(w, r)
	}))
	t.Cleanup(proxy.Close)
	return proxy.URL + "/"
}

// rules are those of TestViews: one of each kind, and one that cannot be evaluated.
const rules = `groups:
  - name: web
    interval: 1s
    rules:
      - record: rack:load:mean
        expr: avg by (rack) (cpu_percent)
      - alert: Busy
        expr: cpu_percent > 0
        annotations: {summary: "{{ $labels.host }} is at {{ $value | humanize }} %"}
      - alert: Failing
        expr: label_replace(cpu_percent, "host", "x", "", "") > 0
`

// Every view shows what is there, on a server that runs three nodes in its process.
func TestViews(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	p := prepare(ctx, t)
	rulesFile := filepath.Join(t.TempDir(), "rules.yaml")
	if err := os.WriteFile(rulesFile, []byte(rules), 0o644); err != nil {
		t.Fatal(err)
	}
	server := harnesstest.Standalone(t, "--wal-sync", "interval", "--nodes", "3", "--replication", "2", "--udp-addr", "", "--query-slow", "1ms", "--rules-file", rulesFile)
	address := "http://" + server.HTTPAddr
	write(t, address)
	p.run(ctx, t, "views.test.mjs", "PAGE="+address+"/", "PREFIXED="+prefixed(t, address))
}

// A node that is killed is told of, and so are the shards that lack it.
func TestNodeKilled(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	p := prepare(ctx, t)
	cluster := harnesstest.Cluster(t, harness.ClusterOptions{Nodes: 3, Routers: 1, Shards: 128, Replication: 2, WALSync: "interval"})
	address := "http://" + cluster.Server("r1").Addr()
	write(t, address)
	// The browser's test asks here when it is time.
	control := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		node := cluster.Server(strings.TrimPrefix(r.URL.Path, "/kill/"))
		if r.Method != http.MethodPost || node == nil {
			http.NotFound(w, r)
			return
		}
		if err := node.Kill(); err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
		}
	}))
	defer control.Close()
	p.run(ctx, t, "killed.test.mjs", "PAGE="+address+"/", "CONTROL="+control.URL)
}

// users are those of TestSignIn: ann with a password has one database, root with a token all.
const users = `users:
  - name: ann
    password-hash: "%s"
    rights: {other: write}
  - name: root
    tokens: [%x]
    rights: {"*": admin}
`

// With authentication on, the form in place of the page lets in users and tokens; a database
// that may not be read is not shown.
func TestSignIn(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	p := prepare(ctx, t)
	hash, err := bcrypt.GenerateFromPassword([]byte("secret"), bcrypt.MinCost)
	if err != nil {
		t.Fatal(err)
	}
	const token = "a-token-of-root"
	file := filepath.Join(t.TempDir(), "auth.yaml")
	if err := os.WriteFile(file, fmt.Appendf(nil, users, hash, sha256.Sum256([]byte(token))), 0o600); err != nil {
		t.Fatal(err)
	}
	server := harnesstest.Standalone(t, "--wal-sync", "interval", "--udp-addr", "", "--auth-file", file)
	address := "http://" + server.HTTPAddr
	p.run(ctx, t, "signin.test.mjs", "PAGE="+address+"/", "VOUCHED="+vouching(t, address, "ann", "secret"), "PAGE_TOKEN="+token)
}

// The site of documents in a browser.
func TestSite(t *testing.T) {
	ctx, cancel := context.WithTimeout(context.Background(), waitMax)
	defer cancel()
	p := prepare(ctx, t)
	root := moduleDir(ctx, t)
	if out, err := exec.CommandContext(ctx, filepath.Join(root, "hack", "scripts", "site.sh")).CombinedOutput(); err != nil {
		t.Fatalf("site.sh: %v\n%s", err, out)
	}
	folder := filepath.Join(root, "bin", "site")
	files, err := filepath.Glob(filepath.Join(folder, "*.html"))
	if err != nil {
		t.Fatal(err)
	}
	for i := range files {
		files[i] = filepath.Base(files[i])
	}
	site := httptest.NewServer(http.FileServer(http.Dir(folder)))
	defer site.Close()
	p.run(ctx, t, "site.test.mjs", "SITE="+site.URL+"/", "SITE_PAGES="+strings.Join(files, " "))
}
