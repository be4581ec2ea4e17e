package read

import (
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/manifest"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// chainPage is a page of a series' chain.
type chainPage struct {
	ref        pagelog.Ref
	generation uint32
	from, to   int // of its payload in Reader.payloads
}

// readPage reads a page of a generation that the version holds. One that began
// after the pin was taken needs a new pin.
func (r *Reader) readPage(ref pagelog.Ref) (pagelog.Page, error) {
	p, err := r.Pin.Read(ref, r.payload[:0])
	if errors.Is(err, pagelog.ErrNoPage) {
		r.RenewPin()
		p, err = r.Pin.Read(ref, r.payload[:0])
	}
	if err == nil {
		r.payload = p.Payload
	}
	return p, err
}

// readPages copies the hot pages and those of the page log. Ordered: the latter are in
// order of time. Pages of a long series are charged before they are copied: the lease is parked for that and entered
// again, perhaps of another version, and they are copied anew.
func (r *Reader) readPages(ref series.Ref, within segment.TimeRange) (ordered bool, err error) {
	for room := longBytesMin; ; room *= 2 {
		if ordered, err = r.snapshot(ref); err != nil {
			return false, err
		}
		if r.turn == nil {
			room = math.MaxInt
		}
		whole, err := r.readChain(ordered, within, room)
		if err != nil {
			return false, fmt.Errorf("series %d of shard %d: %w", ref.ID, ref.Shard, err)
		}
		if whole {
			return ordered, nil
		}
		r.Park()
		if err := r.chargeBytes(2 * int64(room)); err != nil {
			return false, err
		}
		r.enter()
	}
}

// decodeOverlay decodes what readPages has copied, and charges so many bytes for a point. The lease is parked.
func (r *Reader) decodeOverlay(ref series.Ref, stones []*manifest.Tombstone, within segment.TimeRange, pointBytes int) error {
	decoded := 0 // bytes of payloads
	for _, c := range slices.Backward(r.chain) {
		err := r.decodePage(c, stones)
		if err == nil {
			decoded += c.to - c.from
			err = r.chargeAhead(decoded, pointBytes)
		}
		if err != nil {
			return fmt.Errorf("page of series %d of shard %d: %w", ref.ID, ref.Shard, err)
		}
	}
	for _, payload := range [][]byte{r.hot.Main, r.hot.OutOfOrder} {
		if len(payload) == 0 {
			continue
		}
		if err := codec.DecodePagePoints(payload, &r.overlay); err != nil {
			return fmt.Errorf("hot page of series %d of shard %d: %w", ref.ID, ref.Shard, err)
		}
	}
	clipPoints(&r.overlay, 0, within)
	codec.SortPoints(&r.overlay, &r.scratch, &r.order)
	return nil
}

// snapshot copies the hot pages of a series. Ordered: its sealed pages are in order of
// time. Error: ErrReplaced.
func (r *Reader) snapshot(ref series.Ref) (ordered bool, err error) {
	replica, ordered := r.source.o.Shards[ref.Shard].Snapshot(uint32(ref.ID), r.Version.GenerationOldest, &r.hot)
	if replica != r.Version.LowWater[ref.Shard].Number || replica != r.began[ref.Shard].Number {
		return false, ErrReplaced
	}
	return ordered, nil
}

// Unflushed visits what no segment has of a series, page by page in the order of writing, with the
// ranges of it that deletes hide. Errors: series.ErrUnavailable when the shard is replaced.
func (r *Reader) Unflushed(ref series.Ref, visit func(payload []byte, hidden []segment.TimeRange) error) error {
	ordered, err := r.snapshot(ref)
	if err == nil {
		_, err = r.readChain(ordered, segment.TimeRange{FromMs: scan.TimeMsMin, ToMs: scan.TimeMsMax}, math.MaxInt)
	}
	if err != nil {
		return err
	}
	stones := r.Version.Tombstones.Of(ref.Shard, uint32(ref.ID))
	for _, c := range slices.Backward(r.chain) {
		if err := visit(r.payloads[c.from:c.to], manifest.HiddenInPage(stones, c.generation, c.ref.Offset())); err != nil {
			return err
		}
	}
	for _, payload := range [][]byte{r.hot.Main, r.hot.OutOfOrder} {
		if len(payload) == 0 {
			continue
		}
		if err := visit(payload, nil); err != nil {
			return err
		}
	}
	return nil
}

// readChain copies the sealed pages that no segment has yet and that may have
// samples within the span, newest first. Where the pages are in order of time, it
// ends with the page that begins before the span. It reports whether there was room, in bytes, for all of them.
func (r *Reader) readChain(ordered bool, within segment.TimeRange, room int) (whole bool, err error) {
	r.chain, r.payloads = r.chain[:0], r.payloads[:0]
	r.overlay.Reset()
	if r.hot.Sealed == page.NoPage {
		return true, nil
	}
	newest := r.source.o.Pages.Current()
	for ref := pagelog.Ref(r.hot.Sealed); ref != 0; {
		generation := generationBefore(newest, ref)
		if int32(generation-r.Version.GenerationOldest) < 0 {
			break // the segments have it
		}
		newest = generation
		p, err := r.readPage(ref)
		if err != nil {
			return false, err
		}
		startMs := within.ToMs
		if ordered {
			if startMs, err = codec.PageFirstTime(p.Payload); err != nil {
				return false, err
			}
		}
		if startMs <= within.ToMs {
			from := len(r.payloads)
			if from+len(p.Payload) > room {
				return false, nil
			}
			r.payloads = append(r.payloads, p.Payload...)
			r.chain = append(r.chain, chainPage{ref, generation, from, len(r.payloads)})
			if err := r.CheckHeld(0); err != nil {
				return false, err
			}
		}
		if ordered && startMs <= within.FromMs {
			break
		}
		ref = p.Previous
	}
	return true, nil
}

// decodePage decodes a page of readChain behind those before it.
func (r *Reader) decodePage(c chainPage, stones []*manifest.Tombstone) error {
	before := r.overlay.Len()
	if err := codec.DecodePagePoints(r.payloads[c.from:c.to], &r.overlay); err != nil {
		return err
	}
	r.decodedSamples += int64(r.overlay.Len() - before)
	r.decodedBytes += int64(c.to - c.from)
	if err := r.CheckHeld(r.overlay.Len()); err != nil {
		return err
	}
	if len(stones) > 0 {
		hidePoints(&r.overlay, before, manifest.HiddenInPage(stones, c.generation, c.ref.Offset()))
	}
	return nil
}

// generationBefore returns the number of a page's generation, which is newest or
// one of those before it that were live when newest was.
func generationBefore(newest uint32, ref pagelog.Ref) uint32 {
	return newest - (newest-ref.Slot())%pagelog.Slots
}
