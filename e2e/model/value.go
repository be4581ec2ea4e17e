package model

import (
	"math"
	"strconv"
)

// version numbers the writes to one (series, time) from 1; 0 means that there is
// no sample, because none was written or because it was deleted.
type version uint32

// valueOf is the value of a write. Different writes have different values, except
// with a probability of about 2^-38: the shapes have that many random bits.
func valueOf(series uint64, index int, v version) float64 {
	h := mix(series ^ mix(uint64(index)<<24^uint64(v)))
	switch h & 3 {
	case 0: // integer
		return float64(int64(h>>2)%(1<<40) - 1<<39)
	case 1: // two decimals
		return float64(int64(h>>2)%(1<<41)) / 100
	case 2: // seven decimals below 100,000
		return float64(int64(h>>2)%1_000_000_000_000) / 10_000_000
	default: // all bits of the mantissa, exponents about 2^-64 to 2^63
		exponent := 1023 - 64 + h>>2&127
		return math.Float64frombits(h<<63 | exponent<<52 | mix(h)&(1<<52-1))
	}
}

// value returns the value of a write.
func (s *series) value(index int, v version) float64 { return valueOf(s.hash, index, v) }

// versionOf returns the write of a point that a value comes from; 0: none.
func (s *series) versionOf(index int, value float64) version {
	if index >= len(s.points) {
		return 0
	}
	for v := s.points[index].used; v > 0; v-- {
		if math.Float64bits(s.value(index, v)) == math.Float64bits(value) {
			return v
		}
	}
	return 0
}

// appendValue writes the shortest text that is parsed to the value.
func appendValue(dst []byte, value float64) []byte {
	return strconv.AppendFloat(dst, value, 'g', -1, 64)
}

func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
