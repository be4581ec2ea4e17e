package segment

import (
	"encoding/binary"
	"math"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// sectionWriter writes the section of one shard: blocks, with index pages, rollup
// pages and pages of days between them as they fill, and the page directories.
type sectionWriter struct {
	out     *output
	encoder *codec.BlockEncoder
	meta    *Meta  // of the file: partition, size of blocks, rollups
	yield   func() // see Options.Yield

	info   ShardInfo
	digest uint64

	open    bool // a series is open
	id      uint32
	lastMs  int64 // of the last sample added
	carried bool  // the digests of days come from a merge's inputs, see Merge
	pending codec.Columns
	entry   []blockRef // blocks of the series that the index does not have yet
	body    []byte     // scratch

	index       pageBuilder
	rollup      pageBuilder
	digests     pageBuilder
	days        pageBuilder
	hourEnds    pageBuilder
	rollups     rollupBuilder
	indexPages  []byte // page directory so far
	rollupPages []byte
	digestPages []byte
	dayPages    []byte
	hourPages   []byte // of hourEnds
	rollupBody  []byte // scratch
	page        []byte // scratch
}

func (s *sectionWriter) init(out *output, encoder *codec.BlockEncoder, meta *Meta) {
	s.out, s.encoder, s.meta = out, encoder, meta
	s.rollups.init(meta)
}

func (s *sectionWriter) begin(shard uint16) {
	s.info = ShardInfo{Shard: shard, Offset: s.out.offset}
	s.digest = 0
	s.open = false
	s.indexPages, s.rollupPages = s.indexPages[:0], s.rollupPages[:0]
	s.digestPages, s.dayPages, s.hourPages = s.digestPages[:0], s.dayPages[:0], s.hourPages[:0]
	s.index.count, s.rollup.count, s.digests.count, s.days.count, s.hourEnds.count = 0, 0, 0, 0, 0
}

// at is the offset within the section.
func (s *sectionWriter) at() int64 { return s.out.offset - s.info.Offset }

func (s *sectionWriter) beginSeries(id uint32) error {
	if err := s.endSeries(); err != nil {
		return err
	}
	s.id, s.open, s.lastMs = id, true, math.MinInt64
	s.info.Series++
	return nil
}

// add takes samples that go on where the series ended.
func (s *sectionWriter) add(c *codec.Columns) error {
	switch {
	case s.meta.Rollups:
		s.foldRollups(c, false)
	case s.meta.DayDigests && !s.carried:
		s.rollups.foldDigests(c)
		s.commitPieces()
	}
	return s.store(c)
}

// store writes samples that go on where the series ended into blocks.
func (s *sectionWriter) store(c *codec.Columns) error {
	s.lastMs = c.Times[len(c.Times)-1]
	full := s.meta.BlockSamples
	for from := 0; from < len(c.Times); {
		if s.pending.Len() == 0 && len(c.Times)-from >= full {
			whole := columnsBetween(c, from, from+full)
			if err := s.encode(&whole); err != nil {
				return err
			}
			from += full
			continue
		}
		to := min(len(c.Times), from+full-s.pending.Len())
		part := columnsBetween(c, from, to)
		s.pending.Times = append(s.pending.Times, part.Times...)
		s.pending.Mantissas = append(s.pending.Mantissas, part.Mantissas...)
		s.pending.Scales = append(s.pending.Scales, part.Scales...)
		from = to
		if s.pending.Len() == full {
			if err := s.flushPending(); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *sectionWriter) flushPending() error {
	if s.pending.Len() == 0 {
		return nil
	}
	err := s.encode(&s.pending)
	s.pending.Reset()
	return err
}

// encode writes a block straight into the output's buffer.
func (s *sectionWriter) encode(c *codec.Columns) error {
	o := s.out
	start := len(o.buffer)
	o.buffer = append(o.buffer, 0, 0, 0, 0)
	buffer, err := s.encoder.Append(o.buffer, c)
	if err != nil {
		o.buffer = o.buffer[:start]
		return err
	}
	block := blockRef{
		offset: s.at(), length: len(buffer) - start, samples: c.Len(),
		minMs: c.Times[0], maxMs: c.Times[c.Len()-1],
	}
	binary.LittleEndian.PutUint32(buffer[start:], blockChecksum(s.info.Shard, s.id, &block, buffer[start+crcBytes:]))
	o.buffer = buffer
	o.offset += int64(block.length)
	o.flushIfLarge()
	s.note(&block)
	return o.err
}

// addEncoded copies a block, checksum included, that another segment has for the
// same series. Its samples go on where the series ended.
func (s *sectionWriter) addEncoded(block blockRef, b []byte) error {
	if err := s.flushPending(); err != nil {
		return err
	}
	block.offset = s.at()
	s.lastMs = block.maxMs
	s.out.write(b)
	s.note(&block)
	return s.out.err
}

// note takes a block that was written into the index and the sums.
func (s *sectionWriter) note(block *blockRef) {
	if s.info.Blocks == 0 {
		s.info.MinMs, s.info.MaxMs = block.minMs, block.maxMs
	}
	s.info.Blocks++
	s.info.Samples += int64(block.samples)
	s.info.MinMs, s.info.MaxMs = min(s.info.MinMs, block.minMs), max(s.info.MaxMs, block.maxMs)
	s.entry = append(s.entry, *block)
	if len(s.entry) == entryBlocksMax {
		s.commitEntry()
	}
	if s.yield != nil {
		s.yield()
	}
}

// commitEntry moves the blocks of an entry into the index. Pages are written only
// here and at the end, so that the blocks of an entry follow each other.
func (s *sectionWriter) commitEntry() {
	if len(s.entry) == 0 {
		return
	}
	first := &s.entry[0]
	if s.index.empty() {
		s.index.begin(s.id, first.offset, first.minMs)
	}
	s.body = appendIndexBody(s.body[:0], s.entry, s.index.base, s.meta.StartMs, s.meta.BlockSamples)
	if !s.index.fits(len(s.body), indexPageBytes) && !s.index.empty() {
		s.indexPages = s.writePage(&s.index, pageIndex, s.indexPages)
		s.index.begin(s.id, first.offset, first.minMs)
		s.body = appendIndexBody(s.body[:0], s.entry, s.index.base, s.meta.StartMs, s.meta.BlockSamples)
	}
	s.index.add(s.id, s.body)
	s.entry = s.entry[:0]
}

// writePage writes a page, empties it, and appends its line to the directory.
func (s *sectionWriter) writePage(p *pageBuilder, kind pageKind, directory []byte) []byte {
	s.page = p.appendTo(s.page[:0], kind, s.info.Shard)
	entry := pageEntry{id: p.firstID, length: uint32(len(s.page)), offset: s.at(), firstMs: p.firstMs}
	s.out.write(s.page)
	p.count = 0
	return appendPageEntry(directory, &entry)
}

// foldRollups takes samples into the rollups of the series. Of thinned hours the samples that are
// kept go into the day's digest by their own: see foldKept.
func (s *sectionWriter) foldRollups(c *codec.Columns, thinned bool) {
	for rest := *c; rest.Len() > 0; {
		n := s.rollups.fold(&rest, thinned)
		rest = columnsBetween(&rest, n, rest.Len())
		s.commitPieces()
	}
}

// storeKept writes samples of the open hour, of which the rollups tell already.
func (s *sectionWriter) storeKept(c *codec.Columns) error {
	s.rollups.foldKept(c)
	return s.store(c)
}

// foldRecord takes the record of an hour into the rollups of the series.
func (s *sectionWriter) foldRecord(r *rollupRecord) {
	if s.rollups.moveTo(r.startMs) {
		s.commitPieces()
	}
	s.rollups.foldRecord(r)
	s.commitPieces()
}

// commitPieces begins new entries of rollups where those that are open have their size.
func (s *sectionWriter) commitPieces() {
	if s.rollups.pieceFull() {
		s.commitRollups()
	}
	if len(s.rollups.digests) >= pieceDays {
		s.commitDayDigests()
	}
}

func (s *sectionWriter) commitRollups() {
	firstMs, ok := s.rollups.firstMs()
	if !ok {
		return
	}
	s.rollupBody = s.rollups.appendHours(s.rollupBody[:0])
	s.rollupPages = s.addEntry(&s.rollup, pageRollup, s.rollupPages, firstMs, rollupPageBytes)
	s.rollupBody = s.rollups.appendHourEnds(s.rollupBody[:0])
	s.hourPages = s.addEntry(&s.hourEnds, pageHourEnds, s.hourPages, firstMs, rollupPageBytes)
	if firstMs, ok = s.rollups.firstDayMs(); ok {
		s.rollupBody = s.rollups.appendDays(s.rollupBody[:0])
		s.dayPages = s.addEntry(&s.days, pageDayRollups, s.dayPages, firstMs, indexPageBytes)
	}
	s.rollups.forget()
}

// commitDayDigests moves the digests of the days that are over into their page.
func (s *sectionWriter) commitDayDigests() {
	days := s.rollups.digests
	if len(days) == 0 {
		return
	}
	s.rollupBody = appendDayDigests(s.rollupBody[:0], days, floorTo(s.meta.StartMs, DayMs))
	s.digestPages = s.addEntry(&s.digests, pageDayDigests, s.digestPages, days[0].startMs, indexPageBytes)
	s.rollups.digests = days[:0]
}

// addEntry adds rollupBody, an entry that tells of firstMs and later, to the open page of a kind,
// or to a new one if that page would exceed a size, and returns the page directory.
func (s *sectionWriter) addEntry(p *pageBuilder, kind pageKind, directory []byte, firstMs int64, pageBytes int) []byte {
	if p.empty() {
		p.begin(s.id, 0, firstMs)
	} else if !p.fits(len(s.rollupBody), pageBytes) {
		s.commitEntry() // no page may come between the blocks of an entry
		directory = s.writePage(p, kind, directory)
		p.begin(s.id, 0, firstMs)
	}
	p.add(s.id, s.rollupBody)
	return directory
}

func (s *sectionWriter) endSeries() error {
	if !s.open {
		return nil
	}
	s.open = false
	if err := s.flushPending(); err != nil {
		return err
	}
	s.commitEntry()
	if s.meta.Rollups {
		s.rollups.close()
		s.commitRollups()
	}
	if s.meta.DayDigests {
		s.rollups.closeDigest()
		s.commitDayDigests()
	}
	return s.out.err
}

// end completes the section with its page directories.
func (s *sectionWriter) end() (shardEntry, error) {
	if err := s.endSeries(); err != nil {
		return shardEntry{}, err
	}
	// What each query reads, or one by day, comes last, beside the directories.
	s.hourPages = s.endPages(&s.hourEnds, pageHourEnds, s.hourPages)
	s.rollupPages = s.endPages(&s.rollup, pageRollup, s.rollupPages)
	s.indexPages = s.endPages(&s.index, pageIndex, s.indexPages)
	s.digestPages = s.endPages(&s.digests, pageDayDigests, s.digestPages)
	s.dayPages = s.endPages(&s.days, pageDayRollups, s.dayPages)
	if s.meta.HourEnds {
		s.hourPages = s.writeCounted(s.hourPages)
	}
	if s.meta.DayRollups {
		s.dayPages = s.writeCounted(s.dayPages)
	}
	if len(s.digestPages) > 0 {
		s.out.write(s.digestPages)
		s.out.write(binary.LittleEndian.AppendUint32(nil, directoryChecksum(s.info.Shard, s.digestPages)))
	}
	crc := directoryChecksum(s.info.Shard, s.indexPages, s.rollupPages)
	s.out.write(s.indexPages)
	s.out.write(s.rollupPages)
	s.out.write(binary.LittleEndian.AppendUint32(nil, crc))
	s.info.Bytes = s.at()
	s.info.Digest = s.digest
	entry := shardEntry{
		ShardInfo:   s.info,
		indexPages:  uint32(len(s.indexPages) / pageEntryBytes),
		rollupPages: uint32(len(s.rollupPages) / pageEntryBytes),
		digestPages: uint32(len(s.digestPages) / pageEntryBytes),
	}
	return entry, s.out.err
}

// endPages writes the open page of a kind, if there is one, and returns the page directory.
func (s *sectionWriter) endPages(p *pageBuilder, kind pageKind, directory []byte) []byte {
	if p.empty() {
		return directory
	}
	return s.writePage(p, kind, directory)
}

// writeCounted writes a page directory that tells its own length, and returns it with that.
func (s *sectionWriter) writeCounted(directory []byte) []byte {
	directory = binary.LittleEndian.AppendUint32(directory, uint32(len(directory)/pageEntryBytes))
	s.out.write(directory)
	s.out.write(binary.LittleEndian.AppendUint32(nil, directoryChecksum(s.info.Shard, directory)))
	return directory
}
