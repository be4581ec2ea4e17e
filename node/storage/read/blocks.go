package read

import (
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// cursorState is a segment's cursor that stands on a block.
type cursorState struct {
	cursor *segment.Cursor
	rank   int // of the segment in the order of writing
	block  segment.Block
	hidden []segment.TimeRange
}

func (c *cursorState) advance() (bool, error) {
	if !c.cursor.Next() {
		return false, c.cursor.Err()
	}
	c.block = c.cursor.Block()
	return true, nil
}

// cursor returns the cursor of a segment.
func (r *Reader) cursor(segmentAt int32) *segment.Cursor {
	c := r.cursors[segmentAt]
	if c == nil {
		if last := len(r.spare) - 1; last >= 0 {
			c, r.spare = r.spare[last], r.spare[:last]
		} else {
			c = &segment.Cursor{}
		}
		r.cursors[segmentAt] = c
	}
	return c
}

// findBlocks puts a cursor on the first block of each segment that has the series.
func (r *Reader) findBlocks(ref series.Ref, stones []*manifest.Tombstone, fromMs, toMs int64) error {
	if err := r.source.Lacks(r.Version, ref.Shard, segment.TimeRange{FromMs: fromMs, ToMs: toMs}); err != nil {
		return err
	}
	r.active = r.active[:0]
	for _, i := range r.candidates(ref.Shard, fromMs, toMs) {
		reader := r.Version.Segments[i]
		c := r.cursor(i)
		if err := reader.Find(c, ref.Shard, uint32(ref.ID), fromMs, toMs); err != nil {
			return err
		}
		state := cursorState{cursor: c, rank: int(i)}
		if len(stones) > 0 {
			state.hidden = manifest.HiddenInSegment(stones, reader.Meta().SequenceHigh)
		}
		if ok, err := state.advance(); err != nil {
			return err
		} else if ok {
			r.active = append(r.active, state)
		}
	}
	return nil
}
