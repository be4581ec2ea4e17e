package read

import (
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// Stored visits the times of the blocks that segments have of a series in a range, but for those that a delete hides as a
// whole. It looks at no marks, and reads no samples. Errors: as Read.
func (r *Reader) Stored(ref series.Ref, within segment.TimeRange, visit func(block segment.TimeRange)) error {
	r.enter()
	r.Park()
	stones := r.Version.Tombstones.Of(ref.Shard, uint32(ref.ID))
	err := r.findBlocks(ref, stones, within.FromMs, within.ToMs)
	for i := range r.active {
		state := &r.active[i]
		for more := err == nil; more; {
			if block := (segment.TimeRange{FromMs: state.block.MinMs, ToMs: state.block.MaxMs}); !manifest.HidesAll(state.hidden, block) {
				visit(block)
			}
			more, err = state.advance()
		}
	}
	if err != nil {
		r.source.o.Files.NoteDamage(ref.Shard, err)
	}
	return err
}
