package envoy

import (
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

var update = flag.Bool("update", false, "write the golden files anew")

// plain returns options without TLS.
func plain() Options {
	return Options{
		Router: "demo-router.lab.svc.cluster.local", Address: "0.0.0.0",
		HTTPPort: 6182, GRPCPort: 6183, PutPort: 6181, LinePort: 6180, StatusPort: StatusPortDefault, AdminPort: AdminPortDefault,
		ConnectionsMax: ConnectionsMaxDefault,
	}
}

// secure returns options with all there is.
func secure() Options {
	o := plain()
	o.AccessLog = true
	o.Edge = &Edge{Folder: "/etc/envoy/edge", Secrets: "/etc/envoy/secrets", ClientCA: true}
	o.Upstream = &Upstream{Folder: "/etc/envoy/ca", Secrets: "/etc/envoy/secrets", ServerName: "demo-router.lab.svc"}
	return o
}

func TestGolden(t *testing.T) {
	for name, o := range map[string]Options{"plain": plain(), "secure": secure()} {
		texts, err := Secrets(o)
		if err != nil {
			t.Fatal(err)
		}
		if texts["bootstrap.yaml"], err = Bootstrap(o); err != nil {
			t.Fatal(err)
		}
		for file, text := range texts {
			golden := filepath.Join("testdata", name+"-"+file)
			if *update {
				if err := os.WriteFile(golden, text, 0o644); err != nil {
					t.Fatal(err)
				}
			}
			want, err := os.ReadFile(golden)
			if err != nil {
				t.Fatal(err)
			}
			if string(want) != string(text) {
				t.Errorf("%s differs from what is written; run with -update and look at the difference", golden)
			}
			var document map[string]any
			if err := yaml.UnmarshalStrict(text, &document); err != nil {
				t.Errorf("%s: %v", golden, err)
			}
		}
	}
}

// TestOptionsRefused changes one option at a time: none may get into the text.
func TestOptionsRefused(t *testing.T) {
	for name, change := range map[string]func(*Options){
		"no router":             func(o *Options) { o.Router = "" },
		"a router with a quote": func(o *Options) { o.Router = `a"b` },
		"a router of two lines": func(o *Options) { o.Router = "a\nadmin: {}" },
		"a host name to listen": func(o *Options) { o.Address = "localhost" },
		"no port":               func(o *Options) { o.GRPCPort = 0 },
		"too high a port":       func(o *Options) { o.LinePort = 65536 },
		"a port twice":          func(o *Options) { o.PutPort = o.HTTPPort },
		"the admin's port":      func(o *Options) { o.StatusPort = o.AdminPort },
		"no connections":        func(o *Options) { o.ConnectionsMax = 0 },
		"a relative folder":     func(o *Options) { o.Edge.Folder = "certs" },
		"a folder with a brace": func(o *Options) { o.Edge.Folder = "/certs}" },
		"a folder that climbs":  func(o *Options) { o.Upstream.Folder = "/certs/.." },
		"no folder of secrets":  func(o *Options) { o.Upstream.Secrets = "" },
		"no server name":        func(o *Options) { o.Upstream.ServerName = "" },
	} {
		o := secure()
		edge, upstream := *o.Edge, *o.Upstream
		o.Edge, o.Upstream = &edge, &upstream
		change(&o)
		if _, err := Bootstrap(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := Secrets(o); !errors.Is(err, ErrOptions) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
