package segment

import (
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"math/bits"

	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// The fixed parts of a file; FORMAT.md has their layout.
const (
	formatVersion   = 1 // of files without rollups, and of old ones with them
	formatScanSums  = 2 // of files whose rollups tell the sums of floats
	formatThinned   = 3 // of such files whose rollups tell of samples that are gone
	headerBytes     = 64
	footerBytes     = 128
	shardEntryBytes = 80
	pageEntryBytes  = 24
	crcBytes        = 4

	countedTailBytes = 4 + crcBytes // number of pages and checksum, of a directory that tells its own length

	flagDense      = 1 << 0
	flagRollups    = 1 << 1
	flagDayDigests = 1 << 2
	flagDayRollups = 1 << 3
	flagHourEnds   = 1 << 4

	headerMagic = "TMSEGMT\x01"
	footerMagic = "TMSEGEND"
)

//nolint:gochecknoglobals // a constant table
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func appendHeader(dst []byte, m *Meta) []byte {
	start := len(dst)
	dst = append(dst, headerMagic...)
	dst = binary.LittleEndian.AppendUint32(dst, versionOf(m))
	dst = binary.LittleEndian.AppendUint32(dst, 0)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(m.StartMs))
	dst = binary.LittleEndian.AppendUint64(dst, uint64(m.EndMs))
	dst = binary.LittleEndian.AppendUint64(dst, m.SequenceLow)
	dst = binary.LittleEndian.AppendUint64(dst, m.SequenceHigh)
	dst = append(dst, make([]byte, headerBytes-crcBytes-(len(dst)-start))...)
	return binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
}

// versionOf returns the version of a file's format.
func versionOf(m *Meta) uint32 {
	switch {
	case m.Thinned:
		return formatThinned
	case m.ScanSums:
		return formatScanSums
	default:
		return formatVersion
	}
}

// checkHeader returns what is wrong with a header, given the meta of the footer.
func checkHeader(b []byte, m *Meta) string {
	var want [headerBytes]byte
	if string(appendHeader(want[:0], m)) != string(b) {
		return "the header does not fit the footer"
	}
	return ""
}

// footer is the end of a file: its Meta but for Name, and the place of the shard
// directory.
type footer struct {
	Meta
	directoryOffset int64
	directoryCRC    uint32
}

func appendFooter(dst []byte, f *footer) []byte {
	start := len(dst)
	for _, v := range [...]uint64{uint64(f.StartMs), uint64(f.EndMs), f.SequenceLow, f.SequenceHigh, uint64(f.directoryOffset)} {
		dst = binary.LittleEndian.AppendUint64(dst, v)
	}
	dst = binary.LittleEndian.AppendUint32(dst, uint32(f.Shards))
	dst = binary.LittleEndian.AppendUint32(dst, uint32(f.BlockSamples))
	var flags byte
	if f.Dense {
		flags |= flagDense
	}
	if f.Rollups {
		flags |= flagRollups
	}
	if f.DayDigests {
		flags |= flagDayDigests
	}
	if f.DayRollups {
		flags |= flagDayRollups
	}
	if f.HourEnds {
		flags |= flagHourEnds
	}
	dst = append(dst, f.Level, flags)
	dst = binary.LittleEndian.AppendUint16(dst, f.ShardLow)
	dst = binary.LittleEndian.AppendUint16(dst, f.ShardHigh)
	dst = append(dst, 0, 0)
	for _, v := range [...]int64{f.Series, f.Blocks, f.Samples, f.MinMs, f.MaxMs, f.Bytes} {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
	}
	dst = binary.LittleEndian.AppendUint32(dst, f.directoryCRC)
	dst = binary.LittleEndian.AppendUint32(dst, versionOf(&f.Meta))
	dst = append(dst, 0, 0, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, crc32.Checksum(dst[start:], castagnoli))
	return append(dst, footerMagic...)
}

// parseFooter reads the last footerBytes of a file. The reason is empty when all
// is well; it is an error of version when only that is unknown.
func parseFooter(b []byte) (f footer, reason string, err error) {
	if string(b[footerBytes-8:]) != footerMagic {
		return f, "no footer: the file is cut short or is not a segment", nil
	}
	if crc32.Checksum(b[:116], castagnoli) != binary.LittleEndian.Uint32(b[116:]) {
		return f, "checksum of the footer", nil
	}
	version := binary.LittleEndian.Uint32(b[108:])
	if version < formatVersion || version > formatThinned {
		return f, "", fmt.Errorf("%w: %d, this program knows %d to %d", ErrVersion, version, formatVersion, formatThinned)
	}
	f.ScanSums, f.Thinned = version >= formatScanSums, version == formatThinned
	i64 := func(at int) int64 { return int64(binary.LittleEndian.Uint64(b[at:])) }
	f.StartMs, f.EndMs = i64(0), i64(8)
	f.SequenceLow, f.SequenceHigh = uint64(i64(16)), uint64(i64(24))
	f.directoryOffset = i64(32)
	f.Shards = int(binary.LittleEndian.Uint32(b[40:]))
	f.BlockSamples = int(binary.LittleEndian.Uint32(b[44:]))
	f.Level = b[48]
	f.Dense, f.Rollups = b[49]&flagDense != 0, b[49]&flagRollups != 0
	f.DayDigests = b[49]&flagDayDigests != 0
	f.DayRollups = f.DayDigests && b[49]&flagDayRollups != 0 // whose directory lies before that of digests
	f.HourEnds = f.DayDigests && b[49]&flagHourEnds != 0     // and this one before both
	f.ShardLow, f.ShardHigh = binary.LittleEndian.Uint16(b[50:]), binary.LittleEndian.Uint16(b[52:])
	f.Series, f.Blocks, f.Samples = i64(56), i64(64), i64(72)
	f.MinMs, f.MaxMs, f.Bytes = i64(80), i64(88), i64(96)
	f.directoryCRC = binary.LittleEndian.Uint32(b[104:])
	return f, f.wrong(), nil
}

// wrong returns which value of a footer cannot be, or "".
func (f *footer) wrong() string {
	switch {
	case f.Shards < 1 || f.Shards > 1<<16:
		return "number of shards"
	case f.BlockSamples < 1 || f.BlockSamples > codec.BlockSamplesMax:
		return "samples of a block"
	case f.Bytes < headerBytes+footerBytes || f.directoryOffset < headerBytes ||
		f.directoryOffset != f.Bytes-footerBytes-int64(f.Shards)*shardEntryBytes:
		return "place of the shard directory"
	case f.StartMs >= f.EndMs || f.MinMs > f.MaxMs || !f.Has(f.MinMs) || !f.Has(f.MaxMs):
		return "times"
	}
	return ""
}

// shardEntry is one shard's line in the shard directory.
type shardEntry struct {
	ShardInfo
	indexPages, rollupPages, digestPages uint32
}

func appendShardEntry(dst []byte, e *shardEntry) []byte {
	dst = binary.LittleEndian.AppendUint16(dst, e.Shard)
	dst = append(dst, 0, 0)
	dst = binary.LittleEndian.AppendUint32(dst, e.indexPages)
	dst = binary.LittleEndian.AppendUint32(dst, e.rollupPages)
	dst = binary.LittleEndian.AppendUint32(dst, e.digestPages)
	for _, v := range [...]int64{e.Offset, e.Bytes, e.Series, e.Blocks, e.Samples, e.MinMs, e.MaxMs, int64(e.Digest)} {
		dst = binary.LittleEndian.AppendUint64(dst, uint64(v))
	}
	return dst
}

func parseShardEntry(b []byte) (e shardEntry) {
	i64 := func(at int) int64 { return int64(binary.LittleEndian.Uint64(b[at:])) }
	e.Shard = binary.LittleEndian.Uint16(b)
	e.indexPages, e.rollupPages, e.digestPages = binary.LittleEndian.Uint32(b[4:]), binary.LittleEndian.Uint32(b[8:]), binary.LittleEndian.Uint32(b[12:])
	e.Offset, e.Bytes = i64(16), i64(24)
	e.Series, e.Blocks, e.Samples = i64(32), i64(40), i64(48)
	e.MinMs, e.MaxMs, e.Digest = i64(56), i64(64), uint64(i64(72))
	return e
}

// directoryBytes is the length of the page directory at the end of the section.
func (e *shardEntry) directoryBytes() int64 {
	return (int64(e.indexPages)+int64(e.rollupPages))*pageEntryBytes + crcBytes
}

// digestDirectoryBytes is the length of the page directory of day digests, which lies before
// the other one.
func (e *shardEntry) digestDirectoryBytes() int64 {
	if e.digestPages == 0 {
		return 0
	}
	return int64(e.digestPages)*pageEntryBytes + crcBytes
}

// pageEntry is one page's line in a page directory.
type pageEntry struct {
	id      uint32 // of the first entry
	length  uint32 // bytes
	offset  int64  // within the section
	firstMs int64  // time of the first entry
}

func appendPageEntry(dst []byte, e *pageEntry) []byte {
	dst = binary.LittleEndian.AppendUint32(dst, e.id)
	dst = binary.LittleEndian.AppendUint32(dst, e.length)
	dst = binary.LittleEndian.AppendUint64(dst, uint64(e.offset))
	return binary.LittleEndian.AppendUint64(dst, uint64(e.firstMs))
}

func parsePageEntry(b []byte) pageEntry {
	return pageEntry{
		id:      binary.LittleEndian.Uint32(b),
		length:  binary.LittleEndian.Uint32(b[4:]),
		offset:  int64(binary.LittleEndian.Uint64(b[8:])),
		firstMs: int64(binary.LittleEndian.Uint64(b[16:])),
	}
}

// blockRef is the index's record of a block.
type blockRef struct {
	offset       int64 // of its checksum, within the section
	length       int   // bytes, with the checksum
	samples      int
	minMs, maxMs int64
}

// blockChecksum covers a block's payload by its CRC-32C, and by an exclusive or
// with their hash also what the index says of it, so that a block which is intact
// but another one does not pass.
func blockChecksum(shard uint16, id uint32, b *blockRef, payload []byte) uint32 {
	hi, lo := bits.Mul64(uint64(b.minMs)^digestSeedTime, uint64(b.maxMs)^digestSeedValue)
	hi, lo = bits.Mul64(hi^lo^uint64(id), digestSeedID^uint64(b.samples)<<16^uint64(shard))
	identity := hi ^ lo
	return crc32.Checksum(payload, castagnoli) ^ uint32(identity>>32) ^ uint32(identity)
}

// directoryChecksum covers a page directory, given in one or more parts, and whose
// it is.
func directoryChecksum(shard uint16, parts ...[]byte) uint32 {
	crc := uint32(0)
	for _, p := range parts {
		crc = crc32.Update(crc, castagnoli, p)
	}
	return crc ^ uint32(shard)
}
