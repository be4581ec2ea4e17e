package server

import (
	"context"
	"log/slog"
	"net"
	"net/http"

	"github.com/tickmesh/tickmesh/api/origin"
	"github.com/tickmesh/tickmesh/api/process"
	"github.com/tickmesh/tickmesh/api/settings"
)

// metricsPort serves metrics and health alone, so that whoever watches a server needs no way to the
// port for clients. Its methods do nothing on nil, which stands for no port.
type metricsPort struct {
	listener net.Listener
	server   *process.HTTPServer
	cancel   context.CancelFunc
}

// serveMetrics listens at --metrics-addr until close, also while the server drains.
func (s *Settings) serveMetrics(ctx context.Context, handler http.Handler, pages *origin.Policy, trail *process.AuditLog, secure settings.ServerTLS, logger *slog.Logger) (*metricsPort, error) {
	if s.MetricsAddr == "" {
		return nil, nil
	}
	listener, err := net.Listen("tcp", string(s.MetricsAddr))
	if err != nil {
		return nil, err
	}
	p := &metricsPort{listener: listener}
	ctx, p.cancel = context.WithCancel(context.WithoutCancel(ctx))
	p.server = process.ServeHTTP(ctx, listener, secure.Config, trail.Handler(pages.Handler(handler)), logger)
	logger.Info("listening", "port", "metrics", "address", listener.Addr().String())
	go func() {
		select {
		case err := <-p.server.Failed():
			logger.Error("metrics are served no more", "error", err)
		case <-ctx.Done():
		}
	}()
	return p, nil
}

func (p *metricsPort) address() net.Addr {
	if p == nil {
		return nil
	}
	return p.listener.Addr()
}

func (p *metricsPort) close() {
	if p != nil {
		p.cancel()
		_ = p.server.Close() // a scrape that does not end is nobody's loss
	}
}
