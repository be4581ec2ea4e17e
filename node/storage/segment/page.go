package segment

import (
	"encoding/binary"
	"hash/crc32"
	"sort"
)

// A page holds entries of series in order of their ids; the kinds of pages differ in the
// entries' bodies only.
const (
	indexPageBytes  = 4 << 10  // a page, of days too, is closed when the next entry would go beyond
	rollupPageBytes = 16 << 10 // larger: a rollup is read for many hours at once
	pageBytesMax    = 1<<16 - 1
	restartEntries  = 16 // entries between two points that a search can start at
	restartBytes    = 6
	pageTailBytes   = 8 + 2 + crcBytes
)

type pageKind uint8

const (
	pageIndex      pageKind = 1
	pageRollup     pageKind = 2
	pageDayDigests pageKind = 3
	pageDayRollups pageKind = 4
	pageHourEnds   pageKind = 5
)

// pageBuilder builds one page after the other.
type pageBuilder struct {
	entries  []byte
	restarts []byte
	count    int
	base     int64 // data offset that the entries' offsets count from
	firstID  uint32
	lastID   uint32
	firstMs  int64
}

func (p *pageBuilder) empty() bool { return p.count == 0 }

// fits reports whether a body can be added without going beyond limit.
func (p *pageBuilder) fits(body, limit int) bool {
	return len(p.entries)+len(p.restarts)+body+restartBytes+2*binary.MaxVarintLen32+pageTailBytes <= limit
}

// begin sets the fields of a page that its first entry has.
func (p *pageBuilder) begin(id uint32, base, firstMs int64) {
	*p = pageBuilder{entries: p.entries[:0], restarts: p.restarts[:0], base: base, firstID: id, firstMs: firstMs}
}

func (p *pageBuilder) add(id uint32, body []byte) {
	if p.count%restartEntries == 0 {
		p.restarts = binary.LittleEndian.AppendUint32(p.restarts, id)
		p.restarts = binary.LittleEndian.AppendUint16(p.restarts, uint16(len(p.entries)))
		p.lastID = id
	}
	p.entries = binary.AppendUvarint(p.entries, uint64(id-p.lastID))
	p.entries = binary.AppendUvarint(p.entries, uint64(len(body)))
	p.entries = append(p.entries, body...)
	p.lastID = id
	p.count++
}

// partOf returns what fails with a page of a kind.
func partOf(kind pageKind) Part {
	switch kind {
	case pageIndex:
		return PartIndexPage
	case pageRollup, pageDayRollups, pageHourEnds:
		return PartRollups
	default:
		return PartDayDigests
	}
}

// appendTo appends the finished page.
func (p *pageBuilder) appendTo(dst []byte, kind pageKind, shard uint16) []byte {
	start := len(dst)
	dst = append(append(dst, p.entries...), p.restarts...)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(p.base))
	dst = binary.LittleEndian.AppendUint16(dst, uint16(len(p.restarts)/restartBytes))
	return binary.LittleEndian.AppendUint32(dst, pageChecksum(kind, shard, dst[start:]))
}

// pageChecksum covers a page and, by exclusive or, whose and what it is.
func pageChecksum(kind pageKind, shard uint16, b []byte) uint32 {
	return crc32.Checksum(b, castagnoli) ^ uint32(kind)<<16 ^ uint32(shard)
}

// pageReader walks the entries of a page. Everything is bounds-checked, so that
// any bytes are safe to read.
type pageReader struct {
	entries  []byte
	restarts []byte
	base     int64
	at       int // of the next entry
	count    int // entries passed since a restart
	previous uint32

	id     uint32 // of the entry that next found
	body   []byte
	stands bool // there is one
}

// reset starts to read a page. The reason is empty when its frame is intact.
func (p *pageReader) reset(b []byte, kind pageKind, shard uint16) (reason string) {
	if len(b) < pageTailBytes+restartBytes {
		return "page too short"
	}
	end := len(b) - crcBytes
	if pageChecksum(kind, shard, b[:end]) != binary.LittleEndian.Uint32(b[end:]) {
		return "checksum of the page"
	}
	restarts := int(binary.LittleEndian.Uint16(b[end-2:])) * restartBytes
	tail := end - 2 - 8
	if restarts == 0 || restarts > tail {
		return "restarts of the page"
	}
	*p = pageReader{
		entries:  b[:tail-restarts],
		restarts: b[tail-restarts : tail],
		base:     int64(binary.LittleEndian.Uint64(b[tail:])),
	}
	return ""
}

func (p *pageReader) restart(n int) (id uint32, at int) {
	b := p.restarts[n*restartBytes:]
	return binary.LittleEndian.Uint32(b), int(binary.LittleEndian.Uint16(b[4:]))
}

// next moves to the next entry. At the end both results say no.
func (p *pageReader) next() (ok bool, reason string) {
	p.stands = false
	if p.at == len(p.entries) {
		return false, ""
	}
	if p.at > len(p.entries) {
		return false, "entry of the page"
	}
	if p.count%restartEntries == 0 {
		n := p.count / restartEntries
		if n*restartBytes >= len(p.restarts) {
			return false, "restarts of the page"
		}
		p.previous, _ = p.restart(n)
	}
	delta, n := binary.Uvarint(p.entries[p.at:])
	if n <= 0 || delta > uint64(^uint32(0)-p.previous) {
		return false, "id in the page"
	}
	at := p.at + n
	length, n := binary.Uvarint(p.entries[at:])
	if n <= 0 || length > uint64(len(p.entries)-at-n) {
		return false, "length of an entry of the page"
	}
	at += n
	p.id, p.body = p.previous+uint32(delta), p.entries[at:at+int(length)]
	p.previous, p.at = p.id, at+int(length)
	p.count++
	p.stands = true
	return true, ""
}

// seek moves to the first entry of a series, if it is in the page. After a seek the
// reader goes through all entries of the series, so that a seek for a later one can
// go on from there.
func (p *pageReader) seek(id uint32) (ok bool, reason string) {
	for steps := 0; p.stands && p.id <= id && steps < restartEntries; steps++ {
		if p.id == id {
			return true, ""
		}
		if ok, reason = p.next(); !ok || p.id > id {
			return false, reason
		}
	}
	restarts := len(p.restarts) / restartBytes
	// A series may have several entries: start before the first restart that has it.
	n := sort.Search(restarts, func(i int) bool { first, _ := p.restart(i); return first >= id })
	n = max(n-1, 0)
	_, p.at = p.restart(n)
	p.count = n * restartEntries
	for {
		if ok, reason = p.next(); !ok || p.id >= id {
			return ok && p.id == id, reason
		}
	}
}
