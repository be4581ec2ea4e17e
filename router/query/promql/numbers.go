package promql

import (
	"math"
	"strconv"
)

// appendTime writes seconds with the milliseconds that there are.
func appendTime(b []byte, timeMs int64) []byte {
	if timeMs < 0 {
		b = append(b, '-')
		timeMs = -timeMs
	}
	b = strconv.AppendInt(b, timeMs/1000, 10)
	if fraction := timeMs % 1000; fraction != 0 {
		b = append(b, '.', byte('0'+fraction/100), byte('0'+fraction/10%10), byte('0'+fraction%10))
	}
	return b
}

// appendFloat writes a value as Prometheus does: shortest, with an exponent only where
// ECMAScript has one.
func appendFloat(b []byte, v float64) []byte {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 && (v != 0 || !math.Signbit(v)) {
		return strconv.AppendInt(b, int64(v), 10) // the same text, faster
	}
	const shift = 1e4 // most values have few decimals, and then these are the shortest text
	if m := v * shift; math.Abs(m) < 1e15 {
		whole := int64(math.Round(m))
		if float64(whole)/shift == v && whole != 0 {
			return appendDecimal(b, whole)
		}
	}
	form := byte('f')
	if size := math.Abs(v); size != 0 && (size < 1e-6 || size >= 1e21) {
		form = 'e'
	}
	return strconv.AppendFloat(b, v, form, -1, 64)
}

// appendDecimal writes a number of ten thousandths that are no whole number.
func appendDecimal(b []byte, tenThousandths int64) []byte {
	if tenThousandths < 0 {
		b = append(b, '-')
		tenThousandths = -tenThousandths
	}
	b = strconv.AppendInt(b, tenThousandths/1e4, 10)
	fraction := tenThousandths % 1e4
	b = append(b, '.', byte('0'+fraction/1000), byte('0'+fraction/100%10), byte('0'+fraction/10%10), byte('0'+fraction%10))
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}
