package segment

import (
	"math"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// walker visits all blocks of a segment, or of one shard, in order of (shard, id,
// time). It reads one index page at a time.
type walker struct {
	reader   *Reader
	shardAt  int // number of the section
	shardEnd int // where the walk ends
	pageAt   int // next page of the section

	shard   uint16
	section section  // of that shard, or none yet
	ids     []uint32 // of the page's blocks
	blocks  []blockRef
	at      int // of the current block
	done    bool

	previousID uint32 // of the block before the current page
	previousMs int64  // its last time, or −∞ at the start of a section

	ahead readAhead
	skip  func(shard uint16) bool // nil: no section is passed over

	decoder codec.BlockReader
}

// start puts the walker before the first block of the sections [from, end).
func (w *walker) start(r *Reader, from, end int) {
	*w = walker{reader: r, shardAt: from, shardEnd: end, ids: w.ids[:0], blocks: w.blocks[:0], at: -1}
	w.previousMs, w.ahead.bytes = math.MinInt64, aheadBytes
}

// next moves to the next block; done reports that there is none.
func (w *walker) next() error {
	if w.at+1 < len(w.blocks) {
		w.at++
		return nil
	}
	w.ids, w.blocks, w.at = w.ids[:0], w.blocks[:0], 0
	return w.reader.mapping.Guard(w.load)
}

// load reads the next page that has blocks.
func (w *walker) load(b []byte) error {
	for len(w.blocks) == 0 {
		if w.shardAt >= w.shardEnd {
			w.done = true
			return nil
		}
		w.shard = w.reader.shards[w.shardAt].Shard
		if w.section.reader == nil {
			if w.skip != nil && w.skip(w.shard) {
				w.nextShard()
				continue
			}
			var err error
			if w.section, err = w.reader.sectionAt(b, w.shardAt); err != nil {
				w.done = true
				return err
			}
		}
		pages := w.section.pages(pageIndex)
		if w.pageAt == pages.len() {
			w.nextShard()
			continue
		}
		e := pages.at(w.pageAt)
		if err := w.loadPage(&w.section, &e); err != nil {
			return err
		}
		w.pageAt++
	}
	return nil
}

// nextShard moves to the next section.
func (w *walker) nextShard() {
	w.shardAt, w.pageAt, w.section = w.shardAt+1, 0, section{}
	w.previousID, w.previousMs = 0, math.MinInt64
}

func (w *walker) loadPage(s *section, e *pageEntry) error {
	var page pageReader
	if err := s.page(&page, e, pageIndex); err != nil {
		return err
	}
	ok, reason := page.next()
	for ; ok; ok, reason = page.next() {
		var index indexReader
		if reason = index.reset(page.body, page.base, w.reader.meta.BlockSamples, s.limits()); reason != "" {
			break
		}
		var found bool
		for found, reason = index.next(); found; found, reason = index.next() {
			if page.id < w.previousID || page.id == w.previousID && index.block.minMs <= w.previousMs {
				return s.corrupt(PartIndexPage, page.id, e.offset, "order of blocks")
			}
			w.previousID, w.previousMs = page.id, index.block.maxMs
			w.ids = append(w.ids, page.id)
			w.blocks = append(w.blocks, index.block)
		}
		if reason != "" {
			break
		}
	}
	if reason != "" {
		return s.corrupt(PartIndexPage, page.id, e.offset, reason)
	}
	return nil
}

// id and block are those of the current block.
func (w *walker) id() uint32       { return w.ids[w.at] }
func (w *walker) block() *blockRef { return &w.blocks[w.at] }

// points appends the samples of the current block to dst, which is as before after
// an error.
func (w *walker) points(dst *codec.Points) error {
	return w.read(func(s *section) error { return s.decodePoints(w.id(), w.block(), &w.decoder, AllTime(), dst) })
}

// columns is points with values as numbers.
func (w *walker) columns(dst *codec.Columns) error {
	return w.read(func(s *section) error { return s.decodeColumns(w.id(), w.block(), &w.decoder, dst) })
}

// encoded appends the current block as it is stored, verified, to dst.
func (w *walker) encoded(dst []byte) ([]byte, error) {
	err := w.read(func(s *section) error {
		b := w.block()
		if _, err := s.payload(w.id(), b); err != nil {
			return err
		}
		dst = append(dst, s.data[b.offset:b.offset+int64(b.length)]...)
		return nil
	})
	return dst, err
}

func (w *walker) read(do func(*section) error) error {
	return w.reader.mapping.Guard(func([]byte) error {
		s := &w.section
		s.prefetch(&w.ahead, w.block(), s.Offset+int64(len(s.data)))
		return do(s)
	})
}

// SeriesInfo describes a series of a segment.
type SeriesInfo struct {
	Shard           uint16
	ID              uint32
	Blocks, Samples int64
	MinMs, MaxMs    int64 // time of the first and the last sample
}

// EachSeries visits the series of one shard in order of their ids, until visit
// returns an error, which it returns. Other errors are *CorruptError and
// *vfs.FaultError.
func (r *Reader) EachSeries(shard uint16, visit func(SeriesInfo) error) error {
	n, ok := r.shardNumber(shard)
	if !ok {
		return nil
	}
	return r.eachSeries(n, n+1, visit)
}

// EachSeriesAll is EachSeries for all shards in order.
func (r *Reader) EachSeriesAll(visit func(SeriesInfo) error) error {
	return r.eachSeries(0, r.meta.Shards, visit)
}

func (r *Reader) eachSeries(from, end int, visit func(SeriesInfo) error) error {
	var w walker
	w.start(r, from, end)
	var info SeriesInfo
	for {
		if err := w.next(); err != nil {
			return err
		}
		if info.Blocks > 0 && (w.done || w.shard != info.Shard || w.id() != info.ID) {
			if err := visit(info); err != nil {
				return err
			}
			info.Blocks = 0
		}
		if w.done {
			return nil
		}
		b := w.block()
		if info.Blocks == 0 {
			info = SeriesInfo{Shard: w.shard, ID: w.id(), MinMs: b.minMs}
		}
		info.Blocks++
		info.Samples += int64(b.samples)
		info.MaxMs = b.maxMs
	}
}
