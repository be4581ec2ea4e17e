package storage

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
	"github.com/tickmesh/tickmesh/node/storage/page"
	"github.com/tickmesh/tickmesh/node/storage/pagelog"
	"github.com/tickmesh/tickmesh/node/storage/segment"
)

// seriesReader reads one series after the other out of segments, page log and hot
// pages. It is for one goroutine.
type seriesReader struct {
	engine   *Engine
	*lease           // whoever reads a series enters, and parks before it emits
	began    []floor // of the shards when the reader began: it reads no later replica
	bytesMax int64   // of payloads and overlay; 0: no bound

	likely  likelySegments
	cursors []*segment.Cursor // by segment; nil: not used yet
	active  []cursorState
	rollup  rollupReader
	readerMemory
}

// chainPage is a page of a series' chain.
type chainPage struct {
	ref        pagelog.Ref
	generation uint32
	from, to   int // of its payload in seriesReader.payloads
}

// cursorState is a segment's cursor that stands on a block.
type cursorState struct {
	cursor *segment.Cursor
	rank   int // of the segment in the order of writing
	block  segment.Block
	hidden []span
}

// newSeriesReader returns a reader that has entered the current version.
func newSeriesReader(e *Engine, bytesMax int64) *seriesReader {
	l := e.versions.lease(e.pages)
	return &seriesReader{
		engine: e, lease: l, began: l.version.floors, bytesMax: bytesMax,
		cursors: make([]*segment.Cursor, len(l.version.segments)), readerMemory: e.readers.memory(),
	}
}

// enter begins a series.
func (r *seriesReader) enter() {
	if r.lease.enter() {
		r.cursors = make([]*segment.Cursor, len(r.version.segments))
		r.likely.known = false
	}
}

func (r *seriesReader) close() {
	r.end()
	r.engine.readers.keep(&r.readerMemory)
}

// cursor returns the cursor of a segment.
func (r *seriesReader) cursor(segmentAt int32) *segment.Cursor {
	c := r.cursors[segmentAt]
	if c == nil {
		c = &segment.Cursor{}
		r.cursors[segmentAt] = c
	}
	return c
}

// readPage reads a page of a generation that the version holds. One that began
// after the pin was taken needs a new pin.
func (r *seriesReader) readPage(ref pagelog.Ref) (pagelog.Page, error) {
	p, err := r.pin.Read(ref, r.payload[:0])
	if errors.Is(err, pagelog.ErrNoPage) {
		r.renewPin()
		p, err = r.pin.Read(ref, r.payload[:0])
	}
	if err == nil {
		r.payload = p.Payload
	}
	return p, err
}

// read gives the points of a series in [fromMs, toMs] to emit, in time order and
// in stretches that are reused. Damaged blocks are an error: an answer without
// them would look complete.
func (r *seriesReader) read(ref series.Ref, fromMs, toMs int64, emit func([]int64, []float64) error) error {
	s := r.engine.shards[ref.Shard]
	cut, err := s.cutOf(uint32(ref.ID))
	if err != nil {
		return err
	}
	if fromMs = max(fromMs, cut); fromMs > toMs {
		return nil
	}
	r.enter()
	stones := r.version.tombstones.of(ref.Shard, uint32(ref.ID))
	within := span{fromMs, toMs}
	ordered, err := r.readPages(s, uint32(ref.ID), within)
	r.park()
	if err != nil {
		return err
	}
	if err = r.findBlocks(ref, stones, fromMs, toMs); err != nil {
		r.engine.noteDamage(ref.Shard, err)
		return err
	}
	if ordered && r.pagesAreLater() {
		r.overlay.Reset()
		if err = r.mergeSources(within, emit); err == nil {
			return r.streamPages(s, uint32(ref.ID), stones, within, emit)
		}
	} else {
		if err := r.decodeOverlay(s, uint32(ref.ID), stones, within); err != nil {
			return err
		}
		err = r.mergeSources(within, emit)
	}
	if err != nil {
		r.engine.noteDamage(ref.Shard, err)
	}
	return err
}

// readOverlay gathers what the hot pages and the page log have.
func (r *seriesReader) readOverlay(s *shard, id uint32, stones []*Tombstone, within span) error {
	if _, err := r.readPages(s, id, within); err != nil {
		return err
	}
	return r.decodeOverlay(s, id, stones, within)
}

// readPages copies the hot pages and those of the page log. Ordered: the latter are in
// order of time.
func (r *seriesReader) readPages(s *shard, id uint32, within span) (ordered bool, err error) {
	if ordered, err = r.snapshot(s, id); err != nil {
		return false, err
	}
	if err := r.readChain(ordered, within); err != nil {
		return false, fmt.Errorf("series %d of shard %d: %w", id, s.number, err)
	}
	return ordered, nil
}

// decodeOverlay decodes what readPages has copied.
func (r *seriesReader) decodeOverlay(s *shard, id uint32, stones []*Tombstone, within span) error {
	for _, c := range slices.Backward(r.chain) {
		if err := r.decodePage(c, stones); err != nil {
			return fmt.Errorf("page of series %d of shard %d: %w", id, s.number, err)
		}
	}
	for _, payload := range [][]byte{r.hot.Main, r.hot.OutOfOrder} {
		if len(payload) == 0 {
			continue
		}
		if err := codec.DecodePagePoints(payload, &r.overlay); err != nil {
			return fmt.Errorf("hot page of series %d of shard %d: %w", id, s.number, err)
		}
	}
	clipPoints(&r.overlay, 0, within)
	sortPoints(&r.overlay, &r.scratch, &r.order)
	return nil
}

// snapshot copies the hot pages of a series. Ordered: its sealed pages are in order of
// time. Error: errReplaced.
func (r *seriesReader) snapshot(s *shard, id uint32) (ordered bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mu.number != r.version.floors[s.number].Number || s.mu.number != r.began[s.number].Number {
		return false, errReplaced
	}
	s.mu.set.Snapshot(id, &r.hot)
	return s.mu.disorder.ordered(id, r.version.generationOldest), nil
}

// readChain copies the sealed pages that no segment has yet and that may have
// samples within the span, newest first. Where the pages are in order of time, it
// ends with the page that begins before the span.
func (r *seriesReader) readChain(ordered bool, within span) error {
	r.chain, r.payloads = r.chain[:0], r.payloads[:0]
	r.overlay.Reset()
	if r.hot.Sealed == page.NoPage {
		return nil
	}
	newest := r.engine.pages.Current()
	for ref := pagelog.Ref(r.hot.Sealed); ref != 0; {
		generation := generationBefore(newest, ref)
		if int32(generation-r.version.generationOldest) < 0 {
			break // the segments have it
		}
		newest = generation
		p, err := r.readPage(ref)
		if err != nil {
			return err
		}
		startMs := within.toMs
		if ordered {
			if startMs, err = codec.PageFirstTime(p.Payload); err != nil {
				return err
			}
		}
		if startMs <= within.toMs {
			from := len(r.payloads)
			r.payloads = append(r.payloads, p.Payload...)
			r.chain = append(r.chain, chainPage{ref, generation, from, len(r.payloads)})
			if err := r.checkBytes(); err != nil {
				return err
			}
		}
		if ordered && startMs <= within.fromMs {
			break
		}
		ref = p.Previous
	}
	return nil
}

// decodePage decodes a page of readChain behind those before it.
func (r *seriesReader) decodePage(c chainPage, stones []*Tombstone) error {
	before := r.overlay.Len()
	if err := codec.DecodePagePoints(r.payloads[c.from:c.to], &r.overlay); err != nil {
		return err
	}
	if err := r.checkBytes(); err != nil {
		return err
	}
	if len(stones) > 0 {
		hidePoints(&r.overlay, before, hiddenInPage(stones, c.generation, c.ref.Offset()))
	}
	return nil
}

// overlayPointBytes is what a point of the overlay takes, and its copy in order.
const overlayPointBytes = 2 * 16

// checkBytes refuses a series of which segments lack more than the scan may hold:
// pages are merged in memory, as they may have any times.
func (r *seriesReader) checkBytes() error { return r.checkHeld(r.overlay.Len()) }

func (r *seriesReader) checkHeld(points int) error {
	held := int64(len(r.payloads)) + overlayPointBytes*int64(points)
	if r.bytesMax > 0 && held > r.bytesMax {
		return &scan.LimitError{What: "bytes", Limit: r.bytesMax}
	}
	return nil
}

// findBlocks puts a cursor on the first block of each segment that has the series.
func (r *seriesReader) findBlocks(ref series.Ref, stones []*Tombstone, fromMs, toMs int64) error {
	if err := r.engine.lacks(r.version, ref.Shard, span{fromMs, toMs}); err != nil {
		return err
	}
	r.active = r.active[:0]
	for _, i := range r.candidates(ref.Shard, fromMs, toMs) {
		reader := r.version.segments[i]
		c := r.cursor(i)
		if err := reader.Find(c, ref.Shard, uint32(ref.ID), fromMs, toMs); err != nil {
			return err
		}
		state := cursorState{cursor: c, rank: int(i)}
		if len(stones) > 0 {
			state.hidden = hiddenInSegment(stones, reader.Meta().SequenceHigh)
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
func clipSorted(p *codec.Points, within span) (times []int64, values []float64) {
	from, to := 0, len(p.Times)
	if to > 0 && p.Times[0] < within.fromMs {
		from, _ = slices.BinarySearch(p.Times, within.fromMs)
	}
	if to > 0 && p.Times[to-1] > within.toMs {
		var found bool
		if to, found = slices.BinarySearch(p.Times, within.toMs); found {
			to++
		}
	}
	return p.Times[from:max(from, to)], p.Values[from:max(from, to)]
}

// clipPoints removes the points from index start on that lie outside of the span.
func clipPoints(p *codec.Points, start int, within span) {
	if n := len(p.Times); n > start && strictlyGrowing(p.Times[start:]) {
		times, values := clipSorted(&codec.Points{Times: p.Times[start:], Values: p.Values[start:]}, within)
		if len(times) < n-start {
			p.Times = append(p.Times[:start], times...)
			p.Values = append(p.Values[:start], values...)
		}
		return
	}
	keepPoints(p, start, within.has)
}

// hidePoints removes the points from index start on that lie in one of the spans.
func hidePoints(p *codec.Points, start int, spans []span) {
	if len(spans) == 0 {
		return
	}
	keepPoints(p, start, func(timeMs int64) bool { return !hidden(spans, timeMs) })
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
