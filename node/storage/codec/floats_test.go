package codec

import (
	"math"
	"testing"

	"github.com/tickmesh/tickmesh/api/series"
)

// TestDivideFused compares the two divisions on mantissas of all sizes, and on
// those whose quotient is as near to a midpoint of two float64 as may be.
func TestDivideFused(t *testing.T) {
	random := newRandom(11)
	const n = 4096
	for scale := uint8(1); scale <= series.ScaleMax; scale++ {
		var mantissas []int64
		for k := range n {
			m := random.Int64() >> (10 + random.UintN(54))
			mantissas = append(mantissas, m, -m, series.MantissaMax-int64(k), int64(k)-series.MantissaMax)
			mantissas = append(mantissas, nearMidpoint(random.Uint64(), scale)...)
		}
		want := make([]float64, len(mantissas))
		got := make([]float64, len(mantissas))
		copy(asInts(want), mantissas)
		copy(asInts(got), mantissas)
		divide(want, scale)
		divideFused(got, scale)
		for i := range want {
			if math.Float64bits(got[i]) != math.Float64bits(want[i]) {
				t.Fatalf("%d/10^%d is %x, want %x", mantissas[i], scale, got[i], want[i])
			}
		}
	}
}

// nearMidpoint returns the mantissas in bounds next to p times some midpoint.
func nearMidpoint(seed uint64, scale uint8) (mantissas []int64) {
	power := float64(integerPowers[scale])
	v := float64(seed>>11) / (1 << 53) * (series.MantissaMax / power)
	half := (math.Nextafter(v, math.Inf(1)) - v) / 2
	middle := math.FMA(v, power, half*power)
	for d := int64(-1); d <= 1; d++ {
		if m := int64(middle) + d; decimalInBounds(m) {
			mantissas = append(mantissas, m)
		}
	}
	return mantissas
}

func BenchmarkDivide(b *testing.B) {
	values := make([]float64, BlockSamples)
	for _, way := range []struct {
		name   string
		divide func([]float64, uint8)
	}{{"plain", divide}, {"fused", divideFused}} {
		b.Run(way.name, func(b *testing.B) {
			for b.Loop() {
				for i := range asInts(values) {
					asInts(values)[i] = int64(i)
				}
				way.divide(values, 2)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*len(values)), "ns/sample")
		})
	}
}
