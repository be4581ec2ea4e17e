package promql

import (
	"bytes"
	"slices"
	"unsafe"

	"github.com/prometheus/prometheus/model/labels"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/steps"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/slab"
)

// collector receives the chunks of one visitor and makes columns of them.
type collector struct {
	entry *admission.Entry
	grid  grid
	thin  bool // by the grid

	ranged *rangedCall         // whose values come; nil: samples
	newest *steps.Deduplicator // of samples; nil: all count

	key    series.Key // of the series that is being visited; empty before the first
	times  []int64    // its samples so far
	values []float64
	next   int64 // state of the grid
	held   int64 // bytes taken for the slices above

	full    [][]column // blocks
	columns []column   // the last one
	naming  naming
	stamps  slab.Slab[int64]
	numbers slab.Slab[float64]
}

// columnBytes is what a column takes beside its samples and the text of its labels: itself,
// its rank, and the engine's reference.
const columnBytes = 64 + 2*16 + 16

// A block of columns grows no more: the next one is larger.
const (
	blockColumnsMin = 4
	blockColumnsMax = 1 << 12
)

// runs returns the columns.
func (c *collector) runs() [][]column {
	if len(c.columns) == 0 {
		return c.full
	}
	return append(c.full, c.columns)
}

// visit takes one chunk.
func (c *collector) visit(chunk *scan.Chunk) error {
	if !bytes.Equal(c.key, chunk.Key) {
		if err := c.finish(); err != nil {
			return err
		}
		c.key = append(c.key[:0], chunk.Key...)
	}
	if c.newest != nil {
		return c.add(c.newest.Add(chunk.Times, chunk.Values))
	}
	return c.add(chunk.Times, chunk.Values)
}

// add takes samples that count, or values of the call.
func (c *collector) add(times []int64, values []float64) error {
	switch {
	case c.ranged != nil:
		for _, t := range times {
			c.times = append(c.times, t+c.ranged.offsetMs)
		}
		c.values = append(c.values, values...)
	case c.thin:
		if len(c.times) == 0 {
			c.times, c.values = slices.Grow(c.times, len(times)), slices.Grow(c.values, len(times))
		}
		c.times, c.values = c.grid.thin(c.times, c.values, &c.next, times, values)
	default:
		c.times, c.values = append(c.times, times...), append(c.values, values...)
	}
	held := int64(8 * (cap(c.times) + cap(c.values)))
	if c.newest != nil {
		held += int64(c.newest.Bytes())
	}
	if held != c.held {
		grown := held - c.held
		c.held = held
		return c.entry.Take(grown)
	}
	return nil
}

// finish makes a column of the series that has been visited, if any.
func (c *collector) finish() error {
	var err error
	if c.newest != nil {
		err = c.add(c.newest.End())
	}
	if err == nil && len(c.key) > 0 && len(c.times) > 0 {
		err = c.keep(c.key, c.times, c.values)
	}
	c.key, c.times, c.values, c.next = c.key[:0], c.times[:0], c.values[:0], 0
	return err
}

// keep copies a series to where it stays.
func (c *collector) keep(key series.Key, times []int64, values []float64) error {
	named, err := c.naming.labels(key)
	if err != nil {
		return err
	}
	if c.ranged != nil {
		named = c.ranged.labels(named)
	}
	kept := column{labels: named}
	var grownTimes, grownValues int
	kept.values, grownValues = c.numbers.Take(len(values))
	copy(kept.values, values)
	if n := len(c.columns); n > 0 && slices.Equal(c.columns[n-1].times, times) {
		kept.times = c.columns[n-1].times
	} else {
		kept.times, grownTimes = c.stamps.Take(len(times))
		copy(kept.times, times)
	}
	if len(c.columns) == cap(c.columns) {
		if len(c.columns) > 0 {
			c.full = append(c.full, c.columns)
		}
		c.columns = make([]column, 0, min(max(2*cap(c.columns), blockColumnsMin), blockColumnsMax))
	}
	c.columns = append(c.columns, kept)
	return c.entry.Take(int64(8*grownTimes+8*grownValues) + int64(named.ByteSize()) + columnBytes)
}

// naming turns keys into labels.
type naming struct {
	tags    []series.Tag
	builder labels.ScratchBuilder
	lossy   bool // a key had a tag that may be lost: others may have the same labels
}

// labels returns the labels of a key. Tags are in order in a key; the metric goes to its
// place among them. Tags that are empty are absent in Prometheus; one called __name__,
// which other dialects may write, gives way to the metric.
func (n *naming) labels(key series.Key) (labels.Labels, error) {
	_, metric, tags, err := key.Parts(n.tags[:0])
	n.tags = tags
	if err != nil {
		return labels.EmptyLabels(), err
	}
	n.builder.Reset()
	n.builder.SetUnsafeAdd(true)
	named := false
	for _, tag := range tags {
		if !named && string(tag.Name) >= nameLabel {
			n.builder.Add(nameLabel, lent(metric))
			named = true
		}
		if len(tag.Value) > 0 && string(tag.Name) != nameLabel {
			n.builder.Add(lent(tag.Name), lent(tag.Value))
		}
		n.lossy = n.lossy || len(tag.Value) == 0 || bytes.HasPrefix(tag.Name, reservedPrefix)
	}
	if !named {
		n.builder.Add(nameLabel, lent(metric))
	}
	return n.builder.Labels(), nil
}

// reservedPrefix is what the names of labels have that functions drop.
//
//nolint:gochecknoglobals // a constant
var reservedPrefix = []byte("__")

// lent returns bytes as a string that is read, and copied, before they change.
func lent(b []byte) string { return unsafe.String(unsafe.SliceData(b), len(b)) }
