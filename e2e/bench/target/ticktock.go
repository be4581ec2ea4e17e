package target

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/tickmesh/tickmesh/e2e/harness"
)

// TickTock is the server that is built from TickTock's sources, asked through OpenTSDB's
// query language.
type TickTock struct {
	Program string
	Built   string // its version; "": that of the file
}

// Name implements Target.
func (TickTock) Name() string { return "ticktock" }

// Version implements Target: the program tells it only when it starts.
func (t TickTock) Version(context.Context) (string, error) {
	return builtVersion(t.Program, t.Built, "ticktock")
}

// tickTockConfig leaves the server's defaults, its log of appends among them, but for where
// it listens and keeps its data.
const tickTockConfig = `ticktock.home = %s
http.server.port = %s
tcp.server.port = %s,%s
udp.server.enabled = false
log.level = WARN
`

// Command implements Target: it writes a configuration file beside the data.
func (t TickTock) Command(dir string, addresses Addresses, _ int64) (harness.ProcessOptions, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return harness.ProcessOptions{}, err
	}
	var ports []any
	for _, address := range []string{addresses.HTTP, addresses.Put, addresses.Line} {
		_, port, err := net.SplitHostPort(address)
		if err != nil {
			return harness.ProcessOptions{}, err
		}
		ports = append(ports, port)
	}
	parent := filepath.Dir(dir)
	path := filepath.Join(parent, "ticktock.conf")
	if err := os.WriteFile(path, fmt.Appendf(nil, tickTockConfig, append([]any{dir}, ports...)...), 0o644); err != nil {
		return harness.ProcessOptions{}, err
	}
	return harness.ProcessOptions{Path: t.Program, Args: []string{"-q", "-c", path, "-p", filepath.Join(parent, "pid")}, Dir: parent}, nil
}

// ReadyPath implements Target.
func (TickTock) ReadyPath() string { return "/api/version" }

// Prepare implements Target: there is nothing to prepare.
func (TickTock) Prepare(context.Context, *Server) error { return nil }

// Speaks implements Target.
func (TickTock) Speaks(Protocol) bool { return true }

// Fence implements Target: the server closes after the last line.
func (TickTock) Fence(Protocol) string { return "" }

// Applied implements Target: the server closes a connection when its points are in.
func (TickTock) Applied(context.Context, *Server, Protocol, int64) error { return nil }

// Publish implements Target: what is applied is visible.
func (TickTock) Publish(context.Context, *Server) error { return nil }

// WritePath implements Target: times are seconds by the server's configuration.
func (TickTock) WritePath() string { return "/api/write" }

// QueryPath implements Target.
func (TickTock) QueryPath(q Query) string {
	function := map[Kind]string{Point: "none", Raw: "none", Mean: "none", Minutes: "avg:1m-avg", EachMinutes: "none:1m-avg", Count: "sum:1h-count"}[q.Kind]
	if q.Kind == Count { // a window that is cut has no value
		switch {
		case q.FromS%60 != 0 || q.ToS%60 != 0:
			function = "sum:1s-count"
		case q.FromS%3600 != 0 || q.ToS%3600 != 0:
			function = "sum:1m-count"
		}
	}
	to := q.ToS - 1
	if q.Kind == Point {
		to = q.FromS
	}
	return fmt.Sprintf("/api/query?start=%d&end=%d&m=%s", q.FromS, to, openTSDBSelector(q, function))
}

// Parse implements Target.
func (TickTock) Parse(q Query, body []byte) (Answer, error) {
	var results []struct {
		DPS map[string]float64 `json:"dps"`
	}
	if err := json.Unmarshal(body, &results); err != nil {
		return Answer{}, fmt.Errorf("%w in %.200q", err, body)
	}
	var values []float64
	for _, result := range results {
		for _, value := range result.DPS {
			values = append(values, value)
		}
	}
	answer := answerOf(q.Kind, values)
	switch q.Kind {
	case Mean:
		answer.Points = min(answer.Points, 1) // the mean of all samples, which the server does not make
	case Count:
		answer.Points = 1 // of windows, which are summed
	case Point, Raw, Minutes, EachMinutes:
	}
	return answer, nil
}

// Compact implements Target: there is no way to ask for it.
func (TickTock) Compact(context.Context, *Server) error { return nil }

// SeriesMax implements Target.
func (TickTock) SeriesMax() (int, string) { return 0, "" }

// builtVersion describes a program that was built from its sources by its file: "ticktock, built 2026-11-22".
// What is known of it already goes before that.
func builtVersion(program, known, name string) (string, error) {
	info, err := os.Stat(program)
	if err != nil {
		return "", fmt.Errorf("%w: %s", ErrNotInstalled, strconv.Quote(program))
	}
	if known != "" {
		return known, nil
	}
	return name + ", built from its sources on " + info.ModTime().UTC().Format("2006-01-02"), nil
}
