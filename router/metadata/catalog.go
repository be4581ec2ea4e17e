package metadata

import (
	"bytes"
	"maps"
	"slices"
	"sync"
	"time"
	"unicode/utf8"
)

// Bounds of a Catalog. What is longer than a text's bound is cut.
const (
	bytesMax           = 8 << 20   // of all databases
	databaseBytesMax   = 768 << 10 // of one database; later metrics are not kept
	databaseMetricsMax = 10_000    // metrics of one database; the same
	databasesMax       = 4096      // with metadata; later ones are not kept
	textBytesMax       = 1024      // of a help; a name or unit beyond it is not kept at all
	metricBytes        = 64        // what a metric takes beside its texts
)

const (
	// changeEvery is how long what a metric means stays once it has changed: of two versions of a program that say
	// different things every minute, each is answered for so long.
	changeEvery = time.Hour
	// unheardDays is how long what nobody says any more is remembered.
	unheardDays = 30
)

// Description is what a metric means.
type Description struct {
	Metric string
	Type   string // counter, gauge, histogram, summary, … as in OpenMetrics
	Help   string
	Unit   string
}

// Catalog remembers what writers have said of metrics, as all routers of a cluster do once it runs (Run): the latest for each, but
// no second change within changeEvery. When it is full, a database that has less than others takes the place of
// metrics of the one that has most, so that no database can keep the others out. It answers a promql.Metadata, and is a keeper for
// the ingest of remote writes. The zero value is ready, and forgets all when the process ends.
type Catalog struct {
	counts counts

	mu    sync.RWMutex
	known map[string]*databaseMetrics
	bytes int
	now   time.Time // of the last round; zero: it does not run, and nothing is forgotten
}

// databaseMetrics is what is known of the metrics of one database.
type databaseMetrics struct {
	metrics  map[string]heardMetric
	bytes    int
	revision int64 // of the record in the store; 0: none is known
	changed  bool  // there is what the record has not
}

// heardMetric is what is known of one metric.
type heardMetric struct {
	Description
	day       int64     // since 1970, when it was heard last; 0: it is not known
	changedAt time.Time // zero: it was never another
	unsaved   bool      // the record has not this
}

// bytes returns about what a metric takes.
func (m *Description) bytes() int {
	return metricBytes + len(m.Metric) + len(m.Type) + len(m.Help) + len(m.Unit)
}

// dayOf returns the day of a time, since 1970.
func dayOf(t time.Time) int64 { return t.Unix() / int64((24 * time.Hour).Seconds()) }

// KeepMetadata remembers what a writer says of a metric. It keeps none of the slices.
func (c *Catalog) KeepMetadata(database, metric []byte, kind string, help, unit []byte) {
	if len(metric) > textBytesMax || len(unit) > textBytesMax || !utf8.Valid(metric) || !utf8.Valid(unit) {
		return
	}
	if help = help[:min(len(help), textBytesMax)]; !utf8.Valid(help) { // the cut may be in the middle of a rune
		help = bytes.ToValidUTF8(help, nil)
	}
	if c.heard(database, metric, kind, help, unit) {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	m := heardMetric{Description: Description{Metric: string(metric), Type: kind, Help: string(help), Unit: string(unit)}, unsaved: true}
	if !c.now.IsZero() {
		m.day = dayOf(c.now)
	}
	d := c.known[string(database)]
	before := heardMetric{}
	if d != nil {
		before = d.metrics[m.Metric]
	}
	if before.Metric != "" {
		m.changedAt = before.changedAt
		if before.Description != m.Description {
			m.changedAt = c.now
		}
	}
	if !c.makeRoomLocked(d, before, m.bytes()) {
		c.counts.leftOut.Add(1)
		return
	}
	if d == nil {
		if c.known == nil {
			c.known = map[string]*databaseMetrics{}
		}
		d = &databaseMetrics{metrics: map[string]heardMetric{}}
		c.known[string(database)] = d
	}
	c.putLocked(d, m)
	d.changed = true
}

// heard reports whether nothing follows from what a writer says: it is known, or may not be kept.
func (c *Catalog) heard(database, metric []byte, kind string, help, unit []byte) bool {
	c.mu.RLock()
	defer c.mu.RUnlock()
	d := c.known[string(database)]
	if d == nil {
		return c.full(len(c.known) >= databasesMax)
	}
	m, found := d.metrics[string(metric)]
	switch {
	case !found:
		return c.full(len(d.metrics) >= databaseMetricsMax)
	case m.Type == kind && m.Help == string(help) && m.Unit == string(unit):
		return c.now.IsZero() || m.day == dayOf(c.now)
	}
	return !m.changedAt.IsZero() && c.now.Sub(m.changedAt) < changeEvery
}

// full returns whether there is no room, and counts what is left out therefore.
func (c *Catalog) full(full bool) bool {
	if full {
		c.counts.leftOut.Add(1)
	}
	return full
}

// putLocked puts a metric in the place of what was known of it.
func (c *Catalog) putLocked(d *databaseMetrics, m heardMetric) {
	c.dropLocked(d, m.Metric)
	d.metrics[m.Metric] = m
	d.bytes += m.bytes()
	c.bytes += m.bytes()
}

func (c *Catalog) dropLocked(d *databaseMetrics, metric string) {
	if m, found := d.metrics[metric]; found {
		delete(d.metrics, metric)
		d.bytes -= m.bytes()
		c.bytes -= m.bytes()
	}
}

// makeRoomLocked reports whether a database, nil for a new one, may have a metric of so many bytes in the place of what it had
// before, if anything, and makes room for it at the cost of the databases that have most.
func (c *Catalog) makeRoomLocked(d *databaseMetrics, before heardMetric, size int) bool {
	had, metrics := 0, 0
	if d != nil {
		had, metrics = d.bytes, len(d.metrics)
	}
	more := size
	if before.Metric != "" {
		more -= before.bytes()
		metrics--
	}
	if metrics >= databaseMetricsMax || had+more > databaseBytesMax || d == nil && len(c.known) >= databasesMax {
		return false
	}
	for c.bytes+more > bytesMax {
		var largest *databaseMetrics
		for _, other := range c.known {
			if largest == nil || other.bytes > largest.bytes {
				largest = other
			}
		}
		if largest == nil || largest == d || largest.bytes <= had+more {
			return false
		}
		for metric := range largest.metrics {
			c.dropLocked(largest, metric)
			largest.changed = true
			break
		}
	}
	return true
}

// Metadata returns what is known of one metric of a database, or with an empty name of all, at most limit (0: all), in the order
// of names.
func (c *Catalog) Metadata(database, metric string, limit int) []Description {
	c.mu.RLock()
	defer c.mu.RUnlock()
	d := c.known[database]
	if d == nil {
		return nil
	}
	if metric != "" {
		if m, ok := d.metrics[metric]; ok {
			return []Description{m.Description}
		}
		return nil
	}
	names := slices.Sorted(maps.Keys(d.metrics))
	if limit > 0 && len(names) > limit {
		names = names[:limit]
	}
	list := make([]Description, len(names))
	for i, name := range names {
		list[i] = d.metrics[name].Description
	}
	return list
}
