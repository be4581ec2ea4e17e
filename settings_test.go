package main

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// flagValues are two allowed values of every flag, both different from the
// default where there are so many.
func flagValues() map[string][2]string {
	return map[string][2]string{
		"http-addr": {":1", ":2"}, "put-addr": {":3", ":4"}, "line-addr": {":5", ""}, "udp-addr": {":7", ":8"}, "grpc-addr": {"", ":10"},
		"udp-format": {"line", "put"}, "data-dir": {"a", "b"}, "shards": {"1", "2"}, "nodes": {"2", "3"}, "replication": {"2", "3"}, "retention": {"1d", "2d"},
		"wal-sync": {"interval", "off"}, "wal-sync-interval": {"2s", "3s"}, "checkpoint-bytes": {"1MiB", "2MiB"},
		"flush-interval": {"1m", "2m"}, "wal-file-bytes": {"1MiB", "2MiB"}, "page-file-bytes": {"1MiB", "2MiB"}, "digest-interval": {"5h", "6h"},
		"series-max": {"1", "2"}, "series-per-second-max": {"1", "2"}, "line-bytes-max": {"1KiB", "2KiB"},
		"key-bytes-max": {"1KiB", "2KiB"}, "tags-max": {"1", "2"}, "body-bytes-max": {"1MiB", "2MiB"},
		"body-decoded-bytes-max": {"1MiB", "2MiB"}, "in-flight-bytes-max": {"1GiB", "2GiB"}, "connections-max": {"1", "2"},
		"query-series-max": {"1", "2"}, "query-samples-max": {"1", "2"}, "query-memory": {"1MiB", "2MiB"}, "query-timeout": {"1s", "3s"},
		"query-memory-all": {"1MiB", "2MiB"}, "query-running-max": {"1", "2"}, "query-slow": {"1s", "3s"}, "query-cache": {"0", "2MiB"},
		"log-format": {"json", "text"}, "log-level": {"debug", "warn"}, "pprof": {"true", "false"}, "admin": {"true", "false"},
		"cors-origins": {"a,b", "c"}, "http-hosts": {"a,b", "c"}, "shutdown-delay": {"1s", "2s"}, "shutdown-timeout": {"1s", "2s"},
		"memory-limit": {"1GiB", "2GiB"}, "failpoints": {"a=kill@1", "b=kill@2"},
		"databases-file": {"a.yaml", "b.yaml"}, "auth-file": {"c.yaml", "d.yaml"}, "udp-user": {"a", "b"}, "put-database": {"a", "b"},
		"line-database": {"a", "b"}, "udp-database": {"a", "b"}, "database-from": {"header", "any"},
		"audit-log": {"a.json", "b.json"}, "audit-level": {"all", "changes"},
		"tls-cert": {"a.pem", "b.pem"}, "tls-key": {"a.key", "b.key"}, "tls-client-ca": {"c.pem", "d.pem"}, "tls-client-auth": {"optional", "required"},
	}
}

// shown is how a flag tells a value that was set.
func shown(name, value string) string {
	if name == "cors-origins" || name == "http-hosts" {
		return "[" + value + "]"
	}
	return value
}

func newFlags() (*standaloneSettings, *pflag.FlagSet) {
	s, flags := &standaloneSettings{}, pflag.NewFlagSet("standalone", pflag.ContinueOnError)
	s.define(flags)
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
		if f.Name == flagConfig {
			return
		}
		v, ok := values[f.Name]
		if !ok {
			t.Errorf("--%s has no values in this test", f.Name)
			return
		}
		file := writeFile(t, yamlLine(f.Name, v[1]))
		fileFirst := writeFile(t, yamlLine(f.Name, v[0]))
		flagFirst, envFirst, envSecond := "--"+f.Name+"="+v[0], environmentName(f.Name)+"="+v[0], environmentName(f.Name)+"="+v[1]
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
			strange, err := loadSettings(flags, test.environ)
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

func TestSettingsFile(t *testing.T) {
	for name, test := range map[string]struct{ text, want string }{
		"empty":          {"", "[]"},
		"comments":       {"# nothing\n---\n# here\n", "[]"},
		"list":           {"cors-origins: [a, 'b,c', \"\"]\n", `[a,"b,c",]`},
		"list in lines":  {"cors-origins:\n  - a\n  - b\n", "[a,b]"},
		"empty list":     {"cors-origins: []\n", "[]"},
		"text with ,":    {"cors-origins: a,b\n", "[a,b]"},
		"CRLF":           {"cors-origins: a\r\nshards: 3\r\n", "[a]"},
		"byte order":     {"\ufeffcors-origins: a\n", "[a]"},
		"document marks": {"---\ncors-origins: a\n...\n", "[a]"},
	} {
		_, flags := newFlags()
		if err := loadSettingsFile(flags, writeFile(t, test.text)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := flags.Lookup("cors-origins").Value.String(); got != test.want {
			t.Errorf("%s: %s, want %s", name, got, test.want)
		}
	}
}

// TestWrongSettings reads what a person would read. FILE stands for the path.
func TestWrongSettings(t *testing.T) {
	const noSetting = ": there is no such setting; --help lists their names"
	for name, test := range map[string]struct {
		file    string
		environ []string
		want    []string
	}{
		"environment": {environ: []string{"TICKMESH_SHARDS=x", "TICKMESH_PPROF="}, want: []string{
			`TICKMESH_SHARDS: invalid value "x": expected a whole number`, `TICKMESH_PPROF: invalid value "": expected true or false`,
		}},
		"unknown": {file: "shards: 1\nshard: 2\nconfig: a\nhelp: true\nSHARDS: 2\n", want: []string{
			"FILE:2: shard" + noSetting, "FILE:3: config" + noSetting, "FILE:4: help" + noSetting, "FILE:5: SHARDS" + noSetting,
		}},
		"types": {
			file: "shards: 1.5\npprof: yes\nhttp-addr: 6182\nretention: 90\nquery-memory: lots\nwal-sync: sometimes\ntags-max: -1\n", want: []string{
				`FILE:1: shards: invalid value "1.5": expected a whole number`,
				`FILE:2: pprof: invalid value "yes": expected true or false`,
				`FILE:3: http-addr: invalid value "6182": expected host:port, :port for all interfaces, or nothing to switch it off`,
				`FILE:4: retention: invalid value "90": expected a length of time with its unit, such as 30s, 36h, 90d, 2w or 1y`,
				`FILE:5: query-memory: invalid value "lots": expected a size such as 65536, 64KiB or 1.5GB`,
				`FILE:6: wal-sync: invalid value "sometimes": expected one of always, interval, off`,
				`FILE:7: tags-max: invalid value "-1": expected a whole number`,
			},
		},
		"shapes": {
			file: "shards: {a: 1}\nretention: [1d]\nudp-addr:\nput-addr: ~\ncors-origins: [a, [b]]\nline-addr: &x ':1'\ngrpc-addr: *x\n", want: []string{
				"FILE:1: shards: expected a single value",
				`FILE:3: udp-addr: has no value; write "" for an empty one`,
				`FILE:4: put-addr: has no value; write "" for an empty one`,
				"FILE:5: cors-origins: expected a list of single values",
				"FILE:7: grpc-addr: expected a single value",
				"FILE:2: retention: expected a single value, not a list",
			},
		},
		"twice":         {file: "shards: 1\n\nshards: 2\n", want: []string{"FILE:3: shards: is set in line 1 already"}},
		"name":          {file: "? [a]\n: 1\n<<: 2\n", want: []string{"FILE:1: expected the name of a setting", "FILE:3: expected the name of a setting"}},
		"no mapping":    {file: "\n- shards\n", want: []string{"FILE:2: expected lines of the form `name: value`"}},
		"a word":        {file: "shards\n", want: []string{"FILE:1: expected lines of the form `name: value`"}},
		"second":        {file: "shards: 1\n---\nshards: 2\n", want: []string{"FILE:2: expected one document, and a second begins"}},
		"tab":           {file: "shards: 1\n\tpprof: true\n", want: []string{"FILE:2: found a tab character that violates indentation"}},
		"control bytes": {file: "shards: \x00\n", want: []string{"FILE: control characters are not allowed"}},
		"too long":      {file: strings.Repeat("#", settingsFileBytesMax+1), want: []string{"--config: FILE is longer than 1048576 bytes: not a file of settings"}},
	} {
		path := writeFile(t, test.file)
		_, flags := newFlags()
		if err := flags.Parse([]string{"--config=" + path}); err != nil {
			t.Fatal(err)
		}
		_, err := loadSettings(flags, test.environ)
		if err == nil {
			t.Errorf("%s: no error", name)
			continue
		}
		got, want := strings.Split(err.Error(), "\n"), slices.Clone(test.want)
		for i := range got {
			got[i] = strings.ReplaceAll(got[i], path, "FILE")
		}
		slices.Sort(got)
		slices.Sort(want)
		if !slices.Equal(got, want) {
			t.Errorf("%s:\n%s\nwant\n%s", name, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
}

func TestMissingSettingsFile(t *testing.T) {
	_, flags := newFlags()
	_, err := loadSettings(flags, []string{"TICKMESH_CONFIG=" + filepath.Join(t.TempDir(), "none")})
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "--config: open ") {
		t.Error(err)
	}
}

// TestStrangeEnvironment has what Kubernetes sets for services of some names, and what the
// commands of a client are told.
func TestStrangeEnvironment(t *testing.T) {
	_, flags := newFlags()
	strange, err := loadSettings(flags, []string{
		"TICKMESH_SHARD=3", "TICKMESH_HELP=true", "TICKMESHX=1", "PATH=/bin", "tickmesh_shards=7", "odd",
		"TICKMESH_SERVICE_HOST=10.0.0.1", "TICKMESH_PORT=tcp://10.0.0.1:6182", "TICKMESH_PORT_6182_TCP_ADDR=10.0.0.1",
		"TICKMESH_HTTP_SERVICE_PORT_WEB=6182", "TICKMESH_SHARDS=5", "TICKMESH_ADDR=router:6183", "TICKMESH_TOKEN=x",
	})
	if err != nil || !slices.Equal(strange, []string{"TICKMESH_HELP", "TICKMESH_SHARD"}) {
		t.Error(strange, err)
	}
	if got := flags.Lookup("shards").Value.String(); got != "5" {
		t.Error("shards:", got)
	}
}

// FuzzSettingsFile holds that every problem has its place, and that what is
// taken stands in the text.
func FuzzSettingsFile(f *testing.F) {
	for _, seed := range []string{
		"shards: 1\n", "a: [b, c]\n", "a: &x 1\nb: *x\n", "? {a: b}\n: c\n", "---\n...\n---\n", "a: |\n  b\n", "<<: {a: 1}\n", "!!null a: b\n", "a: !!binary aGk=\n",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, text string) {
		values, err := parseSettings("FILE", []byte(text))
		names := map[string]bool{}
		for _, v := range values {
			if names[v.name] {
				t.Fatalf("%q gives %s twice", text, v.name)
			}
			names[v.name] = true
			if !strings.HasPrefix(v.from, "FILE:") {
				t.Fatalf("%q: %q", text, v.from)
			}
		}
		if err != nil && !strings.HasPrefix(err.Error(), "FILE:") {
			t.Fatalf("%q: %v", text, err)
		}
	})
}
