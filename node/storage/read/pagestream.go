package read

import (
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// A chain of streamPagesMin pages or more, in order of time, is decoded in stretches of
// about streamSamples samples that are emitted at once: they stay in the processor's cache,
// and a long series needs no more memory than a short one.
const (
	streamPagesMin = 64
	streamSamples  = 1024
)

var errPagesOutOfOrder = errors.New("pages out of the order of time")

// pagesAreLater reports whether the pages, which are in order of time, are worth to be
// streamed, and can be: nothing else has samples of their time.
func (r *Reader) pagesAreLater() bool {
	if len(r.chain) < streamPagesMin || len(r.hot.OutOfOrder) > 0 {
		return false
	}
	oldest := r.chain[len(r.chain)-1]
	firstMs, err := codec.PageFirstTime(r.payloads[oldest.from:oldest.to])
	if err != nil {
		return false // whoever decodes it says so
	}
	for i := range r.active {
		if r.Version.Segments[r.active[i].rank].Meta().MaxMs >= firstMs {
			return false
		}
	}
	return true
}

// streamPages decodes what readPages has copied and emits it stretch by stretch.
func (r *Reader) streamPages(ref series.Ref, stones []*manifest.Tombstone, within segment.TimeRange, emit func([]int64, []float64) error) error {
	r.overlay.Reset()
	for i := len(r.chain) - 1; i >= 0; i-- {
		if err := r.decodePage(r.chain[i], stones); err != nil {
			return fmt.Errorf("page of series %d of shard %d: %w", ref.ID, ref.Shard, err)
		}
		if r.overlay.Len() < streamSamples {
			continue
		}
		// The next page may begin with the time of the last sample, which it replaces.
		if err := r.emitRange(1, within, emit); err != nil {
			return err
		}
	}
	if len(r.hot.Main) > 0 {
		if err := codec.DecodePagePoints(r.hot.Main, &r.overlay); err != nil {
			return fmt.Errorf("hot page of series %d of shard %d: %w", ref.ID, ref.Shard, err)
		}
	}
	return r.emitRange(0, within, emit)
}

// emitRange emits the samples of the overlay but the youngest ones, which stay.
func (r *Reader) emitRange(stay int, within segment.TimeRange, emit func([]int64, []float64) error) error {
	p := &r.overlay
	var before int64
	started := len(p.Times) > 0
	if started {
		before = p.Times[0]
	}
	codec.SortPoints(p, &r.scratch, &r.order)
	if started && p.Times[0] < before {
		return errPagesOutOfOrder // times before may have been emitted
	}
	n := max(0, len(p.Times)-stay)
	times, values := clipSorted(&codec.Points{Times: p.Times[:n], Values: p.Values[:n]}, within)
	if err := emit(times, values); err != nil {
		return err
	}
	p.Times, p.Values = append(p.Times[:0], p.Times[n:]...), append(p.Values[:0], p.Values[n:]...)
	return nil
}
