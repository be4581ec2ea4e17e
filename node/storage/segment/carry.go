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

// addDayDigest adds what the input tells of the series, which comes after those that were asked for before.
func (in *input) addDayDigest(day *dayDigest, id uint32) error {
	w := &in.days
	if w.reader != in.reader || w.shardAt != in.shardAt {
		*w = dayDigestWalker{reader: in.reader, shardAt: in.shardAt, ids: w.ids[:0], days: w.days[:0]}
	}
	for len(w.ids) == 0 || w.ids[w.at] < id {
		ok, err := w.next()
		if err != nil {
			return err
		}
		if !ok {
			break
		}
	}
	if len(w.ids) == 0 || w.ids[w.at] != id {
		return &CorruptError{File: in.reader.name, Part: PartDayDigests, Shard: in.shard, ID: id, Reason: "no digest of a day"}
	}
	day.samples += w.days[w.at].samples
	day.sum += w.days[w.at].sum
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
