package read

import (
	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// Read calls emit with the points of a series in [fromMs, toMs], in time order and
// in stretches that are reused. Damaged blocks are an error: an answer without
// them would look complete.
func (r *Reader) Read(ref series.Ref, fromMs, toMs int64, emit func([]int64, []float64) error) error {
	cut, err := r.source.o.Shards[ref.Shard].CutOf(uint32(ref.ID))
	if err != nil {
		return err
	}
	if fromMs = max(fromMs, cut); fromMs > toMs {
		return nil
	}
	thinMs, err := r.source.o.Shards[ref.Shard].ThinCutOf(uint32(ref.ID))
	if err != nil {
		return err
	}
	if fromMs < thinMs {
		return r.readThinned(ref, fromMs, toMs, thinMs, emit)
	}
	return r.readSamples(ref, fromMs, toMs, emit)
}

// readThinned is Read where samples before thinMs are the last of their hours.
func (r *Reader) readThinned(ref series.Ref, fromMs, toMs, thinMs int64, emit func([]int64, []float64) error) error {
	f := &hourFilter{beforeMs: thinMs, toMs: toMs, emit: emit}
	if toMs < thinMs {
		toMs = min(segment.HourOf(toMs).ToMs, scan.TimeMsMax)
	}
	if err := r.readSamples(ref, fromMs, toMs, f.add); err != nil {
		return err
	}
	return f.flush()
}

// readSamples reads the samples that files and pages have, where a range is behind the cut.
func (r *Reader) readSamples(ref series.Ref, fromMs, toMs int64, emit func([]int64, []float64) error) error {
	defer r.leaveLong()
	r.enter()
	within := segment.TimeRange{FromMs: fromMs, ToMs: toMs}
	ordered, err := r.readPages(ref, within)
	stones := r.Version.Tombstones.Of(ref.Shard, uint32(ref.ID))
	r.Park()
	if err != nil {
		return err
	}
	if err = r.findBlocks(ref, stones, fromMs, toMs); err != nil {
		r.source.o.Files.NoteDamage(ref.Shard, err)
		return err
	}
	if ordered && r.pagesAreLater() {
		r.overlay.Reset()
		if err = r.charge(0, overlayPointBytes); err != nil {
			return err
		}
		if err = r.mergeSources(within, emit); err == nil {
			return r.streamPages(ref, stones, within, emit)
		}
	} else {
		pointBytes := overlayPointBytes
		if len(r.active) > 0 {
			pointBytes += mergedPointBytes
		}
		if err := r.decodeOverlay(ref, stones, within, pointBytes); err != nil {
			return err
		}
		err = r.mergeSources(within, emit)
	}
	if err != nil {
		r.source.o.Files.NoteDamage(ref.Shard, err)
	}
	return err
}
