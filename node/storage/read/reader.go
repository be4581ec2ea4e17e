package read

import (
	"context"
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

// Reader reads one series after the other out of segments, page log and hot
// pages. It is for one goroutine.
type Reader struct {
	source          *Source
	*manifest.Lease                     // whoever reads a series enters, and parks before it emits
	began           []manifest.LowWater // of the shards when the reader began: it reads no later replica
	bytesMax        int64               // of payloads and overlay; 0: no bound
	ctx             context.Context     //nolint:containedctx // of the reader's goroutine
	account         scan.Holding
	charged         int64         // to it, for a long series
	turn            chan struct{} // of the account: who has a long series; nil: nothing is charged
	inTurn          bool

	decodedSamples, decodedBytes int64

	rollup rollupReader
	*readerMemory
}

// chainPage is a page of a series' chain.
type chainPage struct {
	ref        pagelog.Ref
	generation uint32
	from, to   int // of its payload in Reader.payloads
}

// cursorState is a segment's cursor that stands on a block.
type cursorState struct {
	cursor *segment.Cursor
	rank   int // of the segment in the order of writing
	block  segment.Block
	hidden []segment.TimeRange
}

// NewReader returns a reader that has entered the current version. What it may hold for a series has a bound; 0: none.
func (s *Source) NewReader(bytesMax int64) *Reader {
	l := s.o.Files.Lease(s.o.Pages)
	r := &Reader{source: s, Lease: l, began: l.Version.LowWater, bytesMax: bytesMax, readerMemory: s.takeMemory()}
	r.leaveSegments(len(l.Version.Segments))
	return r
}

// newReaderOf returns a reader for a worker of a scan. What it holds for a long series is charged to the account of the
// scan's limits: it waits for room there until ctx ends, which is that of its goroutine. Of the workers of all scans of an
// account one at a time has a long series.
func (s *Source) newReaderOf(ctx context.Context, limits scan.Limits) *Reader {
	r := s.NewReader(limits.BytesMax)
	if limits.Account != nil {
		r.ctx, r.account.Account, r.turn = ctx, limits.Account, limits.Account.Turn()
	}
	return r
}

// enter begins a series.
func (r *Reader) enter() {
	if r.Lease.Enter() {
		r.leaveSegments(len(r.Version.Segments))
	}
}

func (r *Reader) Close() {
	r.End()
	r.leaveLong()
	r.leaveSegments(0)
	r.source.decoded.samples.Add(r.decodedSamples)
	r.source.decoded.bytes.Add(r.decodedBytes)
	r.source.keepMemory(r.readerMemory)
	r.readerMemory = nil
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

func (c *cursorState) advance() (bool, error) {
	if !c.cursor.Next() {
		return false, c.cursor.Err()
	}
	c.block = c.cursor.Block()
	return true, nil
}

// generationBefore returns the number of a page's generation, which is newest or
// one of those before it that were live when newest was.
func generationBefore(newest uint32, ref pagelog.Ref) uint32 {
	return newest - (newest-ref.Slot())%pagelog.Slots
}

// clipSorted returns the points within the span, of points whose times grow.
func clipSorted(p *codec.Points, within segment.TimeRange) (times []int64, values []float64) {
	from, to := 0, len(p.Times)
	if to > 0 && p.Times[0] < within.FromMs {
		from, _ = slices.BinarySearch(p.Times, within.FromMs)
	}
	if to > 0 && p.Times[to-1] > within.ToMs {
		var found bool
		if to, found = slices.BinarySearch(p.Times, within.ToMs); found {
			to++
		}
	}
	return p.Times[from:max(from, to)], p.Values[from:max(from, to)]
}

// clipPoints removes the points from index start on that lie outside of the span.
func clipPoints(p *codec.Points, start int, within segment.TimeRange) {
	if n := len(p.Times); n > start && codec.Growing(p.Times[start:]) {
		times, values := clipSorted(&codec.Points{Times: p.Times[start:], Values: p.Values[start:]}, within)
		if len(times) < n-start {
			p.Times = append(p.Times[:start], times...)
			p.Values = append(p.Values[:start], values...)
		}
		return
	}
	keepPoints(p, start, within.Has)
}

// hidePoints removes the points from index start on that lie in one of the spans.
func hidePoints(p *codec.Points, start int, spans []segment.TimeRange) {
	if len(spans) == 0 {
		return
	}
	keepPoints(p, start, func(timeMs int64) bool { return !manifest.Hides(spans, timeMs) })
}

func keepPoints(p *codec.Points, start int, keep func(timeMs int64) bool) {
	kept := start
	for i := start; i < len(p.Times); i++ {
		if keep(p.Times[i]) {
			p.Times[kept], p.Values[kept] = p.Times[i], p.Values[i]
			kept++
		}
	}
	p.Times, p.Values = p.Times[:kept], p.Values[:kept]
}

// ErrReplaced ends a scan that began before a shard was dropped or replaced.
var ErrReplaced = fmt.Errorf("%w: the shard's replica was replaced", series.ErrUnavailable)
