package pagelog

import (
	"errors"
	"fmt"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Pin holds the generations that were live when it was made. It may be used by
// many goroutines and must be closed once. The references that it can read are
// those that Append gave before the next Roll: a later one may look like one of an
// older generation.
type Pin struct {
	log         *Log
	generations [GenerationsMax + 1]*generation // by number modulo 16
	numbers     []uint32
}

// Pin holds the generations that are live now, the current one included. Pages
// that are appended to that one later can be read too.
func (l *Log) Pin() *Pin { return l.pin(func(uint32) bool { return true }) }

// PinFrom is Pin without the generations before oldest, so that who needs none of them is
// never the one that gives up their files.
func (l *Log) PinFrom(oldest uint32) *Pin {
	return l.pin(func(number uint32) bool { return int32(number-oldest) >= 0 })
}

func (l *Log) pin(wanted func(number uint32) bool) *Pin {
	p := &Pin{log: l}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.mu.closed {
		return p
	}
	p.numbers = make([]uint32, 0, len(l.mu.generations))
	for _, g := range l.mu.generations {
		if wanted(g.number) {
			g.holders++
			p.generations[g.number%(GenerationsMax+1)] = g
			p.numbers = append(p.numbers, g.number)
		}
	}
	return p
}

// Close releases the generations.
func (p *Pin) Close() error {
	var errs []error
	for i, g := range p.generations {
		if g != nil {
			p.generations[i] = nil
			errs = append(errs, p.log.release(g))
		}
	}
	return errors.Join(errs...)
}

// Generations returns the numbers of the generations held, oldest first.
func (p *Pin) Generations() []uint32 { return p.numbers }

// Read returns a page. Its payload is a copy at the start of dst's memory, if that
// is large enough: ReadBytesMax bytes always are. Errors: ErrNoPage, *CorruptError.
func (p *Pin) Read(ref Ref, dst []byte) (Page, error) {
	g, offset := p.generations[ref.slot()], ref.offset()
	if g == nil || ref == 0 {
		return Page{}, noPage(ref)
	}
	if offset >= g.flushed.Load() {
		if page, ok := p.log.readBuffered(g, offset, dst); ok {
			return page, nil
		}
		if offset >= g.flushed.Load() { // else it has been written meanwhile
			return Page{}, noPage(ref)
		}
	}
	index, inExtent := g.locate(offset)
	e := g.extents[index].Load()
	if e == nil || inExtent < extentHeaderBytes {
		return Page{}, noPage(ref)
	}
	dst = dst[:0]
	err := e.mapping.Guard(func(mapped []byte) error {
		if inExtent < int64(len(mapped)) {
			dst = copyPage(dst, mapped[inExtent:])
		}
		return nil
	})
	if err == nil {
		if page, ok := parseCopy(dst, g.number, offset); ok {
			return page, nil
		}
	}
	corrupt := &CorruptError{File: e.file.Name(), Generation: g.number, Offset: inExtent, Cause: err}
	p.log.corrupt(corrupt)
	return Page{}, corrupt
}

func noPage(ref Ref) error { return fmt.Errorf("reference %#x: %w", uint32(ref), ErrNoPage) }

// copyPage appends payload and header, in this order, of the page that b starts
// with. It appends nothing if there can be none.
func copyPage(dst, b []byte) []byte {
	if len(b) < pageHeaderBytes {
		return dst
	}
	n, ok := payloadLength(b)
	if !ok || pageHeaderBytes+n > len(b) {
		return dst
	}
	dst = append(dst, b[pageHeaderBytes:pageHeaderBytes+n]...)
	return append(dst, b[:pageHeaderBytes]...)
}

// parseCopy checks what copyPage has appended to an empty slice.
func parseCopy(b []byte, generation uint32, offset int64) (Page, bool) {
	n := len(b) - pageHeaderBytes
	if n < 1 {
		return Page{}, false
	}
	return parsePage(b[n:], b[:n], generation, offset)
}

// readBuffered reads a page that has not been written yet.
func (l *Log) readBuffered(g *generation, offset int64, dst []byte) (Page, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.currentLocked() != g {
		return Page{}, false
	}
	from, ok := l.mu.buffers.at(offset)
	if !ok {
		return Page{}, false
	}
	// A reference into the middle of a page fails here.
	return parseCopy(copyPage(dst[:0], from), g.number, offset)
}

func (l *Log) corrupt(e *CorruptError) {
	l.counters.corruptions.Add(1)
	if l.options.OnCorrupt != nil {
		l.options.OnCorrupt(e)
	}
}

// Each calls visit with the pages of a generation in the order in which they were
// appended, up to the last one at the time of the call. The payload is good until
// visit returns. Damaged pages are reported and left out. Errors: those of visit,
// ErrNoGeneration, ErrBroken when buffered pages could not be written.
func (p *Pin) Each(number uint32, visit func(Ref, Page) error) error {
	return p.each(number, &scanner{corrupt: p.log.corrupt, visit: visit})
}

// EachOf is Each for who has heard of the damage, and wants the pages of some series
// only: it reports nothing, and passes over the others without checking them. Where
// a file is damaged it may miss some pages that Each finds; with wanted nil it does
// not. What it visits is checked.
func (p *Pin) EachOf(number uint32, wanted func(shard uint16, id uint32) bool, visit func(Ref, Page) error) error {
	return p.each(number, &scanner{corrupt: func(*CorruptError) {}, wanted: wanted, visit: visit})
}

func (p *Pin) each(number uint32, s *scanner) error {
	g := p.generations[number%(GenerationsMax+1)]
	if g == nil || g.number != number {
		return fmt.Errorf("generation %d: %w", number, ErrNoGeneration)
	}
	p.log.mu.Lock()
	var err error
	if !p.log.mu.closed && p.log.currentLocked() == g {
		err = p.log.flushAllLocked()
	}
	p.log.mu.Unlock()
	if err != nil {
		return err
	}
	return s.scan(g, g.flushed.Load())
}

// release releases one hold on a generation; the last one closes its files.
func (l *Log) release(g *generation) error {
	l.mu.Lock()
	g.holders--
	last := g.holders == 0
	l.mu.Unlock()
	if !last {
		return nil
	}
	var errs []error
	for i := range g.extents {
		if e := g.extents[i].Load(); e != nil {
			errs = append(errs, e.close())
		}
	}
	return errors.Join(errs...)
}

const scanBytes = 256 << 10

// scanner visits the pages of a generation.
type scanner struct {
	corrupt func(*CorruptError)
	wanted  func(shard uint16, id uint32) bool // nil: all
	visit   func(Ref, Page) error
}

// scan visits the pages of a generation up to the offset limit.
func (c *scanner) scan(g *generation, limit int64) error {
	buffer := make([]byte, min(scanBytes, g.extentBytes()))
	for index := range g.extents {
		start := int64(index) << g.shift
		if start >= limit {
			return nil
		}
		e := g.extents[index].Load()
		if e == nil {
			continue
		}
		s := extentScan{
			scanner: c, g: g, extent: e, start: start, at: extentHeaderBytes,
			end: min(limit-start, g.extentBytes()), last: limit-start <= g.extentBytes(), gap: -1,
		}
		if err := s.run(buffer); err != nil {
			return err
		}
	}
	return nil
}

// extentScan walks one extent.
type extentScan struct {
	*scanner
	g       *generation
	extent  *extent
	start   int64 // of the extent in its generation
	at, end int64 // in the extent
	last    bool  // pages reach to end; else some zeros may be left
	gap     int64 // where a damaged stretch starts, or -1
	gapZero bool  // the stretch is of zeros so far
}

func (s *extentScan) run(buffer []byte) error {
	for s.at < s.end {
		chunk := buffer[:min(int64(len(buffer)), s.end-s.at)]
		// The next chunk is read while this one is visited. A hint: what cannot be read
		// shows when it is copied.
		_ = s.extent.mapping.Advise(s.at, min(2*int64(len(chunk)), s.end-s.at), vfs.AdviceWillNeed)
		copyMapped(s.extent.mapping, chunk, s.at)
		before := s.at
		if err := s.chunk(chunk); err != nil {
			return err
		}
		if s.at == before { // less than a page is left
			s.bad(chunk)
			s.at = s.end
		}
	}
	tail := s.gapZero && !s.last && s.end-s.gap < int64(pageBytes(PayloadBytesMax))
	if s.gap >= 0 && !tail {
		s.report(s.end)
	}
	return nil
}

// chunk visits the pages that lie in the chunk as a whole.
func (s *extentScan) chunk(chunk []byte) error {
	final := s.at+int64(len(chunk)) == s.end
	for {
		if len(chunk) < pageHeaderBytes {
			return nil
		}
		n, ok := payloadLength(chunk)
		size := pageBytes(n)
		if ok && size > len(chunk) {
			if !final {
				return nil
			}
			ok = false
		}
		if ok && s.wanted != nil && !s.wanted(headerSeries(chunk)) {
			s.report(s.at)
			chunk, s.at = chunk[size:], s.at+int64(size)
			continue
		}
		var page Page
		offset := s.start + s.at
		if ok {
			page, ok = parsePage(chunk[:pageHeaderBytes], chunk[pageHeaderBytes:pageHeaderBytes+n:pageHeaderBytes+n], s.g.number, offset)
		}
		if !ok {
			s.bad(chunk[:pageAlign])
			chunk, s.at = chunk[pageAlign:], s.at+pageAlign
			continue
		}
		s.report(s.at)
		chunk, s.at = chunk[size:], s.at+int64(size)
		if err := s.visit(makeRef(s.g.number, offset), page); err != nil {
			return err
		}
	}
}

// bad notes that b, at the present place, is not part of a page.
func (s *extentScan) bad(b []byte) {
	if s.gap < 0 {
		s.gap, s.gapZero = s.at, true
	}
	for _, c := range b {
		s.gapZero = s.gapZero && c == 0
	}
}

// report ends a damaged stretch.
func (s *extentScan) report(until int64) {
	if s.gap >= 0 {
		s.corrupt(&CorruptError{File: s.extent.file.Name(), Generation: s.g.number, Offset: s.gap, Length: until - s.gap})
	}
	s.gap = -1
}

// copyMapped copies from a mapping, with zeros for what cannot be read.
func copyMapped(m *vfs.Mapping, dst []byte, offset int64) {
	copyRange := func(dst []byte, offset int64) error {
		return m.Guard(func(mapped []byte) error {
			n := 0
			if offset < int64(len(mapped)) {
				n = copy(dst, mapped[offset:])
			}
			clear(dst[n:])
			return nil
		})
	}
	if copyRange(dst, offset) == nil {
		return
	}
	for at := 0; at < len(dst); {
		n := min(vfs.BlockBytes-int((offset+int64(at))%vfs.BlockBytes), len(dst)-at)
		if copyRange(dst[at:at+n], offset+int64(at)) != nil {
			clear(dst[at : at+n])
		}
		at += n
	}
}
