package opentsdb

import (
	"math"
	"slices"
	"strconv"

	"github.com/tickmesh/tickmesh/api/scan"
)

// interpolation describes what a series contributes at a time that lies between two
// of its points (net.opentsdb.core.Aggregators.Interpolation).
type interpolation uint8

const (
	interpolateLinear interpolation = iota
	interpolateZero
	interpolatePrevious
	// interpolateSkip contributes nothing. It is OpenTSDB's MAX and MIN, the
	// largest and smallest double, which the minimum or maximum of at least one
	// real value never picks, and ZIM for sums, which a 0 does not change.
	interpolateSkip
)

// selection is how a function keeps whole series instead of merging them.
type selection uint8

const (
	selectMerged selection = iota
	selectAll              // none: every series by itself
	selectTop              // TickTock's topN
	selectBottom           // TickTock's bottomN
)

// aggregator is one aggregation function. The same function merges series and
// downsamples one series.
type aggregator struct {
	name    string
	between interpolation
	reduce  func(values []float64) float64 // may reorder values, never empty
	// across is reduce for series in any order; nil: reduce needs those in the order of their keys.
	across    func(values []float64) float64
	selection selection
	// keepsWhole reports that whole numbers make a whole number.
	keepsWhole bool
	keep       int            // series that topN and bottomN keep
	pushed     scan.Aggregate // what a scan by windows has to carry; 0: samples are needed
	// margins reports that points outside the range asked for can change the
	// result: those that lines at its ends come from or go to.
	margins bool
}

// aggregatorNames lists the functions in the order of their names.
//
//nolint:gochecknoglobals // a constant list
var aggregatorNames = []string{
	"avg", "bottom1", "bottom3", "bottom5", "bottom9", "count", "dev", "diff",
	"ep50r3", "ep50r7", "ep75r3", "ep75r7", "ep90r3", "ep90r7", "ep95r3", "ep95r7", "ep999r3", "ep999r7", "ep99r3", "ep99r7",
	"first", "last", "max", "median", "mimmax", "mimmin", "min", "mult", "none",
	"p50", "p75", "p90", "p95", "p98", "p99", "p999", "pfsum", "squareSum", "sum",
	"top1", "top3", "top5", "top9", "zimsum",
}

// findAggregator returns the function of a name.
func findAggregator(name string) (aggregator, bool) {
	if !slices.Contains(aggregatorNames, name) {
		return aggregator{}, false
	}
	a := aggregator{name: name, margins: true, keepsWhole: true}
	switch name {
	case "sum":
		a.reduce, a.across, a.pushed = sum, exactSum, scan.AggregateSum
	case "zimsum":
		a.reduce, a.across, a.pushed, a.between, a.margins = sum, exactSum, scan.AggregateSum, interpolateSkip, false
	case "pfsum":
		a.reduce, a.across, a.pushed, a.between = sum, exactSum, scan.AggregateSum, interpolatePrevious
	case "avg":
		a.reduce, a.across, a.pushed, a.keepsWhole = average, exactAverage, scan.AggregateSum|scan.AggregateCount, false
	case "min":
		a.reduce, a.across, a.pushed = minimum, leastOf, scan.AggregateMin
	case "mimmin":
		a.reduce, a.across, a.pushed, a.between, a.margins = minimum, leastOf, scan.AggregateMin, interpolateSkip, false
	case "max":
		a.reduce, a.across, a.pushed = maximum, greatestOf, scan.AggregateMax
	case "mimmax":
		a.reduce, a.across, a.pushed, a.between, a.margins = maximum, greatestOf, scan.AggregateMax, interpolateSkip, false
	case "count":
		a.reduce, a.across, a.pushed, a.between = count, count, scan.AggregateCount, interpolateZero
	case "first":
		a.reduce, a.pushed, a.between = first, scan.AggregateFirst, interpolateZero
	case "last":
		a.reduce, a.pushed, a.between = last, scan.AggregateLast, interpolateZero
	case "squareSum":
		a.reduce, a.between, a.margins = squareSum, interpolateSkip, false
	case "median":
		a.reduce = median
	case "mult":
		a.reduce = product
	case "dev":
		a.reduce, a.keepsWhole = deviation, false
	case "diff":
		a.reduce = difference
	case "none":
		a.selection, a.margins = selectAll, false
	default:
		return findFamily(a)
	}
	return a, true
}

// findFamily fills in the functions whose names carry a number: pN, epNr3,
// epNr7, topN, bottomN. The name is one of aggregatorNames.
func findFamily(a aggregator) (aggregator, bool) {
	name := a.name
	for _, family := range []struct {
		prefix    string
		selection selection
	}{{"top", selectTop}, {"bottom", selectBottom}} {
		if rest, ok := cut(name, family.prefix, ""); ok {
			keep, err := strconv.Atoi(rest)
			a.selection, a.keep, a.margins = family.selection, keep, false
			return a, err == nil
		}
	}
	for _, family := range []struct {
		prefix, suffix string
		position       func(quantile float64, n int) float64
	}{{"ep", "r3", positionR3}, {"ep", "r7", positionR7}, {"p", "", positionLegacy}} {
		if digits, ok := cut(name, family.prefix, family.suffix); ok {
			percent, err := strconv.ParseFloat(digits, 64)
			if len(digits) == 3 { // 999 is 99.9
				percent /= 10
			}
			a.keepsWhole = false
			a.reduce = func(values []float64) float64 { return percentile(values, percent/100, family.position) }
			return a, err == nil
		}
	}
	return a, false
}

func cut(name, prefix, suffix string) (string, bool) {
	if len(name) <= len(prefix)+len(suffix) || name[:len(prefix)] != prefix || name[len(name)-len(suffix):] != suffix {
		return "", false
	}
	return name[len(prefix) : len(name)-len(suffix)], true
}

// The functions below do what the classes of net.opentsdb.core.Aggregators do
// with doubles. Products are converted to float64 before they are added, so
// that no platform fuses the two roundings into one.

func sum(values []float64) float64 {
	total, n := 0.0, 0
	for _, v := range values {
		if v == v {
			total += v
			n++
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return total
}

func average(values []float64) float64 {
	total, n := 0.0, 0
	for _, v := range values {
		if v == v {
			total += v
			n++
		}
	}
	return total / float64(n) // 0/0 is NaN
}

func minimum(values []float64) float64 {
	least := math.NaN()
	for _, v := range values {
		if v < least || least != least {
			least = v
		}
	}
	return least
}

func maximum(values []float64) float64 {
	most := math.NaN()
	for _, v := range values {
		if v > most || most != most {
			most = v
		}
	}
	return most
}

func count(values []float64) float64 {
	n := 0
	for _, v := range values {
		if v == v {
			n++
		}
	}
	return float64(n)
}

func first(values []float64) float64 { return values[0] }
func last(values []float64) float64  { return values[len(values)-1] }

func product(values []float64) float64 {
	total := values[0]
	for _, v := range values[1:] {
		total *= v
	}
	return total
}

func squareSum(values []float64) float64 {
	total, n := 0.0, 0
	for _, v := range values {
		if v == v {
			total += float64(v * v)
			n++
		}
	}
	if n == 0 {
		return math.NaN()
	}
	return total
}

// difference is the last value less the first one that is a number, and 0 when
// nothing comes after that.
func difference(values []float64) float64 {
	for i, v := range values {
		if v == v {
			if i == len(values)-1 {
				return 0
			}
			return values[len(values)-1] - v
		}
	}
	return math.NaN()
}

// deviation is the population's standard deviation by Welford's method (Knuth,
// The Art of Computer Programming, volume 2, 4.2.2).
func deviation(values []float64) float64 {
	mean, squares, n := 0.0, 0.0, 0.0
	for _, v := range values {
		if v != v {
			continue
		}
		n++
		before := v - mean
		mean += before / n
		squares += float64(before * (v - mean))
	}
	switch n {
	case 0:
		return math.NaN()
	case 1:
		return 0
	}
	return math.Sqrt(squares / n)
}

// median is the upper one of the two in the middle.
func median(values []float64) float64 {
	numbers := sortedNumbers(values)
	if len(numbers) == 0 {
		return math.NaN()
	}
	return numbers[len(numbers)/2]
}

// sortedNumbers moves NaN away and sorts the rest in place.
func sortedNumbers(values []float64) []float64 {
	numbers := slices.DeleteFunc(values, math.IsNaN)
	slices.Sort(numbers)
	return numbers
}

// percentile computes as Percentile of Apache Commons Math 3 does: position is
// counted from 1, and between two positions the estimate is linear. OpenTSDB
// applies the two ep families to integers only and computes all others by the
// legacy position; here each family does what its name says.
func percentile(values []float64, quantile float64, position func(quantile float64, n int) float64) float64 {
	numbers := sortedNumbers(values)
	n := len(numbers)
	if n == 0 {
		return math.NaN()
	}
	at := position(quantile, n)
	switch {
	case n == 1 || at < 1:
		return numbers[0]
	case at >= float64(n):
		return numbers[n-1]
	}
	whole := math.Floor(at)
	lower, upper := numbers[int(whole)-1], numbers[int(whole)]
	if lower == upper || at == whole {
		return lower
	}
	return lower + float64((at-whole)*(upper-lower))
}

func positionLegacy(quantile float64, n int) float64 { return quantile * float64(n+1) }

// positionR3 and positionR7 are types 3 and 7 of Hyndman and Fan, "Sample
// Quantiles in Statistical Packages", 1996.
func positionR3(quantile float64, n int) float64 {
	if quantile <= 0.5/float64(n) {
		return 0
	}
	return math.RoundToEven(float64(n) * quantile)
}

func positionR7(quantile float64, n int) float64 { return 1 + float64(float64(n-1)*quantile) }
