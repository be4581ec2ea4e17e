package promql

import (
	"maps"
	"slices"
	"sync"
)

// Bounds of a Catalog. What is longer than a text's bound is cut.
const (
	catalogMetricsMax   = 50_000 // of all databases; later ones are not kept
	catalogTextBytesMax = 1024   // of a help; a name or unit beyond it is not kept at all
)

// Catalog remembers what writers have said of metrics, the latest for each, in the memory
// of one process: it knows nothing after a start until they say it again, as Prometheus
// does every minute, and knows what came through this process only. It is a Metadata, and
// a keeper for the ingest of remote writes. The zero value is ready.
type Catalog struct {
	mu      sync.RWMutex
	known   map[string]map[string]MetricMetadata // by database and metric
	metrics int
}

// KeepMetadata remembers what a writer says of a metric. It keeps none of the slices.
func (c *Catalog) KeepMetadata(database, metric []byte, kind string, help, unit []byte) {
	if len(metric) > catalogTextBytesMax || len(unit) > catalogTextBytesMax {
		return
	}
	help = help[:min(len(help), catalogTextBytesMax)]
	c.mu.RLock()
	m, found := c.known[string(database)][string(metric)]
	full := c.metrics >= catalogMetricsMax
	c.mu.RUnlock()
	if found && m.Type == kind && m.Help == string(help) && m.Unit == string(unit) || !found && full {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of := c.known[string(database)]
	if _, found := of[string(metric)]; !found {
		if c.metrics >= catalogMetricsMax {
			return
		}
		c.metrics++
	}
	if of == nil {
		if c.known == nil {
			c.known = map[string]map[string]MetricMetadata{}
		}
		of = map[string]MetricMetadata{}
		c.known[string(database)] = of
	}
	of[string(metric)] = MetricMetadata{Metric: string(metric), Type: kind, Help: string(help), Unit: string(unit)}
}

// Metadata implements Metadata, in the order of names.
func (c *Catalog) Metadata(database, metric string, limit int) []MetricMetadata {
	c.mu.RLock()
	defer c.mu.RUnlock()
	of := c.known[database]
	if metric != "" {
		if m, ok := of[metric]; ok {
			return []MetricMetadata{m}
		}
		return nil
	}
	names := slices.Sorted(maps.Keys(of))
	if limit > 0 && len(names) > limit {
		names = names[:limit]
	}
	list := make([]MetricMetadata, len(names))
	for i, name := range names {
		list[i] = of[name]
	}
	return list
}
