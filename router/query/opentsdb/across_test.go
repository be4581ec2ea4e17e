package opentsdb

import (
	"math"
	"math/big"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// TestAcross: functions over series have the same bits in any order, nearly the value of the function over samples, and
// sums that of math/big.
func TestAcross(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		values := rapid.SliceOfN(rapid.OneOf(rapid.Float64Range(-1e6, 1e6), rapid.SampledFrom([]float64{0, math.Copysign(0, -1), 0.1, 1e9, math.NaN()})), 1, 20).Draw(t, "values")
		total, n, most := new(big.Float).SetPrec(2300), 0, 0.0
		for _, v := range values {
			if !math.IsNaN(v) {
				total.Add(total, new(big.Float).SetFloat64(v))
				n++
				most = max(most, math.Abs(v))
			}
		}
		exact, _ := total.Float64()
		for _, name := range aggregatorNames {
			a, _ := findAggregator(name)
			if a.across == nil {
				continue
			}
			got := a.across(slices.Clone(values))
			shuffled := slices.Clone(values)
			rand.Shuffle(len(values), func(i, j int) { shuffled[i], shuffled[j] = shuffled[j], shuffled[i] })
			if other := a.across(shuffled); math.Float64bits(other) != math.Float64bits(got) && !(math.IsNaN(got) && math.IsNaN(other)) {
				t.Fatalf("%s of %v is %v, of %v it is %v", name, values, got, shuffled, other)
			}
			if want := a.reduce(slices.Clone(values)); math.IsNaN(want) != math.IsNaN(got) || math.Abs(want-got) > 1e-14*most {
				t.Fatalf("%s of series %v is %v, of samples %v", name, values, got, want)
			}
			if want := exact + 0; n > 0 && (name == "sum" && got != want || name == "avg" && got != want/float64(n)) {
				t.Fatalf("%s of %v is %v, want %v", name, values, got, want)
			}
		}
	})
}
