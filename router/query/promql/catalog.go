package promql

import (
	"maps"
	"slices"
	"sync"
)

// Bounds of a Catalog. What is longer than a text's bound is cut.
const (
	catalogMetricsMax   = 50_000 // of all databases
	catalogDatabaseMax  = 10_000 // metrics of one database; later ones are not kept
	catalogDatabasesMax = 4096   // with metadata; later ones are not kept
	catalogTextBytesMax = 1024   // of a help; a name or unit beyond it is not kept at all
)

// Catalog remembers what writers have said of metrics, the latest for each, in the memory
// of one process: it knows nothing after a start until they say it again, as Prometheus
// does every minute, and knows what came through this process only. When it is full, a
// database that has less than others takes the place of a metric of the one that has most,
// so that no database can keep the others out. It is a Metadata, and a keeper for the
// ingest of remote writes. The zero value is ready.
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
	of := c.known[string(database)]
	m, found := of[string(metric)]
	room := len(of) < catalogDatabaseMax && (c.metrics < catalogMetricsMax || len(of) <= catalogMetricsMax/len(c.known))
	c.mu.RUnlock()
	if found && m.Type == kind && m.Help == string(help) && m.Unit == string(unit) || !found && !room {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	of = c.known[string(database)]
	if _, found := of[string(metric)]; !found && !c.makeRoomLocked(len(of)) {
		return
	}
	if of == nil {
		if c.known == nil {
			c.known = map[string]map[string]MetricMetadata{}
		}
		of = map[string]MetricMetadata{}
		c.known[string(database)] = of
	}
	before := len(of)
	of[string(metric)] = MetricMetadata{Metric: string(metric), Type: kind, Help: string(help), Unit: string(unit)}
	c.metrics += len(of) - before
}

// makeRoomLocked reports whether a database that has so many metrics may have one more, and
// makes room for it at the cost of the database that has most.
func (c *Catalog) makeRoomLocked(has int) bool {
	switch {
	case has >= catalogDatabaseMax || has == 0 && len(c.known) >= catalogDatabasesMax:
		return false
	case c.metrics < catalogMetricsMax:
		return true
	}
	var largest map[string]MetricMetadata
	for _, of := range c.known {
		if len(of) > len(largest) {
			largest = of
		}
	}
	if len(largest) <= has+1 {
		return false
	}
	for metric := range largest {
		delete(largest, metric)
		c.metrics--
		return true
	}
	return false
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
