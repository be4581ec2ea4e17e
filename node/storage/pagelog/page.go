package pagelog

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
)

// Ref is the place of a page: 4 bits of its generation's number, and 28 bits of
// its offset in the generation in units of 8 bytes. 0 is no page.
type Ref uint32

const (
	refOffsetBits = 28
	refOffsetMask = 1<<refOffsetBits - 1

	pageAlign       = 8
	pageHeaderBytes = 16

	// PayloadBytesMax bounds the payload of a page.
	PayloadBytesMax = 4096
	// ReadBytesMax is what Pin.Read needs of its buffer at most.
	ReadBytesMax = PayloadBytesMax + pageHeaderBytes
	// GenerationBytesMax bounds a generation.
	GenerationBytesMax = 1 << (refOffsetBits + 3)
	// GenerationsMax bounds the live generations.
	GenerationsMax = 15
)

func makeRef(generation uint32, offset int64) Ref {
	return Ref(generation<<refOffsetBits | uint32(offset/pageAlign))
}

// slot is the generation's number modulo 16.
func (r Ref) slot() uint32 { return uint32(r) >> refOffsetBits }

// offset is the page's offset in its generation.
func (r Ref) offset() int64 { return int64(r&refOffsetMask) * pageAlign }

// Page is a page as it was appended.
type Page struct {
	Shard    uint16
	ID       uint32 // of the series in its shard
	Previous Ref    // the page of the same series before this one, or 0
	Payload  []byte // 1 to PayloadBytesMax bytes
}

// ErrPayload refuses a payload that is empty or too long.
var ErrPayload = errors.New("a page's payload must have 1 to 4096 bytes")

//nolint:gochecknoglobals // a constant table
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

func pageBytes(payload int) int {
	return (pageHeaderBytes + payload + pageAlign - 1) &^ (pageAlign - 1)
}

// putHeader writes the header of a page at offset of a generation:
//
//	checksum u32, payload length u16, shard u16, id u32, previous u32
func putHeader(b []byte, generation uint32, offset int64, p *Page, payloadSum uint32) {
	_ = b[pageHeaderBytes-1]
	binary.LittleEndian.PutUint16(b[4:], uint16(len(p.Payload)))
	binary.LittleEndian.PutUint16(b[6:], p.Shard)
	binary.LittleEndian.PutUint32(b[8:], p.ID)
	binary.LittleEndian.PutUint32(b[12:], uint32(p.Previous))
	binary.LittleEndian.PutUint32(b, headerSum(b, generation, offset, payloadSum))
}

// headerSum is the CRC-32C of the header but for its own four bytes, continued
// from the CRC-32C of the payload, which is mixed with the page's place so that a
// page is good in its own place only. The payload's sum is taken first, without a
// lock, and the header's in place, without a copy.
func headerSum(header []byte, generation uint32, offset int64, payloadSum uint32) uint32 {
	place := uint64(generation)<<32 | uint64(offset/pageAlign)
	return crc32.Update(payloadSum^uint32(place*placeMix>>32), castagnoli, header[4:pageHeaderBytes])
}

// placeMix spreads places over 32 bits: 2^64 divided by the golden ratio (Knuth,
// The Art of Computer Programming, volume 3, 6.4).
const placeMix = 0x9e3779b97f4a7c15

func payloadSum(payload []byte) uint32 { return crc32.Checksum(payload, castagnoli) }

// payloadLength returns the length in a header, and false for one that no
// page can have.
func payloadLength(header []byte) (int, bool) {
	n := int(binary.LittleEndian.Uint16(header[4:]))
	return n, n >= 1 && n <= PayloadBytesMax
}

// headerSeries returns whose page a header is, which nobody has checked.
func headerSeries(header []byte) (shard uint16, id uint32) {
	return binary.LittleEndian.Uint16(header[6:]), binary.LittleEndian.Uint32(header[8:])
}

// parsePage checks a header and its payload, which it keeps.
func parsePage(header, payload []byte, generation uint32, offset int64) (Page, bool) {
	if binary.LittleEndian.Uint32(header) != headerSum(header, generation, offset, payloadSum(payload)) {
		return Page{}, false
	}
	shard, id := headerSeries(header)
	return Page{Shard: shard, ID: id, Previous: Ref(binary.LittleEndian.Uint32(header[12:])), Payload: payload}, true
}

// Kinds of errors, for errors.Is.
var (
	// ErrGenerationFull: the generation has no room for the page; Roll makes some.
	ErrGenerationFull = errors.New("the generation of the page log is full")
	// ErrTooManyGenerations: Roll needs one to be dropped first.
	ErrTooManyGenerations = errors.New("too many live generations of the page log")
	// ErrNoPage: the reference is not one of a page that the pin holds.
	ErrNoPage = errors.New("no page at this reference")
	// ErrNoGeneration: the generation is not live, or cannot be dropped.
	ErrNoGeneration = errors.New("no such generation of the page log")
	// ErrBroken: an earlier write or sync failed.
	ErrBroken = errors.New("the page log takes no more writes")
	// ErrClosed: the log has been closed.
	ErrClosed = errors.New("the page log is closed")
)

// SpaceError reports that there was no room for another extent. Nothing is lost and
// the same call succeeds once there is room.
type SpaceError struct {
	File  string
	Bytes int64
	Cause error
}

func (e *SpaceError) Error() string {
	return fmt.Sprintf("no room for the page log's extent %s of %d bytes: %v; free disk space and writing goes on", e.File, e.Bytes, e.Cause)
}

// Unwrap returns the cause.
func (e *SpaceError) Unwrap() error { return e.Cause }

// CorruptError reports damaged pages.
type CorruptError struct {
	File       string
	Generation uint32
	Offset     int64 // in the file
	Length     int64 // bytes up to the next good page; 0 when Read met it
	Cause      error // why it could not be read, if that is known
}

func (e *CorruptError) Error() string {
	if e.Cause != nil {
		return fmt.Sprintf("page log file %s cannot be read at offset %d: %v", e.File, e.Offset, e.Cause)
	}
	return fmt.Sprintf("page log file %s is damaged at offset %d", e.File, e.Offset)
}

// Unwrap returns the cause.
func (e *CorruptError) Unwrap() error { return e.Cause }
