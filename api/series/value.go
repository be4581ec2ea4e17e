package series

import "math"

// Number is a sample's value as the columns carry it. With Scale ≤ ScaleMax it
// is the decimal Mantissa·10^-Scale, with |Mantissa| ≤ MantissaMax; with Scale =
// ScaleFloat the mantissa holds the 64 bits of a float64.
//
// Within these bounds mantissa and power are exact as float64, so their quotient
// is the correctly rounded value of the decimal: the same bits that
// strconv.ParseFloat returns for its text (Clinger, "How to Read Floating Point
// Numbers Accurately", 1990).
type Number struct {
	Mantissa int64
	Scale    uint8
}

// Bounds of a decimal Number.
const (
	ScaleMax    = 15
	ScaleFloat  = 0xff
	MantissaMax = 1 << 53
)

//nolint:gochecknoglobals // a constant table
var powersOf10 = [ScaleMax + 1]float64{1, 1e1, 1e2, 1e3, 1e4, 1e5, 1e6, 1e7, 1e8, 1e9, 1e10, 1e11, 1e12, 1e13, 1e14, 1e15}

// FloatNumber carries the bits of v as they are.
func FloatNumber(v float64) Number {
	return Number{Mantissa: int64(math.Float64bits(v)), Scale: ScaleFloat}
}

// Float64 returns the number's float64.
func (n Number) Float64() float64 { return Float64(n.Mantissa, n.Scale) }

// Float64 returns the float64 of a mantissa and its scale.
func Float64(mantissa int64, scale uint8) float64 {
	if scale <= ScaleMax {
		return float64(mantissa) / powersOf10[scale&ScaleMax]
	}
	return math.Float64frombits(uint64(mantissa))
}

// DecimalOf finds the shortest decimal whose float64 has exactly the bits of v,
// trying hint first, and falls back to the bits themselves. Infinities, NaN and
// −0 always travel as bits.
func DecimalOf(v float64, hint uint8) Number {
	if hint <= ScaleMax {
		if n, ok := decimalAt(v, hint); ok {
			return n
		}
	}
	for scale := range uint8(scaleTried) {
		if n, ok := decimalAt(v, scale); ok {
			return n
		}
	}
	return FloatNumber(v)
}

// Decimals with more places are rare, and compress no better than bits.
const scaleTried = 10

func decimalAt(v float64, scale uint8) (Number, bool) {
	p := v * powersOf10[scale&ScaleMax]
	if !(p >= -MantissaMax && p <= MantissaMax) {
		return Number{}, false
	}
	m := int64(math.RoundToEven(p))
	if math.Float64bits(Float64(m, scale)) != math.Float64bits(v) {
		return Number{}, false
	}
	return Number{Mantissa: m, Scale: scale}, true
}
