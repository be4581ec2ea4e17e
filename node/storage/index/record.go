package index

import (
	"encoding/binary"
	"hash/crc32"

	"github.com/tickmesh/tickmesh/api/series"
)

// A record of the key file is
//
//	crc32c u32 · local id u32 · shard u16 · key length u16 · id u32 · key
//
// little-endian, see FORMAT.md. The checksum covers all that follows it. A record
// says for itself which number it has, so a scan that lost its way finds it
// again, and a lookup that leads to a record need not look elsewhere.
const (
	recordLocalAt  = 4
	recordShardAt  = 8
	recordLengthAt = 10
	recordIDAt     = 12
	recordKeyAt    = 16
	keyBytesMin    = 2 // two empty parts
	recordBytesMin = recordKeyAt + keyBytesMin
	recordBytesMax = recordKeyAt + series.KeyBytesMax
)

//nolint:gochecknoglobals // a constant table
var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// putRecord writes a record to the start of b and returns its length.
func putRecord(b []byte, local uint32, shard uint16, id series.ID, key series.Key) int {
	n := recordKeyAt + len(key)
	b = b[:n]
	binary.LittleEndian.PutUint32(b[recordLocalAt:], local)
	binary.LittleEndian.PutUint16(b[recordShardAt:], shard)
	binary.LittleEndian.PutUint32(b[recordIDAt:], uint32(id))
	binary.LittleEndian.PutUint16(b[recordLengthAt:], uint16(len(key)))
	copy(b[recordKeyAt:], key)
	binary.LittleEndian.PutUint32(b, recordSum(b))
	return n
}

// recordSum is the checksum of a record that ends with b.
func recordSum(b []byte) uint32 { return crc32.Checksum(b[recordLocalAt:], castagnoli) }

// cutRecord returns the record at the start of b by its length alone, or false
// when there is none. It does not look at the checksum.
func cutRecord(b []byte) ([]byte, bool) {
	if len(b) < recordBytesMin {
		return nil, false
	}
	n := recordKeyBytes(b)
	if n < keyBytesMin || recordKeyAt+n > len(b) {
		return nil, false
	}
	return b[: recordKeyAt+n : recordKeyAt+n], true
}

// validRecord reports whether a whole record is the one of local.
func validRecord(record []byte, local uint32) bool {
	return recordLocal(record) == local && binary.LittleEndian.Uint32(record) == recordSum(record)
}

func recordLocal(record []byte) uint32 { return binary.LittleEndian.Uint32(record[recordLocalAt:]) }

func recordShard(record []byte) uint16 { return binary.LittleEndian.Uint16(record[recordShardAt:]) }

// recordRef returns a record as Resolve does.
func recordRef(record []byte) series.Ref {
	return series.Ref{Hint: recordLocal(record), Shard: recordShard(record), ID: recordID(record)}
}

func recordID(record []byte) series.ID {
	return series.ID(binary.LittleEndian.Uint32(record[recordIDAt:]))
}

func recordKeyBytes(record []byte) int {
	return int(binary.LittleEndian.Uint16(record[recordLengthAt:]))
}

// recordKey returns the key of a record that may have more bytes behind it. Of a
// damaged one it returns no more than there is.
func recordKey(record []byte) series.Key {
	end := min(recordKeyAt+recordKeyBytes(record), len(record))
	return series.Key(record[recordKeyAt:end:end])
}

// recordHasKey compares without building slices that the compiler cannot see
// through; it is the hottest comparison of the node.
func recordHasKey(record []byte, key series.Key) bool {
	n := recordKeyBytes(record)
	return n == len(key) && recordKeyAt+n <= len(record) && string(record[recordKeyAt:recordKeyAt+n]) == string(key)
}

// zeros returns how many bytes at the start of b are zero.
func zeros(b []byte) int {
	at := 0
	for at+8 <= len(b) && binary.LittleEndian.Uint64(b[at:]) == 0 {
		at += 8
	}
	for at < len(b) && b[at] == 0 {
		at++
	}
	return at
}
