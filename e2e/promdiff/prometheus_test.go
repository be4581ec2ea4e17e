package promdiff

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"

	"github.com/tickmesh/tickmesh/e2e/harness"
	"github.com/tickmesh/tickmesh/e2e/harness/harnesstest"
)

// bound is far above what anything here takes; no result depends on it.
const bound = 2 * time.Minute

// prometheusConfig scrapes nothing.
const prometheusConfig = "global: {}\n"

// portableExpressions are compared with a real Prometheus.
const portableExpressions = 600

// portableTolerance allows for other orders and ways of summing in other versions. The
// data's values are positive, so that little is lost by differences.
const portableTolerance = 1e-12

// TestPrometheus: a real Prometheus, unmodified, is sent the same remote writes as our
// server and asked the same.
func TestPrometheus(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test builds the server and runs Prometheus")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	// Prometheus takes no samples much older than its newest, nor from the future.
	fromMs := time.Now().Add(-2*time.Hour).UnixMilli() / 60_000 * 60_000
	rng := rand.New(rand.NewPCG(*seed, 2))
	data := Data(rng, fromMs, fromMs+3600_000, true)
	ours, theirs := harnesstest.Standalone(t).HTTPAddr, startPrometheus(ctx, t, "")
	for _, w := range Writes(data, 300_000) {
		body, err := w.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		body = snappy.Encode(nil, body)
		for _, address := range []string{ours, theirs} {
			if status, answer := send(ctx, t, address, body); status/100 != 2 {
				t.Fatalf("%s answers the write by %d: %s", address, status, answer)
			}
		}
	}
	expressions := &Expressions{RNG: rng, Portable: true, AtMs: fromMs + 1800_000}
	full, differ := 0, 0
	for i := range portableExpressions {
		text := expressions.Vector(3)
		m := moments(rng)
		m.startMs += fromMs - dataFromMs/60_000*60_000
		m.endMs += fromMs - dataFromMs/60_000*60_000
		want, got := ask(ctx, t, theirs, text, m), ask(ctx, t, ours, text, m)
		if found := Difference(want, got, portableTolerance); found != "" {
			if differ++; differ <= 20 {
				t.Errorf("seed %d, expression %d, %+v: %s\n%s", *seed, i, m, text, found)
			}
		}
		if len(want.Points) > 0 {
			full++
		}
	}
	t.Logf("%d expressions, %d with a result, %d differ", portableExpressions, full, differ)
	if full < portableExpressions/2 {
		t.Errorf("only %d expressions had a result", full)
	}
}

// TestPrometheusReads: a real Prometheus that has nothing itself evaluates over what it
// reads from our server, which returns the same when it is asked itself.
func TestPrometheusReads(t *testing.T) {
	if testing.Short() {
		t.Skip("-short: this test builds the server and runs Prometheus")
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	rng := rand.New(rand.NewPCG(*seed, 3))
	data := Data(rng, dataFromMs, dataToMs, true)
	ours := harnesstest.Standalone(t).HTTPAddr
	for _, w := range Writes(data, 600_000) {
		body, err := w.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if status, answer := send(ctx, t, ours, snappy.Encode(nil, body)); status/100 != 2 {
			t.Fatalf("the write is answered by %d: %s", status, answer)
		}
	}
	theirs := startPrometheus(ctx, t, "remote_read:\n  - url: http://"+ours+"/api/v1/read\n    read_recent: true\n")
	expressions := &Expressions{RNG: rng, Portable: true, AtMs: dataFromMs + 1800_000}
	full := 0
	const reads = 100
	for i := range reads {
		text, m := expressions.Vector(2), moments(rng)
		want, got := ask(ctx, t, theirs, text, m), ask(ctx, t, ours, text, m)
		if found := Difference(want, got, portableTolerance); found != "" {
			t.Errorf("seed %d, expression %d, %+v: %s\n%s", *seed, i, m, text, found)
		}
		if len(want.Points) > 0 {
			full++
		}
	}
	if full < reads/2 {
		t.Errorf("only %d of %d expressions had a result", full, reads)
	}
}

// startPrometheus starts one with a part of a configuration.
func startPrometheus(ctx context.Context, t *testing.T, part string) string {
	t.Helper()
	program, err := harness.Install(ctx, "prometheus", "prometheus")
	if err != nil {
		t.Fatal(err)
	}
	free, err := harness.FreeAddresses(1)
	if err != nil {
		t.Fatal(err)
	}
	address, dir := free[0], t.TempDir()
	config := filepath.Join(dir, "prometheus.yml")
	if err := os.WriteFile(config, []byte(prometheusConfig+part), 0o644); err != nil {
		t.Fatal(err)
	}
	server, err := harness.StartProcess(harness.ProcessOptions{
		Path: program, LogPath: filepath.Join(dir, "log"),
		Args: []string{"--config.file=" + config, "--storage.tsdb.path=" + filepath.Join(dir, "data"), "--web.listen-address=" + address, "--web.enable-remote-write-receiver"},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(server.Kill)
	deadline := time.Now().Add(bound)
	for {
		response, err := http.Get("http://" + address + "/-/ready")
		if err == nil {
			response.Body.Close()
			if response.StatusCode == http.StatusOK {
				return address
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("Prometheus is not ready: %v\n%s", err, server.LogTail(4096))
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// send posts a remote write.
func send(ctx context.Context, t *testing.T, address string, body []byte) (status int, answer string) {
	t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, "http://"+address+"/api/v1/write", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-protobuf")
	request.Header.Set("Content-Encoding", "snappy")
	request.Header.Set("X-Prometheus-Remote-Write-Version", "0.1.0")
	return fetch(t, request)
}

func fetch(t *testing.T, request *http.Request) (status int, answer string) {
	t.Helper()
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	body, err := io.ReadAll(response.Body)
	if err != nil {
		t.Fatal(err)
	}
	return response.StatusCode, string(body)
}

// ask evaluates an expression at a server.
func ask(ctx context.Context, t *testing.T, address, text string, m moment) *Answer {
	t.Helper()
	path, form := m.form(text)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, fmt.Sprintf("http://%s/api/v1/%s?%s", address, path, form.Encode()), nil)
	if err != nil {
		t.Fatal(err)
	}
	status, body := fetch(t, request)
	a, err := ParseAnswer(status, []byte(body))
	if err != nil {
		t.Fatalf("%s: %s: %v", address, text, err)
	}
	return a
}
