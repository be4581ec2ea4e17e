package segment

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"path"
	"slices"
	"sort"
	"sync"
	"sync/atomic"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// Reader is an open segment. It is safe for concurrent use. Its heap grows with the
// number of shards, not with that of series: the file is mapped and read in place.
type Reader struct {
	fs      vfs.FS
	name    string // path
	meta    Meta
	mapping *vfs.Mapping

	// shards is the shard directory: a copy, so that what was checked is what counts.
	shards []shardEntry

	references atomic.Int64
	dropped    atomic.Bool

	damaged struct {
		sync.Mutex
		rollups map[uint16]struct{} // shards, see NoteRollupDamage
	}
}

// Open maps a segment, given its path, and checks header, footer and shard
// directory. It costs the same for any number of series. The Reader begins with
// one reference. Errors are *CorruptError, ErrVersion and those of the disk.
func Open(fs vfs.FS, name string) (*Reader, error) {
	file, err := fs.Open(name)
	if err != nil {
		return nil, fmt.Errorf("segment: open: %w", err)
	}
	r := &Reader{fs: fs, name: name}
	err = r.open(file)
	if closeErr := file.Close(); err == nil && closeErr != nil {
		err = closeErr
	}
	if err != nil {
		if r.mapping != nil {
			err = errors.Join(err, r.mapping.Close())
		}
		return nil, err
	}
	r.references.Store(1)
	return r, nil
}

func (r *Reader) open(file vfs.File) error {
	size, err := file.Size()
	if err != nil {
		return fmt.Errorf("segment %s: %w", r.name, err)
	}
	if size < headerBytes+footerBytes {
		return r.corruptFile(0, "file too short")
	}
	if r.mapping, err = file.Map(size); err != nil {
		return fmt.Errorf("segment %s: map: %w", r.name, err)
	}
	_ = r.mapping.Advise(0, size, vfs.AdviceRandom) // see prefetch.go
	return r.mapping.Guard(r.check)
}

// check verifies what is read for every file.
func (r *Reader) check(b []byte) error {
	footerAt := len(b) - footerBytes
	f, reason, err := parseFooter(b[footerAt:])
	if err != nil {
		return fmt.Errorf("segment %s: %w", r.name, err)
	}
	if reason == "" && f.Bytes != int64(len(b)) {
		reason = "length of the file"
	}
	if reason != "" {
		return r.corruptFile(int64(footerAt), reason)
	}
	if reason = checkHeader(b[:headerBytes], &f.Meta); reason != "" {
		return r.corruptFile(0, reason)
	}
	directory := b[f.directoryOffset:footerAt]
	if crc32.Checksum(directory, castagnoli) != f.directoryCRC {
		return r.corruptFile(f.directoryOffset, "checksum of the shard directory")
	}
	shards, reason := parseShards(directory, f.directoryOffset, f.DayDigests)
	if reason != "" {
		return r.corruptFile(f.directoryOffset, reason)
	}
	r.meta = f.Meta
	r.meta.Name = path.Base(r.name)
	r.shards = shards
	return nil
}

// parseShards reads a shard directory and returns what is wrong with it: the sections
// must fill the file between header and directory without a gap.
func parseShards(directory []byte, end int64, dayDigests bool) (shards []shardEntry, reason string) {
	shards = make([]shardEntry, 0, len(directory)/shardEntryBytes)
	at, previous := int64(headerBytes), -1
	for ; len(directory) > 0; directory = directory[shardEntryBytes:] {
		e := parseShardEntry(directory)
		if !dayDigests {
			e.digestPages = 0 // an older program has left the number of a file that had them
		}
		switch {
		case int(e.Shard) <= previous:
			return nil, "order of shards"
		case e.Offset != at || e.Bytes < e.directoryBytes()+e.digestDirectoryBytes() || e.Bytes > end-at:
			return nil, "place of a shard"
		case e.indexPages == 0 || dayDigests && e.digestPages == 0 || e.Series < 1 || e.Blocks < e.Series || e.Samples < e.Blocks:
			return nil, "size of a shard"
		}
		previous, at = int(e.Shard), at+e.Bytes
		shards = append(shards, e)
	}
	if at != end {
		return nil, "bytes between the shards and their directory"
	}
	return shards, ""
}

func (r *Reader) corruptFile(offset int64, reason string) error {
	return &CorruptError{File: r.name, Part: PartFile, Offset: offset, Reason: reason}
}

// Meta describes the segment.
func (r *Reader) Meta() *Meta { return &r.meta }

// Acquire adds a reference. It returns false, and adds none, when the last one is
// gone.
func (r *Reader) Acquire() bool {
	for {
		n := r.references.Load()
		if n <= 0 {
			return false
		}
		if r.references.CompareAndSwap(n, n+1) {
			return true
		}
	}
}

// Drop marks the file for removal when the last reference is released. It
// releases none itself.
func (r *Reader) Drop() { r.dropped.Store(true) }

// Release releases one reference; the first one is that of Open. With the last
// one the file is unmapped and, if dropped, removed; errors are those of the disk.
func (r *Reader) Release() error {
	switch n := r.references.Add(-1); {
	case n > 0:
		return nil
	case n < 0:
		panic("BUG: segment " + r.name + " released more often than acquired")
	}
	err := r.mapping.Close()
	if r.dropped.Load() {
		if removeErr := r.fs.Remove(r.name); removeErr != nil {
			err = errors.Join(err, fmt.Errorf("segment: remove: %w", removeErr))
		}
	}
	return err
}

// ShardInfo describes one shard's section of a segment.
type ShardInfo struct {
	Shard         uint16
	Offset, Bytes int64 // of the section, from the start of the file
	Series        int64
	Blocks        int64
	Samples       int64
	MinMs, MaxMs  int64  // time of the first and the last sample
	Digest        uint64 // see DigestPoints
}

// Shards returns the shards that the segment has, in order.
func (r *Reader) Shards() []ShardInfo {
	infos := make([]ShardInfo, len(r.shards))
	for i := range r.shards {
		infos[i] = r.shards[i].ShardInfo
	}
	return infos
}

// ShardInfo returns one of Shards, if the segment has it.
func (r *Reader) ShardInfo(shard uint16) (info ShardInfo, ok bool) {
	n, ok := r.shardNumber(shard)
	if !ok {
		return ShardInfo{}, false
	}
	return r.shards[n].ShardInfo, true
}

// shardNumber returns the place of a shard in the directory.
func (r *Reader) shardNumber(shard uint16) (n int, ok bool) {
	return slices.BinarySearchFunc(r.shards, shard, func(e shardEntry, s uint16) int { return int(e.Shard) - int(s) })
}

// NoteRollupDamage remembers that rollups or day digests of a shard are damaged, and reports whether
// that is new: readers go on without them, so each series would tell of it again.
func (r *Reader) NoteRollupDamage(shard uint16) (first bool) {
	r.damaged.Lock()
	defer r.damaged.Unlock()
	if _, known := r.damaged.rollups[shard]; known {
		return false
	}
	if r.damaged.rollups == nil {
		r.damaged.rollups = map[uint16]struct{}{}
	}
	r.damaged.rollups[shard] = struct{}{}
	return true
}

// section is one shard's part of the mapped file.
type section struct {
	shardEntry
	reader    *Reader
	data      []byte // blocks and pages
	directory []byte // index pages, then rollup pages
}

// section finds a shard and checks its page directory. It must be called within
// Guard, and so must everything that reads the result.
func (r *Reader) section(b []byte, shard uint16) (s section, ok bool, err error) {
	n, ok := r.shardNumber(shard)
	if !ok {
		return s, false, nil
	}
	s, err = r.sectionAt(b, n)
	return s, err == nil, err
}

// sectionAt is section for a place in the shard directory.
func (r *Reader) sectionAt(b []byte, n int) (section, error) {
	e := r.shards[n]
	end := e.Offset + e.Bytes
	at := end - e.directoryBytes()
	s := section{shardEntry: e, reader: r, data: b[e.Offset:at], directory: b[at : end-crcBytes]}
	if directoryChecksum(e.Shard, s.directory) != binary.LittleEndian.Uint32(b[end-crcBytes:]) {
		return section{}, s.corrupt(PartDirectory, 0, int64(len(s.data)), "checksum of the page directory")
	}
	return s, nil
}

func (s *section) corrupt(part Part, id uint32, offset int64, reason string) error {
	return &CorruptError{File: s.reader.name, Part: part, Shard: s.Shard, ID: id, Offset: s.Offset + offset, Reason: reason}
}

// pagesOf returns the page directory of any kind.
func (s *section) pagesOf(kind pageKind) (pages, error) {
	switch kind {
	case pageDayDigests:
		return s.digestPages()
	case pageDayRollups:
		return s.dayPages()
	case pageHourEnds:
		return s.hourEndPages()
	default:
		return s.pages(kind), nil
	}
}

// pages returns the part of the page directory for index or rollup pages.
func (s *section) pages(kind pageKind) pages {
	index := int64(s.indexPages) * pageEntryBytes
	if kind == pageRollup {
		return pages{s.directory[index:]}
	}
	return pages{s.directory[:index]}
}

// digestPages checks the page directory of day digests and returns it. It has no page if the
// segment has no day digests.
func (s *section) digestPages() (pages, error) {
	if s.shardEntry.digestPages == 0 {
		return pages{}, nil
	}
	at := int64(len(s.data)) - s.digestDirectoryBytes()
	directory, crc := s.data[at:len(s.data)-crcBytes], s.data[len(s.data)-crcBytes:]
	if directoryChecksum(s.Shard, directory) != binary.LittleEndian.Uint32(crc) {
		return pages{}, s.corrupt(PartDayDigests, 0, at, "checksum of the page directory of day digests")
	}
	return pages{directory}, nil
}

// dayPages checks the page directory of rollups by day and returns it. It has no page if the
// segment has no such pages.
func (s *section) dayPages() (pages, error) {
	if !s.reader.meta.DayRollups {
		return pages{}, nil
	}
	return s.countedPages(int64(len(s.data))-s.digestDirectoryBytes(), "rollups by day")
}

// hourEndPages does it for the first and last values of hours.
func (s *section) hourEndPages() (pages, error) {
	if !s.reader.meta.HourEnds {
		return pages{}, nil
	}
	end := int64(len(s.data)) - s.digestDirectoryBytes()
	if s.reader.meta.DayRollups {
		days, err := s.dayPages()
		if err != nil {
			return pages{}, err
		}
		end -= int64(len(days.b)) + countedTailBytes
	}
	return s.countedPages(end, "ends of hours")
}

// countedPages checks the page directory that ends at an offset and returns it.
func (s *section) countedPages(end int64, what string) (pages, error) {
	if end < countedTailBytes {
		return pages{}, s.corrupt(PartRollups, 0, 0, "no page directory of "+what)
	}
	tail := s.data[end-countedTailBytes : end]
	length := int64(binary.LittleEndian.Uint32(tail)) * pageEntryBytes
	at := end - countedTailBytes - length
	if at < 0 || directoryChecksum(s.Shard, s.data[at:end-crcBytes]) != binary.LittleEndian.Uint32(tail[4:]) {
		return pages{}, s.corrupt(PartRollups, 0, max(at, 0), "checksum of the page directory of "+what)
	}
	return pages{s.data[at : at+length]}, nil
}

// page returns a page's frame.
func (s *section) page(p *pageReader, e *pageEntry, kind pageKind) error {
	part := partOf(kind)
	if e.offset < 0 || e.offset > int64(len(s.data)) || int64(e.length) > int64(len(s.data))-e.offset {
		return s.corrupt(part, e.id, e.offset, "place of the page")
	}
	if reason := p.reset(s.data[e.offset:e.offset+int64(e.length)], kind, s.Shard); reason != "" {
		return s.corrupt(part, e.id, e.offset, reason)
	}
	return nil
}

func (s *section) limits() indexLimits {
	return indexLimits{Partition: s.reader.meta.Partition, dataBytes: int64(len(s.data))}
}

// payload checks a block and returns its payload, within the mapping.
func (s *section) payload(id uint32, b *blockRef) ([]byte, error) {
	stored := s.data[b.offset : b.offset+int64(b.length)]
	if blockChecksum(s.Shard, id, b, stored[crcBytes:]) != binary.LittleEndian.Uint32(stored) {
		return nil, s.corrupt(PartBlock, id, b.offset, "checksum of the block")
	}
	return stored[crcBytes:], nil
}

// pages is a page directory of one kind, in order of (id, time).
type pages struct{ b []byte }

func (p pages) len() int           { return len(p.b) / pageEntryBytes }
func (p pages) at(n int) pageEntry { return parsePageEntry(p.b[n*pageEntryBytes:]) }
func (p pages) id(n int) uint32    { return binary.LittleEndian.Uint32(p.b[n*pageEntryBytes:]) }

// first returns the first page that can have samples of a series at or after
// fromMs, or the number of pages.
func (p pages) first(id uint32, fromMs int64) int {
	// The first page that starts with the series or a later one.
	n := sort.Search(p.len(), func(i int) bool { return p.id(i) >= id })
	// The page before may have it as well, but not first.
	start := max(n-1, 0)
	for ; n < p.len() && p.id(n) == id && p.at(n).firstMs <= fromMs; n++ {
		start = n
	}
	return start
}

// has reports whether a page can have entries of a series.
func (p pages) has(n int, id uint32) bool { return n < p.len() && p.id(n) <= id }

// holds reports whether page n is the only one that can have entries of a series.
func (p pages) holds(n int, id uint32) bool {
	return n >= 0 && p.id(n) < id && (n+1 == p.len() || p.id(n+1) > id)
}
