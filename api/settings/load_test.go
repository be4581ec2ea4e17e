package settings

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
)

// newFlags returns flags of each kind, as processes have them.
func newFlags() *pflag.FlagSet {
	flags := pflag.NewFlagSet("process", pflag.ContinueOnError)
	(&Operation{}).Define(flags)
	for _, name := range []string{"http-addr", "put-addr", "line-addr", "udp-addr", "grpc-addr"} {
		flags.Var(new(Address), name, "an address")
	}
	for _, name := range []string{"shards", "tags-max"} {
		flags.Var(new(Count), name, "a number")
	}
	flags.Var(new(Duration), "retention", "a time")
	flags.Var(new(Bytes), "query-memory", "a size")
	flags.Var(&Choice{Value: "always", Words: []string{"always", "interval", "off"}}, "wal-sync", "a word")
	return flags
}

func writeFile(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "tickmesh.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
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
		flags := newFlags()
		if err := loadFile(flags, writeFile(t, test.text)); err != nil {
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
		"too long":      {file: strings.Repeat("#", fileBytesMax+1), want: []string{"--config: FILE is longer than 1048576 bytes: not a file of settings"}},
	} {
		path := writeFile(t, test.file)
		flags := newFlags()
		if err := flags.Parse([]string{"--config=" + path}); err != nil {
			t.Fatal(err)
		}
		_, err := Load(flags, test.environ)
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
	flags := newFlags()
	_, err := Load(flags, []string{"TICKMESH_CONFIG=" + filepath.Join(t.TempDir(), "none")})
	if !errors.Is(err, os.ErrNotExist) || !strings.HasPrefix(err.Error(), "--config: open ") {
		t.Error(err)
	}
}

// TestStrangeEnvironment has what Kubernetes sets for services of some names, and what the
// commands of a client are told.
func TestStrangeEnvironment(t *testing.T) {
	flags := newFlags()
	strange, err := Load(flags, []string{
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
		values, err := parseFile("FILE", []byte(text))
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
