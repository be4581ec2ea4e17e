package codec

import (
	"math"
	"math/rand/v2"

	"github.com/tickmesh/tickmesh/api/series"
)

// shape makes n samples of one kind of series, at a fixed interval.
type shape struct {
	name string
	make func(n int, random *rand.Rand) *Columns
}

const shapeStartMs, shapeIntervalMs = 1_750_000_000_000, 10_000

func shapeOf(n int, next func(i int) series.Number) *Columns {
	var c Columns
	for i := range n {
		c.Append(shapeStartMs+int64(i)*shapeIntervalMs, next(i))
	}
	return &c
}

// trim takes zeros off the end, as a collector that prints the shortest decimal.
func trim(mantissa int64, scale uint8) series.Number {
	for scale > 0 && mantissa%10 == 0 {
		mantissa, scale = mantissa/10, scale-1
	}
	return series.Number{Mantissa: mantissa, Scale: scale}
}

// The four shapes of the comparison with other databases, and floats.
var shapes = []shape{
	{"walk", func(n int, random *rand.Rand) *Columns {
		at := random.Int64N(10_000)
		return shapeOf(n, func(int) series.Number {
			at += random.Int64N(201) - 100
			return trim(at, 2)
		})
	}},
	{"counter", func(n int, random *rand.Rand) *Columns {
		at := random.Int64N(1_000_000)
		return shapeOf(n, func(int) series.Number {
			at += random.Int64N(1000)
			return series.Number{Mantissa: at}
		})
	}},
	{"sine", func(n int, random *rand.Rand) *Columns {
		phase := random.Float64() * 6
		return shapeOf(n, func(i int) series.Number {
			return trim(int64(math.Round(5000+5000*math.Sin(phase+float64(i)/95))), 2)
		})
	}},
	{"step", func(n int, random *rand.Rand) *Columns {
		at := random.Int64N(100)
		return shapeOf(n, func(int) series.Number {
			if random.IntN(100) == 0 {
				at = random.Int64N(100)
			}
			return series.Number{Mantissa: at}
		})
	}},
	{"float", func(n int, random *rand.Rand) *Columns {
		at := 50.0
		return shapeOf(n, func(int) series.Number {
			at += random.NormFloat64() / 10
			return series.FloatNumber(at)
		})
	}},
	{"float32", func(n int, random *rand.Rand) *Columns {
		at := float32(50)
		return shapeOf(n, func(int) series.Number {
			at += float32(random.NormFloat64() / 10)
			return series.FloatNumber(float64(at))
		})
	}},
}

func newRandom(seed uint64) *rand.Rand { return rand.New(rand.NewPCG(seed, 1)) }
