package segment

import (
	"math"
	"math/bits"

	"github.com/tickmesh/tickmesh/api/series"
)

// aggregate is a Rollup in the making. With scale ≤ series.ScaleMax the decimal
// fields count, else the float fields.
type aggregate struct {
	startMs                      int64
	count                        int64
	scale                        uint8
	minNumber, maxNumber, total  int64
	minFloat, maxFloat, sumFloat float64
	// scanSum is the sum of an hour's samples, or a day's hours, one after the other.
	scanSum float64
}

// aggregateRun bounds the samples that are added up before the sum is checked:
// as many mantissas as fit into an int64 for sure.
const aggregateRun = math.MaxInt64/series.MantissaMax - 1

// aggregateOf returns the aggregate of samples with one scale, at most aggregateRun.
func aggregateOf(mantissas []int64, scale uint8) aggregate {
	if scale > series.ScaleMax {
		return aggregateOfFloats(mantissas)
	}
	a := aggregate{count: int64(len(mantissas)), scale: scale, minNumber: mantissas[0], maxNumber: mantissas[0]}
	for _, m := range mantissas {
		a.minNumber = min(a.minNumber, m)
		a.maxNumber = max(a.maxNumber, m)
		a.total += m
	}
	return a
}

func aggregateOfFloats(mantissas []int64) aggregate {
	a := aggregate{scale: series.ScaleFloat}
	for _, m := range mantissas {
		v := math.Float64frombits(uint64(m))
		switch {
		case math.IsNaN(v):
			continue
		case a.count == 0:
			a.minFloat, a.maxFloat = v, v
		case v < a.minFloat:
			a.minFloat = v
		case v > a.maxFloat:
			a.maxFloat = v
		}
		a.count++
		a.sumFloat += v
	}
	return a
}

// merge adds b to a.
func (a *aggregate) merge(b aggregate) {
	switch {
	case b.count == 0:
		return
	case a.count == 0:
		b.startMs, b.scanSum = a.startMs, a.scanSum
		*a = b
		return
	}
	if a.mergeDecimal(&b) {
		return
	}
	a.toFloat()
	b.toFloat()
	a.count += b.count
	a.sumFloat += b.sumFloat
	if b.minFloat < a.minFloat {
		a.minFloat = b.minFloat
	}
	if b.maxFloat > a.maxFloat {
		a.maxFloat = b.maxFloat
	}
}

// mergeDecimal adds b, which it may bring to another scale, and returns false,
// having changed no value, when the result is beyond exact decimals.
func (a *aggregate) mergeDecimal(b *aggregate) bool {
	if a.scale > series.ScaleMax || b.scale > series.ScaleMax {
		return false
	}
	if !a.rescale(b.scale) || !b.rescale(a.scale) {
		return false
	}
	total := a.total + b.total
	if (total > a.total) != (b.total > 0) && b.total != 0 {
		return false
	}
	a.count += b.count
	a.total = total
	a.minNumber = min(a.minNumber, b.minNumber)
	a.maxNumber = max(a.maxNumber, b.maxNumber)
	return true
}

// rescale brings the decimals to a higher scale, if there is room.
func (a *aggregate) rescale(scale uint8) bool {
	if scale <= a.scale {
		return true
	}
	factor := powerOf10(scale - a.scale)
	low, high, total := a.minNumber, a.maxNumber, a.total
	if !mulWithin(&low, factor, series.MantissaMax) || !mulWithin(&high, factor, series.MantissaMax) ||
		!mulWithin(&total, factor, math.MaxInt64) {
		return false
	}
	a.minNumber, a.maxNumber, a.total, a.scale = low, high, total, scale
	return true
}

// powerOf10 returns 10^n for n ≤ series.ScaleMax.
func powerOf10(n uint8) int64 {
	p := int64(1)
	for range n {
		p *= 10
	}
	return p
}

func mulWithin(v *int64, factor, limit int64) bool {
	magnitude := uint64(*v)
	if *v < 0 {
		magnitude = -magnitude
	}
	hi, lo := bits.Mul64(magnitude, uint64(factor))
	if hi != 0 || lo > uint64(limit) {
		return false
	}
	*v *= factor
	return true
}

// extremes returns the least and the greatest sample.
func (a *aggregate) extremes() (least, most float64) {
	if a.scale > series.ScaleMax {
		return a.minFloat, a.maxFloat
	}
	return series.Float64(a.minNumber, a.scale), series.Float64(a.maxNumber, a.scale)
}

func (a *aggregate) toFloat() {
	if a.scale > series.ScaleMax {
		return
	}
	a.minFloat, a.maxFloat = a.extremes()
	a.sumFloat = series.Float64(a.total, a.scale)
	a.scale = series.ScaleFloat
}

// rollupRecord is a finished aggregate.
type rollupRecord struct {
	startMs, count int64
	min, max, sum  series.Number
	scanSum        float64
	recordEnds     // of hours those of their first and last samples only
}

// recordEnds are the Ends of a rollup in the making.
type recordEnds struct {
	first, last                   series.Number
	firstMs, lastMs, minMs, maxMs int64
}

func (a *aggregate) record() rollupRecord {
	r := rollupRecord{startMs: a.startMs, count: a.count, scanSum: a.scanSum}
	if a.scale > series.ScaleMax {
		r.min, r.max = series.DecimalOf(a.minFloat, 0), series.DecimalOf(a.maxFloat, 0)
		r.sum = series.FloatNumber(a.sumFloat)
		return r
	}
	r.min, r.max = series.Number{Mantissa: a.minNumber, Scale: a.scale}, series.Number{Mantissa: a.maxNumber, Scale: a.scale}
	r.sum = series.Number{Mantissa: a.total, Scale: a.scale}
	if a.total > series.MantissaMax || a.total < -series.MantissaMax {
		r.sum = series.FloatNumber(series.Float64(a.total, a.scale))
	}
	return r
}

// aggregateOfRecord returns what a record tells of its samples.
func aggregateOfRecord(r *rollupRecord) aggregate {
	numbers := [...]*series.Number{&r.min, &r.max, &r.sum}
	scale := uint8(0)
	for _, n := range numbers {
		scale = max(scale, n.Scale)
	}
	a := aggregate{count: r.count, scale: scale}
	exact := scale <= series.ScaleMax
	for i, to := range [...]*int64{&a.minNumber, &a.maxNumber, &a.total} {
		if *to = numbers[i].Mantissa; exact {
			exact = mulWithin(to, powerOf10(scale-numbers[i].Scale), math.MaxInt64)
		}
	}
	if exact {
		return a
	}
	return aggregate{
		count: r.count, scale: series.ScaleFloat,
		minFloat: r.min.Float64(), maxFloat: r.max.Float64(), sumFloat: r.sum.Float64(),
	}
}
