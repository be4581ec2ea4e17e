package read

import (
	"cmp"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// toldHours are the hours of a hourFilter that are whole and of which other things tell than their samples: a restore has brought
// them as a series.Hour, or a thinned file has their rollup beside the last sample and is not read as rollups there, since another
// file has other hours of about the same time.
type toldHours struct {
	reader *rollupReader
	emit   func([]segment.Rollup) error

	open   bool // an hour is gathered
	hourMs int64
	times  []int64
	values []float64
	one    [1]segment.Rollup
}

// begins reports whether an hour that begins with a sample may be told by other things.
func (t *toldHours) begins(hourMs, timeMs int64, value float64) bool {
	if _, marked := series.MarkedHour(timeMs, value); marked {
		return true
	}
	_, recorded := t.recorded(hourMs)
	return recorded
}

// recorded returns the rollup that thinned files have of an hour.
func (t *toldHours) recorded(hourMs int64) (segment.Rollup, bool) {
	list := t.reader.thinned
	at, found := slices.BinarySearchFunc(list, hourMs, func(r segment.Rollup, hourMs int64) int { return cmp.Compare(r.StartMs, hourMs) })
	if !found {
		return segment.Rollup{}, false
	}
	return list[at], true
}

// rollup returns what tells of the hour that was gathered. Not ok: its samples do.
func (t *toldHours) rollup() (r segment.Rollup, ok bool) {
	if h, ok := series.HourOfSamples(t.times, t.values); ok {
		return segment.Rollup{
			StartMs: h.StartMs, Count: h.Count, Min: h.Min, Max: h.Max, Sum: h.Sum,
			Ends: segment.Ends{First: h.First, Last: h.Last, FirstMs: h.StartMs, LastMs: h.TimeMs},
		}, true
	}
	r, ok = t.recorded(t.hourMs)
	return r, ok && r.Count > countNumbers(t.values)
}

func countNumbers(values []float64) (n int64) {
	for _, v := range values {
		if !math.IsNaN(v) {
			n++
		}
	}
	return n
}

// findThinned adds to rollup.thinned the hours of which thinned files have rollups where the range is read as samples.
func (r *Reader) findThinned(ref series.Ref, stones []*manifest.Tombstone, within segment.TimeRange) error {
	x := &r.rollup
	for _, i := range r.candidates(ref.Shard, within.FromMs, within.ToMs) {
		reader := r.Version.Segments[i]
		m := reader.Meta()
		if !m.Thinned {
			continue
		}
		hidden := manifest.HiddenInSegment(stones, m.SequenceHigh)
		fromMs, toMs := max(within.FromMs, floorTo(m.MinMs, segment.HourMs)), min(within.ToMs, m.MaxMs)
		for _, s := range x.clean {
			if s.ToMs <= fromMs || s.FromMs > toMs {
				continue
			}
			if err := r.appendThinned(reader, ref, hidden, fromMs, s.FromMs-1); err != nil {
				return err
			}
			fromMs = max(fromMs, s.ToMs)
		}
		if err := r.appendThinned(reader, ref, hidden, fromMs, toMs); err != nil {
			return err
		}
	}
	slices.SortFunc(x.thinned, func(a, b segment.Rollup) int {
		return cmp.Or(cmp.Compare(a.StartMs, b.StartMs), cmp.Compare(b.Count, a.Count))
	})
	x.thinned = slices.CompactFunc(x.thinned, func(a, b segment.Rollup) bool { return a.StartMs == b.StartMs })
	return nil
}

func (r *Reader) appendThinned(reader *segment.Reader, ref series.Ref, hidden []segment.TimeRange, fromMs, toMs int64) error {
	if fromMs > toMs {
		return nil
	}
	x := &r.rollup
	before := len(x.thinned)
	list, err := reader.Rollups(x.thinned, ref.Shard, uint32(ref.ID), floorTo(fromMs, segment.HourMs), toMs, segment.HourMs)
	if err == nil && len(list) > before {
		err = reader.HourEnds(list[before:], ref.Shard, uint32(ref.ID))
	}
	if err != nil {
		return err
	}
	kept := slices.DeleteFunc(list[before:], func(h segment.Rollup) bool {
		return slices.ContainsFunc(hidden, func(d segment.TimeRange) bool { return d.FromMs <= h.StartMs+segment.HourMs-1 && d.ToMs >= h.StartMs })
	})
	x.thinned = list[:before+len(kept)]
	return nil
}
