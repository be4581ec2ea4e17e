package segment

import (
	"math"
	"math/bits"

	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/codec"
)

// Constants of the sample hash: digits of π and e, part of the durable format.
const (
	digestSeedID    = 0x243f6a8885a308d3
	digestSeedTime  = 0x13198a2e03707344
	digestSeedValue = 0xb7e151628aed2a6b
)

// sampleHash is a 64-bit hash of one sample of a series: two rounds of a
// 64×64→128 bit multiplication folded by exclusive or, as in wyhash (Wang Yi).
// It guards against disks and bugs, not against an adversary.
func sampleHash(id uint32, timeMs int64, value float64) uint64 {
	hi, lo := bits.Mul64(uint64(timeMs)^digestSeedTime, math.Float64bits(value)^digestSeedValue)
	hi, lo = bits.Mul64(hi^lo^uint64(id), digestSeedID^uint64(timeMs))
	return hi ^ lo
}

// DigestPoints is the sum of the hashes of samples of one series. The digest of a
// shard is the sum over all of its samples, modulo 2^64, so that it does not
// depend on how they lie in blocks and files.
func DigestPoints(id uint32, points *codec.Points) (sum uint64) {
	values := points.Values[:len(points.Times)]
	for i, t := range points.Times {
		sum += sampleHash(id, t, values[i])
	}
	return sum
}

// digestColumns is DigestPoints for numbers.
func digestColumns(id uint32, c *codec.Columns) (sum uint64) {
	mantissas, scales := c.Mantissas[:len(c.Times)], c.Scales[:len(c.Times)]
	for i, t := range c.Times {
		sum += sampleHash(id, t, series.Float64(mantissas[i], scales[i]))
	}
	return sum
}
