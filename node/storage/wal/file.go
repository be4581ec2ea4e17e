package wal

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"path"
	"strconv"
	"strings"

	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

const (
	// fileHeaderBytes is a whole block, so that a torn write of the first records
	// cannot touch the header.
	fileHeaderBytes = vfs.BlockBytes
	fileVersion     = 1
	fileMagic       = "TickWAL\n"
	filePrefix      = "wal-"
	sparePrefix     = "spare-wal-"
	fileSuffix      = ".log"
)

// file is one file of the log: the positions [base, base+length).
type file struct {
	name   string // with the directory
	base   Position
	length int64
	handle vfs.File

	// Guarded by Log.mu.
	readers int
	trimmed bool
	full    bool // ended: no more records will be written
}

func (f *file) end() Position { return f.base + Position(f.length) }

func fileName(dir string, base Position) string {
	return path.Join(dir, fmt.Sprintf("%s%016x%s", filePrefix, uint64(base), fileSuffix))
}

func spareName(dir string, number uint64) string {
	return path.Join(dir, sparePrefix+strconv.FormatUint(number, 10)+fileSuffix)
}

// parseFileName returns the base of a log file's base name.
func parseFileName(name string) (Position, bool) {
	digits, ok := strings.CutPrefix(name, filePrefix)
	if !ok {
		return 0, false
	}
	digits, ok = strings.CutSuffix(digits, fileSuffix)
	if !ok || len(digits) != 16 {
		return 0, false
	}
	base, err := strconv.ParseUint(digits, 16, 64)
	return Position(base), err == nil
}

func parseSpareName(name string) (uint64, bool) {
	digits, ok := strings.CutPrefix(name, sparePrefix)
	if !ok {
		return 0, false
	}
	digits, ok = strings.CutSuffix(digits, fileSuffix)
	if !ok {
		return 0, false
	}
	number, err := strconv.ParseUint(digits, 10, 64)
	return number, err == nil
}

// fileHeader is
//
//	magic 8 bytes, version u32, checksum u32, base u64, length u64
//
// and zeros up to fileHeaderBytes. The checksum is the CRC-32C of all 32 bytes
// with zeros in its own place.
const fileHeaderUsed = 32

func encodeFileHeader(base Position, length int64) []byte {
	b := make([]byte, fileHeaderBytes)
	copy(b, fileMagic)
	binary.LittleEndian.PutUint32(b[8:], fileVersion)
	binary.LittleEndian.PutUint64(b[16:], uint64(base))
	binary.LittleEndian.PutUint64(b[24:], uint64(length))
	binary.LittleEndian.PutUint32(b[12:], crc32.Checksum(b[:fileHeaderUsed], castagnoli))
	return b
}

// versionError reports that a file is of a version that this program cannot read.
type versionError struct {
	name    string
	version uint32
}

func (e *versionError) Error() string {
	return fmt.Sprintf("%s has format version %d, this program reads version %d: use the program that wrote it", e.name, e.version, fileVersion)
}

// decodeFileHeader returns false for a header that is damaged.
func decodeFileHeader(name string, b []byte) (base Position, length int64, ok bool, err error) {
	if len(b) < fileHeaderUsed || !bytes.Equal(b[:8], []byte(fileMagic)) {
		return 0, 0, false, nil
	}
	var sum [fileHeaderUsed]byte
	copy(sum[:], b)
	clear(sum[12:16])
	if crc32.Checksum(sum[:], castagnoli) != binary.LittleEndian.Uint32(b[12:]) {
		return 0, 0, false, nil
	}
	if version := binary.LittleEndian.Uint32(b[8:]); version != fileVersion {
		return 0, 0, false, &versionError{name, version}
	}
	base = Position(binary.LittleEndian.Uint64(b[16:]))
	length = int64(binary.LittleEndian.Uint64(b[24:]))
	return base, length, length >= fileHeaderBytes, nil
}

// endRecord returns the bytes of an end record at a position.
func endRecord(position, synced Position) []byte {
	b := make([]byte, recordHeaderBytes)
	header{flags: flagsRecord | flagsEnd, unsynced: unsyncedOf(position, synced)}.put(b, position)
	return b
}
