package segment

import "github.com/tickmesh/tickmesh/node/storage/codec"

// Block describes one block of a series.
type Block struct {
	MinMs, MaxMs int64 // time of the first and the last sample
	Samples      int
	Bytes        int // in the file
}

// Cursor walks the blocks of a series that overlap a range of time. The zero
// value is ready for Find, and a Cursor may be used again for other series and
// segments; it keeps its memory. Series in order of (shard, id) are found faster.
// The caller holds a reference of the Reader for as long as it uses the Cursor. It
// is not safe for concurrent use.
type Cursor struct {
	reader       *Reader
	shard        uint16
	id           uint32
	fromMs, toMs int64
	nextPage     int // to look at when blocks are used up; -1: none

	// What the last Find used, for the next one. The section is that of reader and
	// shard, once a Find has got beyond their times.
	section section
	page    pageReader // of the index
	pageAt  int        // its number in the section; -1: none

	blocks []blockRef // of one page, those that overlap
	at     int        // of the current block
	ahead  readAhead
	err    error
}

// Forget lets go of the segment, but keeps memory for the next one.
func (c *Cursor) Forget() { *c = Cursor{blocks: c.blocks[:0]} }

// Find points the cursor before the first block of a series that overlaps
// [fromMs, toMs]. A series that the segment does not have has no blocks. Errors
// are *CorruptError and *vfs.FaultError.
func (r *Reader) Find(c *Cursor, shard uint16, id uint32, fromMs, toMs int64) error {
	c.reader, c.shard, c.id, c.fromMs, c.toMs = r, shard, id, fromMs, toMs
	c.blocks, c.at, c.err, c.nextPage = c.blocks[:0], -1, nil, -1
	if fromMs > r.meta.MaxMs || toMs < r.meta.MinMs || shard < r.meta.ShardLow || shard > r.meta.ShardHigh {
		return nil
	}
	c.err = r.mapping.Guard(c.find)
	return c.err
}

func (c *Cursor) find(b []byte) error {
	if c.section.reader != c.reader || c.section.Shard != c.shard {
		var ok bool
		var err error
		c.pageAt = -1
		if c.section, ok, err = c.reader.section(b, c.shard); !ok {
			c.section = section{}
			return err
		}
	}
	if c.fromMs > c.section.MaxMs || c.toMs < c.section.MinMs {
		return nil
	}
	pages := c.section.pages(pageIndex)
	if c.nextPage = c.pageAt; !pages.holds(c.pageAt, c.id) {
		c.nextPage = pages.first(c.id, c.fromMs)
	}
	return c.load()
}

// load reads pages until it has found blocks or there are no more.
func (c *Cursor) load() error {
	pages := c.section.pages(pageIndex)
	c.blocks, c.at = c.blocks[:0], -1
	for len(c.blocks) == 0 && c.nextPage >= 0 {
		n := c.nextPage
		c.nextPage = -1
		if !pages.has(n, c.id) {
			return nil
		}
		e := pages.at(n)
		if e.id == c.id && e.firstMs > c.toMs {
			return nil
		}
		if err := c.loadPage(n, &e); err != nil {
			return err
		}
		// Entries of one series may go on in the next page, as its first.
		if n+1 < pages.len() && pages.id(n+1) == c.id {
			c.nextPage = n + 1
		}
	}
	c.ahead = readAhead{bytes: aheadBytes}
	return nil
}

// loadPage takes the series' blocks of page n.
func (c *Cursor) loadPage(n int, e *pageEntry) error {
	s, known := &c.section, c.pageAt == n
	c.pageAt = -1 // until all is well
	if !known {
		if err := s.page(&c.page, e, pageIndex); err != nil {
			return err
		}
	}
	ok, reason := c.page.seek(c.id)
	for ok && c.page.id == c.id {
		if reason = c.overlapping(&c.page, s); reason != "" {
			break
		}
		ok, reason = c.page.next()
	}
	if reason != "" {
		return s.corrupt(PartIndexPage, c.id, e.offset, reason)
	}
	c.pageAt = n
	return nil
}

// overlapping takes the blocks of one entry that overlap the range.
func (c *Cursor) overlapping(page *pageReader, s *section) (reason string) {
	var index indexReader
	if reason = index.reset(page.body, page.base, s.reader.meta.BlockSamples, s.limits()); reason != "" {
		return reason
	}
	var ok bool
	for ok, reason = index.next(); ok; ok, reason = index.next() {
		if index.block.maxMs < c.fromMs {
			continue
		}
		if index.block.minMs > c.toMs {
			return ""
		}
		c.blocks = append(c.blocks, index.block)
	}
	return reason
}

// Next moves to the next block, in order of time. It returns false at the end and
// after an error of the index; Err tells them apart.
func (c *Cursor) Next() bool {
	if c.err != nil {
		return false
	}
	if c.at+1 < len(c.blocks) {
		c.at++
		return true
	}
	if c.nextPage < 0 {
		c.at = len(c.blocks)
		return false
	}
	c.err = c.reader.mapping.Guard(func([]byte) error { return c.load() })
	if c.err != nil || len(c.blocks) == 0 {
		return false
	}
	c.at = 0
	return true
}

// Err returns the error that ended Next. Errors of single blocks are not among
// them.
func (c *Cursor) Err() error { return c.err }

// Block describes the current block, after Next has given true.
func (c *Cursor) Block() Block {
	b := &c.blocks[c.at]
	return Block{MinMs: b.minMs, MaxMs: b.maxMs, Samples: b.samples, Bytes: b.length}
}

// Points appends the samples of the current block that lie within the range of Find to
// dst. After an error dst is as before, and Next may go on: a
// *CorruptError with PartBlock concerns this block alone. The decoder's memory may serve
// many cursors.
func (c *Cursor) Points(decoder *codec.BlockReader, dst *codec.Points) error {
	within := TimeRange{FromMs: c.fromMs, ToMs: c.toMs}
	return c.read(func(b *blockRef) error { return c.section.decodePoints(c.id, b, decoder, within, dst) })
}

// Columns appends all samples of the current block, also those outside of the range, with
// values as numbers. Errors are those of Points.
func (c *Cursor) Columns(decoder *codec.BlockReader, dst *codec.Columns) error {
	return c.read(func(b *blockRef) error { return c.section.decodeColumns(c.id, b, decoder, dst) })
}

// read decodes the current block under one guard.
func (c *Cursor) read(decode func(*blockRef) error) error {
	return c.reader.mapping.Guard(func([]byte) error {
		b, last := &c.blocks[c.at], &c.blocks[len(c.blocks)-1]
		c.section.prefetch(&c.ahead, b, c.section.Offset+last.offset+int64(last.length))
		return decode(b)
	})
}
