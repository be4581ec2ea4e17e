package segment

import (
	"errors"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// Block describes one block of a series.
type Block struct {
	MinMs, MaxMs int64 // time of the first and the last sample
	Samples      int
	Bytes        int // in the file
}

// Cursor walks the blocks of a series that overlap a range of time. The zero
// value is ready for Find, and a Cursor may be used again for other series and
// segments; it keeps its memory. The caller holds a reference of the Reader for
// as long as it uses the Cursor. It is not safe for concurrent use.
type Cursor struct {
	reader       *Reader
	shard        uint16
	id           uint32
	fromMs, toMs int64
	nextPage     int // to look at when blocks are used up; -1: none

	blocks []blockRef // of one page, those that overlap
	at     int        // of the current block
	block  codec.BlockReader
	ahead  readAhead
	err    error
}

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
	s, ok, err := c.reader.section(b, c.shard)
	if !ok || err != nil || c.fromMs > s.MaxMs || c.toMs < s.MinMs {
		return err
	}
	c.nextPage = s.pages(pageIndex).first(c.id, c.fromMs)
	return c.load(&s)
}

// load reads pages until it has found blocks or there are no more.
func (c *Cursor) load(s *section) error {
	pages := s.pages(pageIndex)
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
		if err := c.loadPage(s, &e); err != nil {
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

func (c *Cursor) loadPage(s *section, e *pageEntry) error {
	var page pageReader
	if err := s.page(&page, e, pageIndex); err != nil {
		return err
	}
	ok, reason := page.seek(c.id)
	for ok && page.id == c.id {
		if reason = c.overlapping(&page, s); reason != "" {
			break
		}
		ok, reason = page.next()
	}
	if reason != "" {
		return s.corrupt(PartIndexPage, c.id, e.offset, reason)
	}
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

// Next moves to the next block, in order of time. It gives false at the end and
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
	c.err = c.reader.mapping.Guard(func(b []byte) error {
		s, ok, err := c.reader.section(b, c.shard)
		if !ok || err != nil {
			return err
		}
		return c.load(&s)
	})
	if c.err != nil || len(c.blocks) == 0 {
		return false
	}
	c.at = 0
	return true
}

// Err gives the error that ended Next. Errors of single blocks are not among
// them.
func (c *Cursor) Err() error { return c.err }

// Block describes the current block, after Next has given true.
func (c *Cursor) Block() Block {
	b := &c.blocks[c.at]
	return Block{MinMs: b.minMs, MaxMs: b.maxMs, Samples: b.samples, Bytes: b.length}
}

// Points appends all samples of the current block, also those outside of the
// range, to dst. After an error dst is as before, and Next may go on: a
// *CorruptError with PartBlock concerns this block alone.
func (c *Cursor) Points(dst *codec.Points) error {
	before := dst.Len()
	err := c.read(func(block *codec.BlockReader) (times []int64, err error) {
		if dst.Times, err = block.Times(dst.Times); err != nil {
			return nil, err
		}
		dst.Values, err = block.Values(dst.Values)
		return dst.Times[before:], err
	})
	if err != nil {
		dst.Times, dst.Values = dst.Times[:before], dst.Values[:before]
	}
	return err
}

// Columns is Points with values as numbers.
func (c *Cursor) Columns(dst *codec.Columns) error {
	before := dst.Len()
	err := c.read(func(block *codec.BlockReader) ([]int64, error) { return appendColumns(dst, block) })
	if err != nil {
		cutColumns(dst, before)
	}
	return err
}

// appendColumns decodes a block and gives the times that are new in dst.
func appendColumns(dst *codec.Columns, block *codec.BlockReader) (times []int64, err error) {
	before := dst.Len()
	if dst.Times, err = block.Times(dst.Times); err != nil {
		return nil, err
	}
	dst.Mantissas, dst.Scales, err = block.Numbers(dst.Mantissas, dst.Scales)
	return dst.Times[before:], err
}

func cutColumns(c *codec.Columns, n int) {
	c.Times, c.Mantissas, c.Scales = c.Times[:n], c.Mantissas[:n], c.Scales[:n]
}

// read decodes the current block under one guard.
func (c *Cursor) read(decode func(*codec.BlockReader) (times []int64, err error)) error {
	b := &c.blocks[c.at]
	return c.reader.mapping.Guard(func(mapped []byte) error {
		s, ok, err := c.reader.section(mapped, c.shard)
		if !ok || err != nil {
			return err
		}
		last := &c.blocks[len(c.blocks)-1]
		s.prefetch(&c.ahead, b, s.Offset+last.offset+int64(last.length))
		return s.decode(c.id, b, &c.block, decode)
	})
}

// decode checks and decodes a block. It must be called within Guard.
func (s *section) decode(id uint32, b *blockRef, block *codec.BlockReader, decode func(*codec.BlockReader) ([]int64, error)) error {
	payload, err := s.payload(id, b)
	if err != nil {
		return err
	}
	if err = block.Reset(payload); err != nil {
		return s.corruptBlock(id, b, err)
	}
	if block.Len() != b.samples {
		return s.corruptBlock(id, b, errBlockSamples)
	}
	times, err := decode(block)
	if err != nil {
		return s.corruptBlock(id, b, err)
	}
	if len(times) != b.samples || times[0] != b.minMs || times[len(times)-1] != b.maxMs {
		return s.corruptBlock(id, b, errBlockTimes)
	}
	return nil
}

var (
	errBlockSamples = errors.New("the number of samples differs from the index")
	errBlockTimes   = errors.New("the times differ from the index")
)

func (s *section) corruptBlock(id uint32, b *blockRef, cause error) error {
	return s.corrupt(PartBlock, id, b.offset, cause.Error())
}
