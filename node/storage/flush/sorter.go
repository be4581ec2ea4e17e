package flush

import (
	"errors"
	"fmt"
	"slices"

	"github.com/tickmesh/tickmesh/node/storage/pagelog"
)

// pageSorter visits the pages of an ended generation in the order of the series. It
// reads the generation in the order of its file, which disks are fast at, once to
// count and then once for each range of series whose pages fit into its memory. In
// the order of the series, each page would be another place of the file: memory
// that is smaller than a generation would read a block of the disk for each.
type pageSorter struct {
	pin        *pagelog.Pin
	generation uint32
	shards     int
	bytesMax   int64  // of what is loaded; one series may be more: see load
	yield      func() // see Options.Yield
	check      bool   // of that bound: beyond it is a panic

	passed   int // pages since the last call of yield
	loaded   keyRange
	pages    []sealedPage // in the order of the file
	order    []uint64     // (key - loaded.from)<<placeBits | place in pages, sorted
	payloads []byte
	ofSeries []sealedPage // scratch
}

// sealedPage is a page that is loaded.
type sealedPage struct {
	ref    pagelog.Ref
	from   uint32 // of its payload in pageSorter.payloads
	length uint16 // 0: left in the file
}

const (
	sealedPageBytes = 12
	orderBytes      = 8
	// A key is below ShardsMax<<32, and a place below sortBytesMax/sealedPageBytes.
	placeBits = 20
)

// seriesKey is shard<<32 | id.
type seriesKey uint64

func (k seriesKey) shard() uint16 { return uint16(k >> 32) }
func (k seriesKey) id() uint32    { return uint32(k) }

// keyRange is a range of series, and what their pages take.
type keyRange struct {
	from, to seriesKey // the first and the last series that has pages
	pages    int
	bytes    int64 // of payloads
}

func (r *keyRange) has(k seriesKey) bool { return k >= r.from && k <= r.to }

// memory is what loading the range takes.
func (r *keyRange) memory() int64 { return int64(r.pages)*(sealedPageBytes+orderBytes) + r.bytes }

func (r *keyRange) add(k seriesKey, payload int) {
	if r.pages == 0 {
		r.from, r.to = k, k
	}
	r.from, r.to = min(r.from, k), max(r.to, k)
	r.pages++
	r.bytes += int64(payload)
}

// joinRanges puts neighbouring ranges together as long as they fit. Ranges without
// pages are left out.
func joinRanges(ranges []keyRange, bytesMax int64) []keyRange {
	var joined []keyRange
	for i := range ranges {
		r := &ranges[i]
		if r.pages == 0 {
			continue
		}
		if n := len(joined); n > 0 && joined[n-1].memory()+r.memory() <= bytesMax {
			last := &joined[n-1]
			last.to, last.pages, last.bytes = r.to, last.pages+r.pages, last.bytes+r.bytes
			continue
		}
		joined = append(joined, *r)
	}
	return joined
}

// rangesOfShard is how many parts a shard is cut into when its pages do not fit.
const rangesOfShard = 256

// ranges cuts the generation into ranges of series that fit, or are of one series.
// Only this reading reports damage.
func (s *pageSorter) ranges() ([]keyRange, error) {
	byShard := make([]keyRange, s.shards)
	err := s.pin.Each(s.generation, func(_ pagelog.Ref, p pagelog.Page) error {
		s.pass()
		if int(p.Shard) < len(byShard) {
			byShard[p.Shard].add(keyOf(p.Shard, p.ID), len(p.Payload))
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	ranges, err := s.refine(byShard)
	s.reserve(ranges)
	return ranges, err
}

// pagesInTurn is how many pages are passed between two calls of yield: tens of microseconds.
const pagesInTurn = 256

// pass counts a page that is passed, and lets others have the processor now and then.
func (s *pageSorter) pass() {
	if s.passed++; s.passed >= pagesInTurn && s.yield != nil {
		s.passed = 0
		s.yield()
	}
}

// reserve makes room for the largest of the ranges at once, so that nothing grows.
func (s *pageSorter) reserve(ranges []keyRange) {
	pages, order, bytes := 0, 0, int64(0)
	for i := range ranges {
		r := &ranges[i]
		pages = max(pages, r.pages)
		if r.memory() <= s.bytesMax {
			order, bytes = max(order, r.pages), max(bytes, r.bytes)
		}
	}
	s.pages, s.order, s.payloads = make([]sealedPage, 0, pages), make([]uint64, 0, order), make([]byte, 0, bytes)
}

// refine joins ranges that fit and cuts those that do not. Each step makes the
// latter at least 256 times narrower, so there are at most four of them.
func (s *pageSorter) refine(ranges []keyRange) (refined []keyRange, err error) {
	for _, r := range joinRanges(ranges, s.bytesMax) {
		if r.memory() <= s.bytesMax || r.from == r.to {
			refined = append(refined, r)
			continue
		}
		parts, err := s.cut(&r)
		if err == nil {
			parts, err = s.refine(parts)
		}
		if err != nil {
			return nil, err
		}
		refined = append(refined, parts...)
	}
	return refined, nil
}

// cut counts the pages of a range by parts of equal width.
func (s *pageSorter) cut(r *keyRange) ([]keyRange, error) {
	width := (r.to-r.from)/rangesOfShard + 1
	parts := make([]keyRange, rangesOfShard)
	err := s.pin.EachOf(s.generation, nil, func(_ pagelog.Ref, p pagelog.Page) error {
		s.pass()
		if k := keyOf(p.Shard, p.ID); r.has(k) {
			parts[(k-r.from)/width].add(k, len(p.Payload))
		}
		return nil
	})
	return parts, err
}

func keyOf(shard uint16, id uint32) seriesKey { return seriesKey(shard)<<32 | seriesKey(id) }

// errMorePages reports that a generation has more pages than when they were counted: a
// part of its file can be read again. The flush is then begun anew.
var errMorePages = errors.New("the file of pages has changed while it was sorted")

// load reads the pages of a range and sorts them by series and position. The
// payloads of a single series that does not fit stay in the file.
func (s *pageSorter) load(r *keyRange) error {
	s.loaded = *r
	wanted := func(shard uint16, id uint32) bool {
		s.pass()
		return r.has(keyOf(shard, id))
	}
	if err := s.read(wanted); err != nil {
		return err
	}
	if len(s.pages) < r.pages {
		// The file is damaged, so pages must be looked for behind each that looks bad.
		if err := s.read(nil); err != nil {
			return err
		}
	}
	slices.Sort(s.order)
	if s.check && s.inMemory() && s.used() > s.bytesMax {
		panic(fmt.Sprintf("BUG: %d bytes of pages are loaded, %d are the most", s.used(), s.bytesMax))
	}
	return nil
}

// inMemory reports whether the loaded range fits. If not, it is of one series, whose
// pages are in order already.
func (s *pageSorter) inMemory() bool { return s.loaded.memory() <= s.bytesMax }

func (s *pageSorter) read(wanted func(shard uint16, id uint32) bool) error {
	r, inMemory := &s.loaded, s.inMemory()
	s.pages, s.order, s.payloads = s.pages[:0], s.order[:0], s.payloads[:0]
	return s.pin.EachOf(s.generation, wanted, func(ref pagelog.Ref, p pagelog.Page) error {
		k := keyOf(p.Shard, p.ID)
		if !r.has(k) {
			return nil
		}
		if len(s.pages) == r.pages || inMemory && len(s.payloads)+len(p.Payload) > int(r.bytes) {
			return errMorePages
		}
		page := sealedPage{ref: ref}
		if inMemory {
			page.from, page.length = uint32(len(s.payloads)), uint16(len(p.Payload))
			s.payloads = append(s.payloads, p.Payload...)
			s.order = append(s.order, uint64(k-r.from)<<placeBits|uint64(len(s.pages)))
		}
		s.pages = append(s.pages, page)
		return nil
	})
}

// used is the memory that the loaded range takes.
func (s *pageSorter) used() int64 {
	return int64(len(s.pages))*sealedPageBytes + int64(len(s.order))*orderBytes + int64(len(s.payloads))
}

// payload returns the payload of a loaded page. It is good until the next call with
// the same buffer.
func (s *pageSorter) payload(p *sealedPage, buffer *[]byte) ([]byte, error) {
	if p.length > 0 {
		return s.payloads[p.from : p.from+uint32(p.length)], nil
	}
	page, err := s.pin.Read(p.ref, (*buffer)[:0])
	if err == nil {
		*buffer = page.Payload
	}
	return page.Payload, err
}

// eachSeries visits the loaded pages, series by series, those of each by position.
// The pages are good until visit returns.
func (s *pageSorter) eachSeries(visit func(k seriesKey, pages []sealedPage) error) error {
	if !s.inMemory() {
		return visit(s.loaded.from, s.pages)
	}
	for rest := s.order; len(rest) > 0; {
		key := rest[0] >> placeBits
		s.ofSeries = s.ofSeries[:0]
		for len(rest) > 0 && rest[0]>>placeBits == key {
			s.ofSeries = append(s.ofSeries, s.pages[rest[0]&(1<<placeBits-1)])
			rest = rest[1:]
		}
		if err := visit(s.loaded.from+seriesKey(key), s.ofSeries); err != nil {
			return err
		}
	}
	return nil
}
