package read

import (
	"errors"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// clusterPointsMax bounds the points that are decoded at once where blocks overlap
// in long chains, but for one block of each segment.
const clusterPointsMax = 32 << 10

// cluster holds decoded blocks that overlap in time, directly or through others, or
// the first part of such a chain.
type cluster struct {
	blocks       []blockPoints // in the order of writing
	points       int           // in all
	fromMs, toMs int64
	endMs        int64 // blocks that are not decoded yet may have times from here on
}

// blockPoints are the points of one block that have not been emitted yet.
type blockPoints struct {
	rank   int // of the segment in the order of writing
	at     int // those before are done
	points codec.Points
}

// mergeSources walks blocks and overlay in time order. Blocks that overlap in time
// form a cluster, which is merged in the order of writing; a block on its own goes
// straight through.
func (r *Reader) mergeSources(within segment.TimeRange, emit func([]int64, []float64) error) error {
	overlay := r.overlay
	c := &r.cluster
	c.blocks, c.points = c.blocks[:0], 0
	for len(r.active) > 0 || len(c.blocks) > 0 {
		if err := r.fillCluster(); err != nil {
			return err
		}
		before, _ := slices.BinarySearch(overlay.Times, c.fromMs)
		if err := emit(overlay.Times[:before], overlay.Values[:before]); err != nil {
			return err
		}
		inside, _ := slices.BinarySearch(overlay.Times, min(c.toMs+1, c.endMs))
		covered := codec.Points{Times: overlay.Times[before:inside], Values: overlay.Values[before:inside]}
		overlay = codec.Points{Times: overlay.Times[inside:], Values: overlay.Values[inside:]}
		if len(c.blocks) == 1 && covered.Len() == 0 && c.toMs < c.endMs {
			// Nothing to merge: a block's times grow strictly.
			times, values := clipSorted(c.rest(0), within)
			if err := emit(times, values); err != nil {
				return err
			}
			c.blocks, c.points = c.blocks[:0], 0
			continue
		}
		r.merged.Reset()
		c.takeBefore(&r.merged)
		r.merged.Times = append(r.merged.Times, covered.Times...)
		r.merged.Values = append(r.merged.Values, covered.Values...)
		codec.SortPoints(&r.merged, &r.scratch, &r.order)
		clipPoints(&r.merged, 0, within)
		if err := emit(r.merged.Times, r.merged.Values); err != nil {
			return err
		}
	}
	return emit(overlay.Times, overlay.Values)
}

// rest returns what is left of a block.
func (c *cluster) rest(n int) *codec.Points {
	b := &c.blocks[n]
	return &codec.Points{Times: b.points.Times[b.at:], Values: b.points.Values[b.at:]}
}

// takeBefore moves the points before endMs to dst, block by block in the order of
// writing, and keeps the blocks that have more.
func (c *cluster) takeBefore(dst *codec.Points) {
	slices.SortStableFunc(c.blocks, func(a, b blockPoints) int { return a.rank - b.rank })
	kept := 0
	c.points, c.fromMs = 0, math.MaxInt64
	for i := range c.blocks {
		b := &c.blocks[i]
		rest := c.rest(i)
		n, _ := slices.BinarySearch(rest.Times, c.endMs)
		dst.Times = append(dst.Times, rest.Times[:n]...)
		dst.Values = append(dst.Values, rest.Values[:n]...)
		if n == len(rest.Times) {
			continue
		}
		b.at += n
		c.points += len(rest.Times) - n
		c.fromMs = min(c.fromMs, rest.Times[n])
		c.blocks[kept], c.blocks[i] = c.blocks[i], c.blocks[kept] // the memory stays
		kept++
	}
	c.blocks = c.blocks[:kept]
}

// fillCluster decodes the earliest block and those that overlap it, directly or
// through others, until none does, or until there is much to emit before the next.
func (r *Reader) fillCluster() error {
	c := &r.cluster
	for {
		next := -1
		for i := range r.active {
			if next < 0 || r.active[i].block.MinMs < r.active[next].block.MinMs {
				next = i
			}
		}
		if next < 0 {
			c.endMs = math.MaxInt64
			return nil
		}
		state := &r.active[next]
		c.endMs = state.block.MinMs
		switch {
		case len(c.blocks) == 0:
			c.fromMs, c.toMs = state.block.MinMs, state.block.MaxMs
		case c.endMs > c.toMs, c.points >= clusterPointsMax && c.endMs > c.fromMs:
			return nil
		}
		c.fromMs, c.toMs = min(c.fromMs, state.block.MinMs), max(c.toMs, state.block.MaxMs)
		if err := r.decode(state); err != nil {
			return err
		}
		more, err := state.advance()
		if err != nil {
			return err
		}
		if !more {
			r.active = slices.Delete(r.active, next, next+1)
		}
	}
}

func (r *Reader) decode(state *cursorState) error {
	c := &r.cluster
	if len(c.blocks) < cap(c.blocks) {
		c.blocks = c.blocks[:len(c.blocks)+1] // keeps the memory of its points
	} else {
		c.blocks = append(c.blocks, blockPoints{})
	}
	b := &c.blocks[len(c.blocks)-1]
	b.rank, b.at = state.rank, 0
	b.points.Reset()
	if err := state.cursor.Points(&r.decoder, &b.points); err != nil {
		var corrupt *segment.CorruptError
		if errors.As(err, &corrupt) {
			r.source.o.Corrupt(err)
		}
		return err
	}
	r.decodedSamples += int64(b.points.Len())
	r.decodedBytes += int64(state.block.Bytes)
	hidePoints(&b.points, 0, state.hidden)
	c.points += b.points.Len()
	return nil
}
