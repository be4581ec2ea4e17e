package opentsdb

import (
	"math"

	"github.com/tickmesh/tickmesh/api/exactsum"
	"github.com/tickmesh/tickmesh/api/scan/steps"
)

// The functions below merge series in any order: sums are exact and rounded once, and of
// zeros the negative one is less.

func exactSum(values []float64) float64 {
	total, n := exactly(values)
	if n == 0 {
		return math.NaN()
	}
	return total.Value() + 0 // never a negative zero
}

func exactAverage(values []float64) float64 {
	total, n := exactly(values)
	return total.Mean(n) + 0 // 0/0 is NaN
}

// exactly returns the sum of the values that are numbers, and how many these are. It moves them.
func exactly(values []float64) (total exactsum.Sum, n int64) {
	numbers := values[:0]
	for _, v := range values {
		if v == v {
			numbers = append(numbers, v)
		}
	}
	total.AddAll(numbers)
	return total, int64(len(numbers))
}

func leastOf(values []float64) float64 {
	least := math.NaN()
	for _, v := range values {
		if steps.Below(v, least) {
			least = v
		}
	}
	return least
}

func greatestOf(values []float64) float64 {
	greatest := math.NaN()
	for _, v := range values {
		if steps.Above(v, greatest) {
			greatest = v
		}
	}
	return greatest
}
