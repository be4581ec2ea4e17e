package workload

import (
	"math"
	"strconv"
)

// Number is a short decimal: Units / 10^Decimals.
type Number struct {
	Units    int64
	Decimals uint8 // 0 or 2
}

// Float is the nearest float64, the one that parsing the text returns.
func (n Number) Float() float64 {
	if n.Decimals == 0 {
		return float64(n.Units)
	}
	return float64(n.Units) / 100 // both exact, so correctly rounded
}

// Append writes the number as text.
func (n Number) Append(dst []byte) []byte {
	if n.Decimals == 0 {
		return strconv.AppendInt(dst, n.Units, 10)
	}
	units := n.Units
	if units < 0 {
		dst, units = append(dst, '-'), -units
	}
	dst = strconv.AppendInt(dst, units/100, 10)
	return append(dst, '.', byte('0'+units/10%10), byte('0'+units%10))
}

// Shape is how the values of a series change over time.
type Shape uint8

// The shapes. The first four are what sensors and hosts send; Noise is the
// hardest to compress, for tests that need many bytes on disk.
const (
	Walk    Shape = iota // random walk, two decimals: a temperature
	Counter              // growing integer: bytes sent
	Sine                 // smooth, two decimals: a tide
	Step                 // integer that rarely changes: a state
	Noise                // nine random digits, two of them decimals
)

// realistic are the shapes of a device's sensors, in turn.
var realistic = [...]Shape{Walk, Counter, Sine, Step}

// generator is the state of one series.
type generator struct {
	shape  Shape
	random uint64 // state of splitmix64
	units  int64
	row    int64
	period float64
}

// newGenerator starts a series that is a function of the seed and its number.
func newGenerator(seed uint64, series int64, shape Shape) generator {
	g := generator{shape: shape, random: mix(seed ^ mix(uint64(series)+1))}
	switch shape {
	case Walk:
		g.units = 1000 + int64(g.next()%5000)
	case Counter:
		g.units = int64(g.next() % 1_000_000)
	case Sine:
		g.period = 1800 + float64(g.next()%7200)
		g.row = int64(g.next() % 3600)
	case Step:
		g.units = int64(g.next() % 100)
	}
	return g
}

// value returns the value of the next row.
func (g *generator) value() Number {
	g.row++
	switch g.shape {
	case Walk:
		g.units += int64(g.next()%41) - 20
		return Number{Units: g.units, Decimals: 2}
	case Counter:
		g.units += int64(g.next() % 1500)
		return Number{Units: g.units}
	case Sine:
		angle := 2 * math.Pi * float64(g.row) / g.period
		return Number{Units: int64(math.Round(5000 + 3000*math.Sin(angle))), Decimals: 2}
	case Step:
		if g.next()%1000 == 0 {
			g.units = int64(g.next() % 100)
		}
		return Number{Units: g.units}
	default:
		return Number{Units: int64(g.next() % 1_000_000_000), Decimals: 2}
	}
}

// next is splitmix64: Steele, Lea, Flood, "Fast splittable pseudorandom number
// generators", OOPSLA 2014.
func (g *generator) next() uint64 {
	g.random += 0x9e3779b97f4a7c15
	return mix(g.random)
}

func mix(x uint64) uint64 {
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}
