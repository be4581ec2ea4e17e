package main

import (
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/spf13/pflag"

	"github.com/tickmesh/tickmesh/api/settings"
)

// flagValues are two allowed values of every flag, both different from the
// default where there are so many.
func flagValues() map[string][2]string {
	return map[string][2]string{
		"http-addr": {":1", ":2"}, "put-addr": {":3", ":4"}, "line-addr": {":5", ""}, "graphite-addr": {":13", ":14"}, "graphite-templates": {"t.yaml", "u.yaml"}, "udp-addr": {":7", ":8"}, "grpc-addr": {"", ":10"}, "otlp-grpc-addr": {":15", ":16"}, "metrics-addr": {":11", ":12"},
		"udp-format": {"line", "put"}, "data-dir": {"a", "b"}, "shards": {"1", "2"}, "nodes": {"2", "3"}, "replication": {"2", "3"}, "retention": {"1d", "2d"},
		"wal-sync": {"interval", "off"}, "wal-sync-interval": {"2s", "3s"}, "checkpoint-bytes": {"1MiB", "2MiB"},
		"flush-interval": {"1m", "2m"}, "wal-file-bytes": {"1MiB", "2MiB"}, "page-file-bytes": {"1MiB", "2MiB"}, "digest-interval": {"5h", "6h"}, "forget-series": {"true", "false"},
		"series-max": {"1", "2"}, "series-per-second-max": {"1", "2"}, "line-bytes-max": {"1KiB", "2KiB"},
		"key-bytes-max": {"1KiB", "2KiB"}, "tags-max": {"1", "2"}, "body-bytes-max": {"1MiB", "2MiB"},
		"body-decoded-bytes-max": {"1MiB", "2MiB"}, "in-flight-bytes-max": {"1GiB", "2GiB"}, "connections-max": {"1", "2"},
		"query-series-max": {"1", "2"}, "query-samples-max": {"1", "2"}, "query-memory": {"1MiB", "2MiB"}, "query-timeout": {"1s", "3s"},
		"query-memory-all": {"1MiB", "2MiB"}, "query-running-max": {"1", "2"}, "query-slow": {"1s", "3s"}, "query-cache": {"0", "2MiB"},
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
