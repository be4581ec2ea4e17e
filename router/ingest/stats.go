package ingest

import (
	"fmt"
	"strings"
)

// Stat is one of OpenTSDB's statistics about the server itself, as `stats` and
// /api/stats give it.
type Stat struct {
	Metric string // "tsd.rpc.received"
	Value  int64
	Tag    string // "type=put"
}

// Stats returns the counters under OpenTSDB's names, where it has one.
func (s *Server) Stats() []Stat {
	m := s.metrics
	put, http := &m.protocols[protocolPutHTTP], int64(0)
	for code := range m.codes {
		http += m.codes[code].Load()
	}
	stats := []Stat{
		{"tsd.rpc.received", http, "type=http"},
		{"tsd.rpc.received", m.protocols[protocolPutTCP].accepted.Load() + m.protocols[protocolPutTCP].refused.Load(), "type=telnet"},
		{"tsd.rpc.received", put.accepted.Load() + put.refused.Load() + put.failed.Load(), "type=put"},
		{"tsd.rpc.errors", m.sum(func(p *protocolMetrics) int64 { return p.refused.Load() }), "type=illegal_arguments"},
		{"tsd.rpc.errors", m.sum(func(p *protocolMetrics) int64 { return p.failed.Load() }), "type=write_failed"},
		{"tsd.rpc.errors", m.drops[dropReply].Load(), "type=socket_writes_blocked"},
		{"tsd.datapoints.added", m.sum(func(p *protocolMetrics) int64 { return p.accepted.Load() }), "type=all"},
	}
	for p := range portUDP {
		pm := &m.ports[p]
		stats = append(stats,
			Stat{"tsd.connectionmgr.connections", pm.open.Load(), "type=open port=" + portNames[p]},
			Stat{"tsd.connectionmgr.connections", pm.accepted.Load(), "type=total port=" + portNames[p]},
			Stat{"tsd.connectionmgr.connections", pm.refused.Load(), "type=rejected port=" + portNames[p]})
	}
	return stats
}

func (m *metrics) sum(of func(*protocolMetrics) int64) (total int64) {
	for p := range protocols {
		total += of(&m.protocols[p])
	}
	return total
}

// statLines words the statistics as put lines without the word put.
func (s *Server) statLines() string {
	var b strings.Builder
	seconds := s.options.Clock().Unix()
	for _, stat := range s.Stats() {
		fmt.Fprintf(&b, "%s %d %d %s host=%s\n", stat.Metric, seconds, stat.Value, stat.Tag, s.host)
	}
	return b.String()
}
