package memory

import (
	"log/slog"
	"math"
	"os"
	"runtime/debug"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// Plan is the Division of this process with the holders of its shares. It is a
// prometheus.Collector, and safe for concurrent use. A nil Plan bounds nothing.
type Plan struct {
	division Division
	metrics  descriptions

	mu   sync.Mutex
	held map[Share][]func() int64
}

// Options describe this process.
type Options struct {
	LimitBytes int64 // 0: follows from GOMEMLIMIT if the environment sets it, else all available memory
	Process
}

// Open divides the memory of this process, at most what the machine and the control groups allow,
// and sets the soft limit of Go's runtime, unless only the environment sets one (GOMEMLIMIT).
func Open(o Options) *Plan {
	limit, before := available(os.DirFS("/")), debug.SetMemoryLimit(-1)
	switch numerator, denominator := goPart(o.Role); {
	case o.LimitBytes > 0:
		limit = min(limit, o.LimitBytes)
	case before < math.MaxInt64/denominator:
		limit = min(limit, before/numerator*denominator)
	}
	p := Of(Divide(limit, o.Process))
	if o.LimitBytes > 0 || before == math.MaxInt64 {
		debug.SetMemoryLimit(p.division.GoBytes)
	}
	return p
}

// Of returns the Plan of a Division without changing the process, which is what tests need.
func Of(d Division) *Plan {
	return &Plan{division: d, metrics: newDescriptions(), held: map[Share][]func() int64{}}
}

// Bound returns the lesser of most and a share.
func (p *Plan) Bound(s Share, most int64) int64 {
	if p == nil {
		return most
	}
	return min(most, p.division.Bytes(s))
}

// NodeBound returns the lesser of most and one node's part of a share.
func (p *Plan) NodeBound(s Share, most int64) int64 {
	if p == nil {
		return most
	}
	return min(most, p.division.Bytes(s)/p.division.nodes)
}

// GenerationBytes returns the size of a generation of a node's page log, or 0 for its default.
func (p *Plan) GenerationBytes() int64 {
	if p == nil {
		return 0
	}
	return p.division.GenerationBytes
}

// Track adds a holder of a share to the metrics. held returns the bytes that it holds now.
func (p *Plan) Track(s Share, held func() int64) {
	if p == nil {
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.held[s] = append(p.held[s], held)
}

// Log logs the division in one line.
func (p *Plan) Log(logger *slog.Logger) {
	attributes := []any{
		"limit_bytes", p.division.LimitBytes, "go_limit_bytes", debug.SetMemoryLimit(-1),
		"page_log_generation_bytes", p.division.GenerationBytes,
	}
	for _, s := range allShares() {
		if n := p.division.Bytes(s); n > 0 {
			attributes = append(attributes, string(s)+"_bytes", n)
		}
	}
	logger.Info("memory", attributes...)
}

// descriptions are those of a Plan's metrics.
type descriptions struct{ limit, share, held *prometheus.Desc }

func newDescriptions() descriptions {
	return descriptions{
		limit: prometheus.NewDesc("tickmesh_memory_limit_bytes", "Memory that this process may use.", nil, nil),
		share: prometheus.NewDesc("tickmesh_memory_share_bytes", "Memory that one kind of holders may hold.", []string{"share"}, nil),
		held:  prometheus.NewDesc("tickmesh_memory_held_bytes", "Memory that one kind of holders holds.", []string{"share"}, nil),
	}
}

// Describe implements prometheus.Collector.
func (p *Plan) Describe(to chan<- *prometheus.Desc) {
	to <- p.metrics.limit
	to <- p.metrics.share
	to <- p.metrics.held
}

// Collect implements prometheus.Collector.
func (p *Plan) Collect(to chan<- prometheus.Metric) {
	to <- prometheus.MustNewConstMetric(p.metrics.limit, prometheus.GaugeValue, float64(p.division.LimitBytes))
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, s := range allShares() {
		if n := p.division.Bytes(s); n > 0 {
			to <- prometheus.MustNewConstMetric(p.metrics.share, prometheus.GaugeValue, float64(n), string(s))
		}
		if holders := p.held[s]; len(holders) > 0 {
			held := int64(0)
			for _, of := range holders {
				held += of()
			}
			to <- prometheus.MustNewConstMetric(p.metrics.held, prometheus.GaugeValue, float64(held), string(s))
		}
	}
}
