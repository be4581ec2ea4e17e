package segment

import (
	"errors"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// carrier makes the day digests of a merge whose output is narrower than a day, and so has no rollups, from those of its inputs:
// a digest is a sum over samples, so that of the output is that of the inputs less what is dropped. Blocks are copied as they
// are stored then; their samples need not be decoded for it. It is a part of merger.
type carrier struct {
	on     bool
	day    dayDigest // of the series that is merged
	values []float64 // scratch
}

// carries reports whether the output's digests can be carried over.
func (o *MergeOptions) carries(inputs []*Reader) bool {
	if o.Rollups || floorTo(o.StartMs, DayMs) != floorTo(o.EndMs-1, DayMs) {
		return false
	}
	for _, r := range inputs {
		if !r.meta.DayDigests || r.meta.Thinned {
			return false
		}
	}
	return true
}

// begin adds up what the active inputs tell of a series. If digests of one of them are damaged the output has none: all else of it
// is whole.
func (c *carrier) begin(m *merger, id uint32) error {
	c.day = dayDigest{startMs: floorTo(m.o.StartMs, DayMs)}
	if !c.on {
		return nil
	}
	for _, in := range m.active {
		err := in.addDayDigest(&c.day, id)
		var corrupt *CorruptError
		if errors.As(err, &corrupt) && corrupt.Part == PartDayDigests {
			c.on, m.o.Digests = false, false
			if m.w != nil {
				m.w.meta.DayDigests = false
			}
			return nil
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// drop takes samples out.
func (c *carrier) drop(gone *codec.Columns) {
	if !c.on {
		return
	}
	c.values = c.values[:0]
	for i, m := range gone.Mantissas {
		c.values = append(c.values, series.Float64(m, gone.Scales[i]))
	}
	c.day.samples -= int64(gone.Len())
	c.day.sum -= scan.DigestSamples(gone.Times, c.values)
}

// end gives the digest of the series to the section that has it.
func (c *carrier) end(m *merger) {
	if c.on && c.day.samples > 0 && m.w != nil && m.w.section.open {
		m.w.section.rollups.digests = append(m.w.section.rollups.digests, c.day)
	}
}

// sumDigests adds up the digests that the inputs have for a shard.
func (m *merger) sumDigests(shard uint16) {
	m.digest = 0
	for i := range m.inputs {
		if in := &m.inputs[i]; !in.done && in.shard == shard {
			m.digest += in.reader.shards[in.shardAt].Digest
		}
	}
}

// drop takes the first n samples out of the digest.
func (m *merger) drop(id uint32, c *codec.Columns, n int) {
	gone := columnsBetween(c, 0, n)
	m.digest -= digestColumns(id, &gone)
	m.carrier.drop(&gone)
}
