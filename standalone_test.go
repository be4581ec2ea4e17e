package main

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/settings"
)

// flagValues are two allowed values of every flag, both different from the
// default where there are so many.
func flagValues() map[string][2]string {
	return map[string][2]string{
		"http-addr": {":1", ":2"}, "put-addr": {":3", ":4"}, "line-addr": {":5", ""}, "graphite-addr": {":13", ":14"}, "graphite-templates": {"t.yaml", "u.yaml"}, "mqtt-file": {"m.yaml", "n.yaml"}, "udp-addr": {":7", ":8"}, "grpc-addr": {"", ":10"}, "otlp-grpc-addr": {":15", ":16"}, "metrics-addr": {":11", ":12"},
		"udp-format": {"line", "put"}, "text-fields": {"refuse", "omit"}, "data-dir": {"a", "b"}, "shards": {"1", "2"}, "nodes": {"2", "3"}, "replication": {"2", "3"}, "retention": {"1d", "2d"},
		"wal-sync": {"interval", "off"}, "wal-sync-interval": {"2s", "3s"}, "checkpoint-bytes": {"1MiB", "2MiB"},
		"flush-interval": {"1m", "2m"}, "wal-file-bytes": {"1MiB", "2MiB"}, "page-file-bytes": {"1MiB", "2MiB"}, "digest-interval": {"5h", "6h"}, "forget-series": {"true", "false"}, "exemplar-bytes": {"0", "1MiB"},
		"series-max": {"1", "2"}, "series-per-second-max": {"1", "2"}, "line-bytes-max": {"1KiB", "2KiB"},
		"key-bytes-max": {"1KiB", "2KiB"}, "tags-max": {"1", "2"}, "body-bytes-max": {"1MiB", "2MiB"},
		"body-decoded-bytes-max": {"1MiB", "2MiB"}, "in-flight-bytes-max": {"1GiB", "2GiB"}, "connections-max": {"1", "2"},
		"query-series-max": {"1", "2"}, "query-samples-max": {"1", "2"}, "query-memory": {"1MiB", "2MiB"}, "query-timeout": {"1s", "3s"},
		"query-memory-all": {"1MiB", "2MiB"}, "query-running-max": {"1", "2"}, "query-slow": {"1s", "3s"}, "query-cache": {"0", "2MiB"}, "metricsql": {"true", "false"}, "promql-experimental": {"true", "false"}, "tenant-federation": {"true", "false"}, "replica-label": {"replica", "prometheus_replica"}, "dedup-interval": {"15s", "30s"},
		"rules-file": {"a.yaml,b=c.yaml", "d.yaml"}, "alertmanager-url": {"http://a,http://b", "http://c"}, "rules-interval": {"2s", "3s"},
		"rules-external-labels": {"a=b,c=d", "e=f"}, "rules-external-url": {"http://a", "http://b"},
		"log-format": {"json", "text"}, "log-level": {"debug", "warn"}, "pprof": {"true", "false"}, "admin": {"true", "false"},
		"cors-origins": {"a,b", "c"}, "http-hosts": {"a,b", "c"}, "shutdown-delay": {"1s", "2s"}, "shutdown-timeout": {"1s", "2s"},
		"memory-limit": {"1GiB", "2GiB"}, "failpoints": {"a=kill@1", "b=kill@2"},
		"databases-file": {"a.yaml", "b.yaml"}, "auth-file": {"c.yaml", "d.yaml"}, "udp-user": {"a", "b"}, "put-database": {"a", "b"},
		"line-database": {"a", "b"}, "graphite-database": {"a", "b"}, "udp-database": {"a", "b"}, "database-from": {"header", "any"},
		"audit-log": {"a.json", "b.json"}, "audit-level": {"all", "changes"},
		"tls-cert": {"a.pem", "b.pem"}, "tls-key": {"a.key", "b.key"}, "tls-client-ca": {"c.pem", "d.pem"}, "tls-client-auth": {"optional", "required"},
	}
}

// shown is how a flag tells a value that was set.
func shown(name, value string) string {
	if slices.Contains([]string{"cors-origins", "http-hosts", "rules-file", "alertmanager-url", "rules-external-labels"}, name) {
		return "[" + value + "]"
	}
	return value
}

func newFlags() (*standaloneSettings, *pflag.FlagSet) {
	s, flags := &standaloneSettings{}, pflag.NewFlagSet("standalone", pflag.ContinueOnError)
	s.Define(flags)
	return s, flags
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tickmesh.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

func yamlLine(name, value string) string { return name + ": '" + value + "'\n" }

// TestPrecedence tries every flag in every place where it can be set.
func TestPrecedence(t *testing.T) {
	values := flagValues()
	_, all := newFlags()
	all.VisitAll(func(f *pflag.Flag) {
		if f.Name == "config" {
			return
		}
		v, ok := values[f.Name]
		if !ok {
			t.Errorf("--%s has no values in this test", f.Name)
			return
		}
		file := writeFile(t, yamlLine(f.Name, v[1]))
		fileFirst := writeFile(t, yamlLine(f.Name, v[0]))
		flagFirst, envFirst, envSecond := "--"+f.Name+"="+v[0], settings.EnvironmentName(f.Name)+"="+v[0], settings.EnvironmentName(f.Name)+"="+v[1]
		for _, test := range []struct {
			place     string
			arguments []string
			environ   []string
			want      string
		}{
			{"nowhere", nil, nil, ""},
			{"flag", []string{flagFirst, "--config=" + file}, []string{envSecond}, v[0]},
			{"environment", []string{"--config=" + file}, []string{envFirst}, v[0]},
			{"file", []string{"--config=" + fileFirst}, nil, v[0]},
			{"file named by the environment", nil, []string{"TICKMESH_CONFIG=" + fileFirst}, v[0]},
		} {
			_, flags := newFlags()
			if err := flags.Parse(test.arguments); err != nil {
				t.Fatal(err)
			}
			strange, err := settings.Load(flags, test.environ)
			if err != nil || len(strange) > 0 {
				t.Fatalf("%s, %s: %v, %v", f.Name, test.place, strange, err)
			}
			want := shown(f.Name, test.want)
			if test.place == "nowhere" {
				want = f.DefValue
			}
			if got := flags.Lookup(f.Name).Value.String(); got != want {
				t.Errorf("--%s set in %s: %q, want %q", f.Name, test.place, got, want)
			}
		}
	})
}

func settingsOf(t *testing.T, arguments ...string) *standaloneSettings {
	t.Helper()
	s, flags := newFlags()
	if err := flags.Parse(arguments); err != nil {
		t.Fatal(err)
	}
	return s
}

func TestBounds(t *testing.T) {
	if err := settingsOf(t).Validate(); err != nil {
		t.Fatal("the defaults:", err)
	}
	for _, good := range []string{
		"--shards=1", "--shards=4096", "--retention=1h", "--retention=0", "--tags-max=1024", "--key-bytes-max=65535", "--http-addr=",
		"--put-addr=127.0.0.1:0 --line-addr=127.0.0.1:0", "--udp-addr=:6182", "--shutdown-delay=0", "--query-timeout=0", "--query-memory=0",
		"--body-bytes-max=1B --body-decoded-bytes-max=1B --in-flight-bytes-max=17MiB", "--checkpoint-bytes=64KiB",
	} {
		if err := settingsOf(t, strings.Fields(good)...).Validate(); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"--shards=0":                    `--shards: invalid value "0": expected 1 to 4096`,
		"--shards=2049 --nodes=3":       `--shards: invalid value "2049": expected 1 to 2048 in a cluster: etcd takes no larger shard map`,
		"--shards=4097":                 `--shards: invalid value "4097": expected 1 to 4096`,
		"--retention=59m":               `--retention: invalid value "59m": expected 0, for ever, or at least 1h`,
		"--data-dir=":                   `--data-dir: invalid value "": expected the name of a folder`,
		"--wal-sync-interval=0":         `--wal-sync-interval: invalid value "0": expected more than 0`,
		"--flush-interval=0s":           `--flush-interval: invalid value "0": expected more than 0`,
		"--shutdown-timeout=0":          `--shutdown-timeout: invalid value "0": expected more than 0`,
		"--checkpoint-bytes=65535":      `--checkpoint-bytes: invalid value "65535": expected 64KiB to 4194304TiB`,
		"--wal-file-bytes=2GiB":         `--wal-file-bytes: invalid value "2GiB": expected 64KiB to 1GiB`,
		"--page-file-bytes=0":           `--page-file-bytes: invalid value "0": expected 64KiB to 1GiB`,
		"--line-bytes-max=0":            `--line-bytes-max: invalid value "0": expected 1 to 1GiB`,
		"--key-bytes-max=64KiB":         `--key-bytes-max: invalid value "64KiB": expected 1 to 65535`,
		"--tags-max=0":                  `--tags-max: invalid value "0": expected 1 to 1024`,
		"--connections-max=0":           `--connections-max: invalid value "0": expected 1 to 1048576`,
		"--body-bytes-max=0":            `--body-bytes-max: invalid value "0": expected 1 to 1GiB`,
		"--body-decoded-bytes-max=2GiB": `--body-decoded-bytes-max: invalid value "2GiB": expected 1 to 1GiB`,
		"--put-addr=:6182":              `--put-addr: invalid value ":6182": --http-addr listens there`,
		"--grpc-addr=:6180":             `--grpc-addr: invalid value ":6180": --line-addr listens there`,
		"--metrics-addr=:6182":          `--metrics-addr: invalid value ":6182": --http-addr listens there`,
		"--http-addr= --put-addr= --line-addr= --grpc-addr= --metrics-addr=:0": "every listener is switched off: set --http-addr or another address",
		"--http-addr= --put-addr= --line-addr= --grpc-addr=":                   "every listener is switched off: set --http-addr or another address",
		"--in-flight-bytes-max=1MiB":                                           `--in-flight-bytes-max: invalid value "1MiB": expected 100729856 or more`,
		"--body-bytes-max=1GiB --retention=1s --shards=0":                      `--shards: invalid value "0": expected 1 to 4096`,
	} {
		err := settingsOf(t, strings.Fields(bad)...).Validate()
		if err == nil || !strings.HasPrefix(err.Error(), want) {
			t.Errorf("%s: %v, want %s", bad, err, want)
		}
	}
	err := settingsOf(t, "--body-bytes-max=1GiB", "--in-flight-bytes-max=256MiB", "--retention=1s", "--shards=0").Validate()
	if lines := strings.Split(err.Error(), "\n"); len(lines) != 3 {
		t.Errorf("%d problems told of three: %q", len(lines), lines)
	}
}

// TestFlagsAreDocumented holds that help has every flag, below a heading, with
// what it is.
func TestFlagsAreDocumented(t *testing.T) {
	_, flags := newFlags()
	flags.VisitAll(func(f *pflag.Flag) {
		if len(f.Annotations) != 1 {
			t.Errorf("--%s has no heading", f.Name)
		}
		if len(f.Usage) < 10 {
			t.Errorf("--%s says only %q", f.Name, f.Usage)
		}
	})
}

// TestInProcess runs the command in this process, where the race detector sees it, on its own and as a cluster of two
// nodes, from its banner to its end, and starts it again.
func TestInProcess(t *testing.T) {
	for name, flags := range map[string][]string{"alone": nil, "cluster": {"--nodes", "2"}} {
		t.Run(name, func(t *testing.T) { testInProcess(t, flags...) })
	}
}

func testInProcess(t *testing.T, flags ...string) {
	dir := t.TempDir()
	config := writeFile(t, "http-addr: 127.0.0.1:0\nput-addr: ''\nline-addr: ''\nlog-format: json\ncors-origins: ['*']\n")
	for turn := range 2 {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		stdout, banner := io.Pipe()
		defer stdout.Close()
		root := newRootCommand()
		root.SetArgs(append([]string{"standalone", "--config", config, "--grpc-addr", "127.0.0.1:0", "--data-dir", dir}, flags...))
		root.SetOut(banner)
		root.SetErr(io.Discard)
		ended := make(chan error, 1)
		go func() {
			err := root.ExecuteContext(ctx)
			_ = banner.CloseWithError(fmt.Errorf("the server ended: %w", io.EOF))
			ended <- err
		}()
		address := bannerAddress(t, stdout)
		if turn == 0 {
			response, err := http.Post(address+"/write", "text/plain", strings.NewReader("cpu,host=a value=0.64 1700000000000000000"))
			if err != nil || response.StatusCode != http.StatusNoContent || response.Body.Close() != nil {
				t.Errorf("%v, %v", response, err)
			}
		}
		response, err := http.Get(address + "/api/query?start=1699999999&m=none:cpu")
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err != nil || response.StatusCode != http.StatusOK || response.Body.Close() != nil || !strings.Contains(string(body), `"dps":{"1700000000":0.64}`) {
			t.Errorf("%d %s, %v", response.StatusCode, body, err)
		}
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				t.Error(err)
			}
		case <-time.After(time.Minute):
			t.Fatal("the server does not end")
		}
	}
}

// bannerAddress reads the banner and returns the address of HTTP.
func bannerAddress(t *testing.T, stdout io.Reader) string {
	t.Helper()
	found := ""
	lines := bufio.NewScanner(stdout)
	for lines.Scan() {
		if match := regexp.MustCompile(`http://[0-9.:]+`).FindString(lines.Text()); match != "" && found == "" {
			found = match
		}
		if strings.HasPrefix(lines.Text(), "Stop with") {
			return found
		}
	}
	t.Fatal("the banner ends early:", lines.Err())
	return ""
}
