package main

import (
	"context"

	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"strings"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus/promhttp"
	"google.golang.org/grpc"
	"google.golang.org/grpc/health"
	healthpb "google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/reflection"

	"github.com/tickmesh/tickmesh/node"
	"github.com/tickmesh/tickmesh/router/ingest"
)

// mux routes what is not a write.
type mux = http.ServeMux

func newMux(queries http.Handler, r *registry, ready *readiness, withProfiles bool) *mux {
	m := http.NewServeMux()
	m.Handle("/api/", queries)
	m.Handle("GET /metrics", promhttp.HandlerFor(r, promhttp.HandlerOpts{Registry: r}))
	m.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprintln(w, "ok") })
	m.HandleFunc("GET /readyz", ready.serve)
	m.HandleFunc("GET /{$}", func(w http.ResponseWriter, _ *http.Request) {
		fmt.Fprintln(w, "TickMesh: /api/put /write /api/v1/write take points, /api/query answers, /metrics and /readyz tell how it is.")
	})
	if withProfiles {
		m.HandleFunc("/debug/pprof/", pprof.Index)
		m.HandleFunc("/debug/pprof/cmdline", pprof.Cmdline)
		m.HandleFunc("/debug/pprof/profile", pprof.Profile)
		m.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		m.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	m.Handle("/", queries) // answers 404 in OpenTSDB's shape
	return m
}

// readiness says whether writes are taken.
type readiness struct {
	node    *node.Node
	serving atomic.Bool
}

func (r *readiness) set(serving bool) { r.serving.Store(serving) }

func (r *readiness) serve(w http.ResponseWriter, _ *http.Request) {
	if !r.serving.Load() {
		http.Error(w, "not ready: starting or stopping", http.StatusServiceUnavailable)
		return
	}
	if err := r.node.Health(); err != nil {
		http.Error(w, "not ready: "+err.Error(), http.StatusServiceUnavailable)
		return
	}
	fmt.Fprintln(w, "ready")
}

// grpcServer serves the standard health service and reflection.
type grpcServer struct {
	server *grpc.Server
	health *health.Server
}

func startGRPC(address string) (*grpcServer, error) {
	if address == "" {
		return nil, nil //nolint:nilnil // no listener: stop of nil does nothing
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("--grpc-addr: %w", err)
	}
	g := &grpcServer{server: grpc.NewServer(), health: health.NewServer()}
	healthpb.RegisterHealthServer(g.server, g.health)
	reflection.Register(g.server)
	go g.server.Serve(listener) //nolint:errcheck // it ends with stop
	return g, nil
}

func (g *grpcServer) stop(ctx context.Context) {
	if g == nil {
		return
	}
	g.health.Shutdown()
	done := make(chan struct{})
	go func() { g.server.GracefulStop(); close(done) }()
	select {
	case <-done:
	case <-ctx.Done():
		g.server.Stop()
	}
}

func newLogger(w io.Writer, format, level string) *slog.Logger {
	var least slog.Level
	_ = least.UnmarshalText([]byte(level)) // the flag takes only its words
	options := &slog.HandlerOptions{Level: least}
	if format == "json" {
		return slog.New(slog.NewJSONHandler(w, options))
	}
	return slog.New(slog.NewTextHandler(w, options))
}

// writeGreeting says what to send where.
func writeGreeting(w io.Writer, s *standaloneSettings, server *ingest.Server) {
	addresses := server.Addresses()
	fmt.Fprintf(w, "TickMesh %s keeps its data in %s\n\n", programVersion, s.dataDir)
	line := func(address net.Addr, format string) {
		if address != nil {
			fmt.Fprintf(w, format+"\n", local(address.String()))
		}
	}
	line(addresses.HTTP, `  write  curl -d 'cpu,host=a value=0.64' 'http://%s/write'                  InfluxDB line protocol`)
	line(addresses.HTTP, `         curl -d '{"metric":"cpu","timestamp":1700000000,"value":1,"tags":{"host":"a"}}' 'http://%s/api/put'`)
	line(addresses.HTTP, `         http://%s/api/v1/write                                             Prometheus remote write`)
	line(addresses.Put, `         put cpu 1700000000 0.64 host=a     to TCP %s                          OpenTSDB`)
	line(addresses.Line, `         cpu,host=a value=0.64              to TCP %s                          InfluxDB line protocol`)
	line(addresses.UDP, `         lines                              to UDP %s`)
	line(addresses.HTTP, `  read   curl 'http://%s/api/query?start=1h-ago&m=avg:cpu'`)
	line(addresses.HTTP, `  look   http://%s/metrics   /readyz   /healthz`)
	fmt.Fprintln(w, "\nStop with Ctrl-C or SIGTERM.")
}

// local makes an address that listens everywhere one that can be typed.
func local(address string) string {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return address
	}
	if ip := net.ParseIP(strings.Trim(host, "[]")); ip == nil || ip.IsUnspecified() {
		return net.JoinHostPort("localhost", port)
	}
	return address
}
