package target

import (
	"context"
	"strings"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// SinkName is what the command line calls Sink.
const SinkName = "sink"

// Sink is e2e/cmd/sink, a server that reads everything and stores nothing. What it costs, no server that is written with Go's
// package net can go below.
type Sink struct {
	Program string
}

// Name implements Target.
func (Sink) Name() string { return SinkName }

// Version implements Target.
func (Sink) Version(context.Context) (string, error) {
	return "e2e/cmd/sink, which stores nothing", nil
}

// Command implements Target.
func (s Sink) Command(_ string, addresses Addresses, _ int64) (harness.ProcessOptions, error) {
	streams := strings.Join([]string{addresses.Put, addresses.Line}, ",")
	return harness.ProcessOptions{Path: s.Program, Args: []string{"-http", addresses.HTTP, "-stream", streams}}, nil
}

// ReadyPath implements Target: each path is answered.
func (Sink) ReadyPath() string { return "/" }

// Prepare implements Target: there is nothing to prepare.
func (Sink) Prepare(context.Context, *Server) error { return nil }

// Speaks implements Target.
func (Sink) Speaks(Protocol) bool { return true }

// Fence implements Target: the server closes after the last line.
func (Sink) Fence(Protocol) string { return "" }

// Applied implements Target: the server closes a connection when it has read all of it.
func (Sink) Applied(context.Context, *Server, Protocol, int64) error { return nil }

// Publish implements Target.
func (Sink) Publish(context.Context, *Server) error { return nil }

// WritePath implements Target.
func (Sink) WritePath() string { return "/" }

// QueryPath implements Target.
func (Sink) QueryPath(Query) string { return "/" }

// Parse implements Target: there is no answer to a query.
func (Sink) Parse(Query, []byte) (Answer, error) { return Answer{}, ErrStoresNothing }

// Compact implements Target.
func (Sink) Compact(context.Context, *Server) error { return nil }

// SeriesMax implements Target.
func (Sink) SeriesMax() (int, string) { return 0, "" }
