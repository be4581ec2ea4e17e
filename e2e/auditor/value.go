package auditor

import (
	"fmt"
	"strconv"
)

// version numbers the writes to one point from 1; 0 means that there is no sample,
// because none was written or because it was deleted.
type version uint32

// Bits of a value, which together are an integer that a float64 holds exactly.
const (
	writerBits  = 6
	seriesBits  = 6
	indexBits   = 22
	versionBits = 14

	writersMax  = 1 << writerBits
	seriesMax   = 1 << seriesBits
	indexMax    = 1 << indexBits
	versionsMax = 1 << versionBits
)

// origin is the write that a value comes from.
type origin struct {
	writer, series, index int
	v                     version
}

// value returns the value of a write. Different writes have different values.
func (o origin) value() float64 {
	bits := uint64(o.writer)
	bits = bits<<seriesBits | uint64(o.series)
	bits = bits<<indexBits | uint64(o.index)
	bits = bits<<versionBits | uint64(o.v)
	return float64(bits)
}

// originOf is the inverse of value; ok is false for a value that no write has.
func originOf(value float64) (o origin, ok bool) {
	bits := uint64(value)
	if value < 1 || value >= 1<<(writerBits+seriesBits+indexBits+versionBits) || float64(bits) != value {
		return origin{}, false
	}
	o.v = version(bits & (versionsMax - 1))
	o.index = int(bits >> versionBits & (indexMax - 1))
	o.series = int(bits >> (versionBits + indexBits) & (seriesMax - 1))
	o.writer = int(bits >> (versionBits + indexBits + seriesBits))
	return o, o.v > 0
}

// String names the write for people.
func (o origin) String() string {
	return fmt.Sprintf("write %d of point %d, series %d, client %d", o.v, o.index, o.series, o.writer)
}

// appendValue writes the shortest text that gives the value back.
func appendValue(dst []byte, value float64) []byte {
	return strconv.AppendFloat(dst, value, 'f', -1, 64)
}
