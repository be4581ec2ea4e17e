package main

import (
	"context"
	"log/slog"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/pflag"
	"google.golang.org/grpc"

	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/node/rpc"
	"github.com/tickmesh/tickmesh/router/api"
	"github.com/tickmesh/tickmesh/router/ingest"
)

// expectationsFile says of each endpoint who may call it; e2e/attack calls them all.
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

// registeredEndpoints lists what the ports of a server and of a node answer, with every flag
// on that adds an endpoint: PORT METHOD PATH, where the method is ANY if all are taken.
func registeredEndpoints(t *testing.T) []string {
	t.Helper()
	s := &standaloneSettings{}
	s.Define(pflag.NewFlagSet("endpoints", pflag.ContinueOnError))
	s.dataDir, s.Admin, s.Pprof = t.TempDir(), true, true
	s.httpAddr, s.putAddr, s.lineAddr, s.udpAddr = "127.0.0.1:0", "", "", ""
	logger := slog.New(slog.DiscardHandler)
	n, err := node.Open(s.nodeOptions(process.MemoryPlan{GenerationBytes: 64 << 20}, s.shards, &s.seriesLimitSettings, nil, logger, nil))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { n.Close() })
	b, registry := &backend{
		writer: n, resolver: n, source: n, deleter: n, shards: n.Sharding(), settler: n, health: n.Health,
		cluster: &lonelyCluster{node: n, dataDir: s.dataDir}, clusterName: lonelyName,
	}, process.NewRegistry()
	ready := &process.Readiness{Health: b.health}
	queries := s.newQueries(b, logger, registry)
	answers, err := queries.handler()
	if err != nil {
		t.Fatal(err)
	}
	front, err := ingest.New(s.ingestOptions(b, logger, registry, process.NewMux(process.MuxOptions{Own: answers, Registry: registry, Ready: ready, Settler: n, Admin: true, Pprof: true})))
	if err != nil {
		t.Fatal(err)
	}
	clients, err := api.New(s.apiOptions(b, queries, logger, registry))
	if err != nil {
		t.Fatal(err)
	}
	public, err := listenGRPC("127.0.0.1:0", 1, clients, nil)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { public.stop(context.Background()) })
	inside := grpc.NewServer()
	rpc.NewServer(nil, rpc.Options{}).Register(inside)
	all := portEndpoints("http", front.Endpoints())
	all = append(all, portEndpoints("node", process.NewMux(process.MuxOptions{Own: nodeRoot(), Registry: process.NewRegistry(), Ready: ready, Settler: n, Admin: true, Pprof: true}).Endpoints())...)
	all = append(all, grpcEndpoints("grpc", public.server)...)
	return append(all, grpcEndpoints("rpc", inside)...)
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

func grpcEndpoints(port string, server *grpc.Server) (all []string) {
	for service, info := range server.GetServiceInfo() {
		for _, method := range info.Methods {
			all = append(all, port+" CALL /"+service+"/"+method.Name)
		}
	}
	return all
}
