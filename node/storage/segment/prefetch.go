package segment

import "github.com/tickmesh/tickmesh/node/storage/vfs"

// A segment is mapped for random access: the kernel reads the blocks of the disk
// that are touched and no others. With its usual reading ahead, which may be of
// megabytes, each short read of a segment that memory does not hold would push out
// what other queries need. What is known to be wanted is asked for in advance.

const (
	// aheadLeast is the shortest stretch that is asked for: two blocks of the disk.
	// A shorter one is read as fast by touching it, and most queries want no more.
	aheadLeast = 2 * vfs.BlockBytes
	// aheadBytes is how far a reader of blocks reads ahead, and aheadMergeBytes how
	// far the inputs of one merge do together.
	aheadBytes      = 256 << 10
	aheadMergeBytes = 8 << 20
)

// readAhead describes what a reader that moves forward through a file should ask for.
type readAhead struct {
	bytes int64 // to be ahead at most
	asked int64 // offset up to which the file has been asked for
}

// next returns the range to ask for, of length 0 if there is none, before [from, end)
// is read by a reader that wants nothing from limit on.
func (a *readAhead) next(from, end, limit int64) (offset, length int64) {
	if a.asked >= limit || end+a.bytes/2 <= a.asked {
		return 0, 0
	}
	offset = max(from, a.asked)
	a.asked = min(limit, max(end, offset+a.bytes))
	if length = a.asked - offset; length <= aheadLeast && a.asked == limit {
		return 0, 0
	}
	return offset, length
}

// prefetch asks for what a reader of blocks is about to read. It is a hint: what
// fails here shows when the bytes are read.
func (s *section) prefetch(a *readAhead, b *blockRef, limit int64) {
	from := s.Offset + b.offset
	if offset, length := a.next(from, from+int64(b.length), limit); length > 0 {
		_ = s.reader.mapping.Advise(offset, length, vfs.AdviceWillNeed)
	}
}

// PrefetchIndex asks for the part of the index that Find reads for a series. It is a
// hint for who is going to read several series: their blocks of the disk are then
// read at once.
func (r *Reader) PrefetchIndex(shard uint16, id uint32, fromMs int64) {
	r.prefetchPage(pageIndex, shard, id, fromMs)
}

// PrefetchRollups asks for the first page that Rollups reads for a series. It is a hint like
// PrefetchIndex.
func (r *Reader) PrefetchRollups(shard uint16, id uint32, fromMs, widthMs int64) {
	r.prefetchPage(r.meta.rollupPages(widthMs), shard, id, fromMs)
}

// PrefetchHourEnds asks for the first page that HourEnds reads for a series. It is a hint like
// PrefetchIndex.
func (r *Reader) PrefetchHourEnds(shard uint16, id uint32, fromMs int64) {
	r.prefetchPage(pageHourEnds, shard, id, fromMs)
}

// PrefetchDayDigests asks for the first page that DayDigests reads for a series. It is a hint
// like PrefetchIndex.
func (r *Reader) PrefetchDayDigests(shard uint16, id uint32, fromMs int64) {
	r.prefetchPage(pageDayDigests, shard, id, fromMs)
}

func (r *Reader) prefetchPage(kind pageKind, shard uint16, id uint32, fromMs int64) {
	_ = r.mapping.Guard(func(b []byte) error { // who reads the page is told what is wrong
		s, ok, err := r.section(b, shard)
		if err != nil || !ok {
			return err
		}
		pages, err := s.pagesOf(kind)
		if n := pages.first(id, fromMs); err == nil && pages.has(n, id) {
			e := pages.at(n)
			return r.mapping.Advise(s.Offset+e.offset, int64(e.length), vfs.AdviceWillNeed)
		}
		return err
	})
}

// Prefetch asks for the blocks that the cursor has found, after Find. It is a hint
// like PrefetchIndex.
func (c *Cursor) Prefetch() {
	if len(c.blocks) == 0 {
		return
	}
	first, last := &c.blocks[0], &c.blocks[len(c.blocks)-1]
	length := min(last.offset+int64(last.length)-first.offset, aheadBytes)
	_ = c.reader.mapping.Advise(c.section.Offset+first.offset, length, vfs.AdviceWillNeed)
}
