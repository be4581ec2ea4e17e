package scan

import (
	"encoding/binary"
	"math"

	"github.com/tickmesh/tickmesh/api/series"
)

// Digits of π and e.
const (
	digestKey  = 0x243f6a8885a308d3
	digestTime = 0xb7e151628aed2a6b
)

// DigestSamples returns the digest of samples of one series, AggregateDigest: the sum,
// modulo 2^64, of a hash of time and bits of each. So digests of parts add up to that
// of the whole. One sample that has another value, or another time, always changes it;
// other samples have the same digest by chance 1 in 2^64, or because somebody wants to.
func DigestSamples(timesMs []int64, values []float64) (sum uint64) {
	values = values[:len(timesMs)]
	for i, t := range timesMs {
		sum += scramble(math.Float64bits(values[i]) ^ scramble(uint64(t)+digestTime))
	}
	return sum
}

// DigestSeries joins the digest of samples of a series with its key, so that digests of
// several series can be added up: also those of parts of one, as it multiplies with an
// odd number that is made of the key.
func DigestSeries(key series.Key, sum uint64) uint64 {
	h := scramble(uint64(len(key)) + digestKey)
	for ; len(key) >= 8; key = key[8:] {
		h = scramble(h^binary.LittleEndian.Uint64(key)) + digestKey
	}
	var last [8]byte
	copy(last[:], key)
	return sum * (scramble(h^binary.LittleEndian.Uint64(last[:]))<<1 | 1)
}

// scramble is the finalizer of SplitMix64, which maps each number to another one (Steele,
// Lea and Flood, Fast splittable pseudorandom number generators, 2014, with the numbers
// of Stafford's variant 13).
func scramble(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
