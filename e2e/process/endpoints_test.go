package process

import (
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/settings"
	"github.com/tickmesh/tickmesh/node"
	nodecommand "github.com/tickmesh/tickmesh/node/command"
	"github.com/tickmesh/tickmesh/node/member"
	"github.com/tickmesh/tickmesh/node/rpc"
	"github.com/tickmesh/tickmesh/router/server"
)

// expectationsFile lists for each endpoint who may call it; e2e/attack calls them all.
const expectationsFile = "e2e/attack/testdata/endpoints.txt"

// Each endpoint that a server answers has a line in the table of expectations by which
// e2e/attack calls it as nobody, another tenant, a reader and a writer, and no line is of an
// endpoint that is gone.
func TestEveryEndpointIsAttacked(t *testing.T) {
	text, err := os.ReadFile(expectationsFile)
	if err != nil {
		t.Fatal(err)
	}
	expected := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(line, "#") {
			continue
		}
		if len(fields) < 4 {
			t.Fatalf("%s: a line is PORT RIGHT METHODS PATH [QUERY]: %q", expectationsFile, line)
		}
		for method := range strings.SplitSeq(fields[2], ",") {
			expected[strings.Join([]string{fields[0], method, fields[3]}, " ")] = true
		}
	}
	registered := registeredEndpoints(t)
	for _, endpoint := range registered {
		if !expected[endpoint] {
			t.Errorf("%s is registered and has no line in %s", endpoint, expectationsFile)
		}
	}
	for endpoint := range expected {
		if !slices.Contains(registered, endpoint) {
			t.Errorf("%s has a line in %s and is not registered", endpoint, expectationsFile)
		}
	}
}

// An endpoint that needs a right to change something answers no GET, which any page makes a browser
// send. Profiles change nothing. What /query does with a GET that would change something is the
// attack's matter (phase pages).
func TestNoGETChangesAnything(t *testing.T) {
	text, err := os.ReadFile(expectationsFile)
	if err != nil {
		t.Fatal(err)
	}
	checked := 0
	for line := range strings.Lines(string(text)) {
		fields := strings.Fields(line)
		if len(fields) < 4 || fields[0] == "#" || !slices.Contains([]string{"http", "metrics", "node"}, fields[0]) ||
			!slices.Contains([]string{"write", "admin", "everything"}, fields[1]) || strings.HasPrefix(fields[3], "/debug/pprof/") {
			continue
		}
		checked++
		for method := range strings.SplitSeq(fields[2], ",") {
			if slices.Contains([]string{"ANY", "GET", "HEAD"}, method) {
				t.Errorf("%s answers %s", fields[3], method)
			}
		}
	}
	if checked < 10 {
		t.Errorf("%d endpoints that change something", checked)
	}
}

// registeredEndpoints lists what the ports of a server and of a node answer, with every flag
// on that adds an endpoint: PORT METHOD PATH, where the method is ANY if all are taken.
func registeredEndpoints(t *testing.T) []string {
	t.Helper()
	var s struct {
		server.Settings
		nodecommand.StorageFlags
		nodecommand.SeriesLimitFlags
	}
	f := pflag.NewFlagSet("endpoints", pflag.ContinueOnError)
	for _, part := range []interface{ Define(f *pflag.FlagSet) }{
		&s.Listeners, &s.StorageFlags, &s.SeriesLimitFlags, &s.WriteLimits, &s.QueryLimits, &s.RuleFlags, &s.Access, &s.PublicTLS, &s.Operation,
	} {
		part.Define(f)
	}
	s.DataDir, s.Admin, s.Pprof = t.TempDir(), true, true
	s.HTTPAddr, s.PutAddr, s.LineAddr, s.UDPAddr = "127.0.0.1:0", "", "", ""
	logger := slog.New(slog.DiscardHandler)
	n, err := node.Open(s.NodeOptions(nil, settings.ShardsDefault, &s.SeriesLimitFlags, nil, logger, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	ofHTTP, ofMetrics, ofGRPC, err := s.Endpoints(&server.Backend{
		Writer: n, Resolver: n, Source: n, Deleter: n, Shards: n.Sharding(), Compactor: n, Health: n.Health,
		Cluster: &member.Standalone{Node: n, DataDir: s.DataDir}, ClusterName: member.StandaloneName,
	}, logger)
	if err != nil {
		t.Fatal(err)
	}
	inside := grpc.NewServer()
	rpc.NewServer(nil, rpc.Options{}).Register(inside)
	all := slices.Concat(portEndpoints("http", ofHTTP), portEndpoints("metrics", ofMetrics), portEndpoints("node", nodecommand.Endpoints(n)), ofGRPC)
	for service, info := range inside.GetServiceInfo() {
		for _, method := range info.Methods {
			all = append(all, "rpc CALL /"+service+"/"+method.Name)
		}
	}
	return all
}

func portEndpoints(port string, patterns []string) (all []string) {
	for _, pattern := range patterns {
		if !strings.Contains(pattern, " ") {
			pattern = "ANY " + pattern
		}
		all = append(all, port+" "+pattern)
	}
	return all
}
