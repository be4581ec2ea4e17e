package segment

import (
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// markedHour is the open hour, where its samples are those of a series.Hour. They may come in several parts.
type markedHour struct {
	known  bool
	times  []int64
	values []float64
}

// foldMarked takes the first n samples of c, all of the open hour, if that is one whose samples are those of a series.Hour. Nobody
// else writes such samples: see storage.unmarked.
func (b *rollupBuilder) foldMarked(c *codec.Columns, n int, thinned bool) bool {
	m := &b.marked
	if !m.known {
		if c.Scales[0] != series.ScaleFloat {
			return false
		}
		if _, m.known = series.MarkedHour(c.Times[0], series.Float64(c.Mantissas[0], c.Scales[0])); !m.known {
			return false
		}
		m.times, m.values = m.times[:0], m.values[:0]
	}
	b.setValues(c, n)
	m.times, m.values = append(m.times, c.Times[:n]...), append(m.values, b.values...)
	if !thinned {
		b.digest.samples += int64(n)
		b.digest.sum += scan.DigestSamples(c.Times[:n], b.values)
	}
	if h, ok := series.HourOfSamples(m.times, m.values); ok {
		r := recordOfHour(&h)
		b.foldRecord(&r)
	}
	return true
}

// recordOfHour returns the record of an hour. When its first sample was is not known, only that there were some before the last one.
func recordOfHour(h *series.Hour) rollupRecord {
	r := rollupRecord{
		startMs: h.StartMs, count: h.Count, scanSum: h.Sum,
		min: series.DecimalOf(h.Min, 0), max: series.DecimalOf(h.Max, 0), sum: series.FloatNumber(h.Sum),
	}
	r.first, r.firstMs = series.DecimalOf(h.First, 0), h.StartMs
	r.last, r.lastMs = series.DecimalOf(h.Last, 0), h.TimeMs
	return r
}
