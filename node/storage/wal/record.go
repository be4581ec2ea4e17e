package wal

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Position is a place in the log, in bytes since its beginning. It only grows,
// across files and restarts, and stands for one record for ever; only that of a
// record which was never synced and which a power cut took away may come again.
// So only positions up to what Sync returned may be written down elsewhere. Zero
// is before every record.
type Position uint64

const (
	recordHeaderBytes = 16
	recordAlign       = 8

	// RecordBytesMax bounds one record, without its header.
	RecordBytesMax = 1<<28 - 1
	// BufferBytesMax bounds one buffer, headers included.
	BufferBytesMax = 1 << 30

	lengthMask  = 1<<28 - 1
	flagsRecord = 1 << 31 // set in every record, so that zeros are none
	flagsEnd    = 1 << 30 // the last record of its file, without payload
	flagsMask   = ^uint32(lengthMask)
)

// ErrTooLarge refuses a record or a buffer beyond its bound.
var ErrTooLarge = errors.New("too large for the log")

//nolint:gochecknoglobals // a constant table
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// header is a record's header:
//
//	checksum u32, flags and length u32, payload checksum u32, unsynced u32
//
// The first checksum is over the other three fields and the record's position.
type header struct {
	flags    uint32
	length   int
	payload  uint32 // CRC-32C of the payload
	unsynced uint32 // see unsyncedOf
}

func paddedLength(length int) int {
	return recordHeaderBytes + (length+recordAlign-1)&^(recordAlign-1)
}

// put writes the header into the first bytes of b for a record at position.
func (h header) put(b []byte, position Position) {
	_ = b[recordHeaderBytes-1]
	binary.LittleEndian.PutUint32(b[4:], h.flags|uint32(h.length))
	binary.LittleEndian.PutUint32(b[8:], h.payload)
	binary.LittleEndian.PutUint32(b[12:], h.unsynced)
	binary.LittleEndian.PutUint32(b, headerSum(b, position))
}

// headerSum is the checksum of the header in b, whose CRC starts from the position
// so that a record is good in its own place only, and never in the file's next life.
func headerSum(b []byte, position Position) uint32 {
	return crc32.Update(uint32(uint64(position)*positionMix>>32), castagnoli, b[4:recordHeaderBytes])
}

// positionMix spreads positions over 32 bits: 2^64 divided by the golden ratio
// (Knuth, The Art of Computer Programming, volume 3, 6.4).
const positionMix = 0x9e3779b97f4a7c15

// parseHeader reads the header of a record at position. It returns false for bytes
// that are not one.
func parseHeader(b []byte, position Position) (header, bool) {
	_ = b[recordHeaderBytes-1]
	word := binary.LittleEndian.Uint32(b[4:])
	h := header{flags: word & flagsMask, length: int(word & lengthMask)}
	switch {
	case h.flags == flagsRecord:
	case h.flags == flagsRecord|flagsEnd && h.length == 0:
	default:
		return header{}, false
	}
	if headerSum(b, position) != binary.LittleEndian.Uint32(b) {
		return header{}, false
	}
	h.payload = binary.LittleEndian.Uint32(b[8:])
	h.unsynced = binary.LittleEndian.Uint32(b[12:])
	return h, true
}

// unsyncedOf returns how many units of 8 bytes before position are not known to be
// synced. The largest number means that or more.
func unsyncedOf(position, synced Position) uint32 {
	return uint32(min((uint64(position)-uint64(synced))/recordAlign, 1<<32-1))
}

// synced returns what had been synced when the record at position was written.
func (h header) synced(position Position) Position {
	if h.unsynced == 1<<32-1 || uint64(h.unsynced)*recordAlign > uint64(position) {
		return 0
	}
	return position - Position(h.unsynced)*recordAlign
}

// Buffer frames records for one Write, in contiguous memory. The zero value is
// ready; Reset empties it and keeps its memory. It serves one goroutine at a time.
type Buffer struct {
	bytes   []byte
	records int
}

// Reset empties the buffer.
func (b *Buffer) Reset() { b.bytes, b.records = b.bytes[:0], 0 }

// Len returns the bytes that a Write of the buffer puts down.
func (b *Buffer) Len() int { return len(b.bytes) }

// Records returns the number of records.
func (b *Buffer) Records() int { return b.records }

// Add frames one record, the parts one after the other. It returns the record's
// offset: its position is the start that Write returns plus this. A record that
// does not fit its bounds returns ErrTooLarge and leaves the buffer as it was.
func (b *Buffer) Add(parts ...[]byte) (offset int, err error) {
	length := 0
	for _, p := range parts {
		length += len(p)
		if len(p) > RecordBytesMax || length > RecordBytesMax {
			return 0, fmt.Errorf("a record of more than %d bytes: %w", RecordBytesMax, ErrTooLarge)
		}
	}
	offset = len(b.bytes)
	if offset+paddedLength(length) > BufferBytesMax {
		return 0, fmt.Errorf("a buffer of more than %d bytes: %w", BufferBytesMax, ErrTooLarge)
	}
	var placeholder [recordHeaderBytes]byte
	b.bytes = append(b.bytes, placeholder[:]...)
	for _, p := range parts {
		b.bytes = append(b.bytes, p...)
	}
	payload := b.bytes[offset+recordHeaderBytes:]
	// Write fills in what depends on the position.
	binary.LittleEndian.PutUint32(b.bytes[offset+4:], flagsRecord|uint32(length))
	binary.LittleEndian.PutUint32(b.bytes[offset+8:], crc32.Checksum(payload, castagnoli))
	b.bytes = append(b.bytes, placeholder[:paddedLength(length)-recordHeaderBytes-length]...)
	b.records++
	return offset, nil
}

// Record returns the record at an offset that Add gave. It is good until Reset.
func (b *Buffer) Record(offset int) []byte {
	length := int(binary.LittleEndian.Uint32(b.bytes[offset+4:]) & lengthMask)
	start := offset + recordHeaderBytes
	return b.bytes[start : start+length : start+length]
}

// place fills in the headers for a buffer that starts at position.
func (b *Buffer) place(position, synced Position) {
	for at := 0; at < len(b.bytes); {
		p := b.bytes[at:]
		h := header{
			flags:    flagsRecord,
			length:   int(binary.LittleEndian.Uint32(p[4:]) & lengthMask),
			payload:  binary.LittleEndian.Uint32(p[8:]),
			unsynced: unsyncedOf(position+Position(at), synced),
		}
		h.put(p, position+Position(at))
		at += paddedLength(h.length)
	}
}
