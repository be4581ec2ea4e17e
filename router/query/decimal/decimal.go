// Package decimal writes float64s as the shortest decimals that read back as the same values.
// It is the one formatter of all query dialects; a dialect decides what it writes for NaN and
// infinities, which have no decimal.
package decimal

import (
	"math"
	"strconv"
)

// Append appends v as Prometheus and OpenTSDB write it: with an exponent, of two digits at
// least, where ECMAScript has one, below 1e-6 and from 1e21 on. NaN and infinities are NaN,
// +Inf and -Inf.
func Append(dst []byte, v float64) []byte {
	if short, ok := appendShort(dst, v); ok {
		return short
	}
	return strconv.AppendFloat(dst, v, format(v), -1, 64)
}

// AppendJSON appends v as encoding/json does, whose exponents have no leading zero. NaN and
// infinities are null.
func AppendJSON(dst []byte, v float64) []byte {
	if math.IsInf(v, 0) || v != v {
		return append(dst, "null"...)
	}
	dst = Append(dst, v)
	if n := len(dst); n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' {
		dst[n-2] = dst[n-1]
		dst = dst[:n-1]
	}
	return dst
}

// AppendPlain appends v without an exponent, as Prometheus writes scalars and InfluxDB
// integers. NaN and infinities are NaN, +Inf and -Inf.
func AppendPlain(dst []byte, v float64) []byte {
	if short, ok := appendShort(dst, v); ok {
		return short
	}
	return strconv.AppendFloat(dst, v, 'f', -1, 64)
}

func format(v float64) byte {
	if size := math.Abs(v); size != 0 && (size < 1e-6 || size >= 1e21) {
		return 'e'
	}
	return 'f'
}

// appendShort appends v if it is a whole number of at most 15 digits, or a decimal of at most
// six places and 15 digits, as most values are. Two such decimals never share a float64, so
// this one is the shortest that reads back as v, and found without searching for it.
func appendShort(dst []byte, v float64) (short []byte, ok bool) {
	const wholeMax, unit, sizeMax = 1e15, 1e6, 1e9
	if whole := int64(v); float64(whole) == v && v < wholeMax && v > -wholeMax && (whole != 0 || !math.Signbit(v)) {
		return strconv.AppendInt(dst, whole, 10), true
	}
	if !(v < sizeMax && v > -sizeMax) {
		return dst, false
	}
	scaled := math.RoundToEven(v * unit)
	if scaled/unit != v || scaled == 0 {
		return dst, false
	}
	if scaled < 0 {
		dst, scaled = append(dst, '-'), -scaled
	}
	n := uint64(scaled)
	fraction := n % unit // not 0: v is no whole number
	dst = append(strconv.AppendUint(dst, n/unit, 10), '.',
		byte('0'+fraction/100000), byte('0'+fraction/10000%10), byte('0'+fraction/1000%10),
		byte('0'+fraction/100%10), byte('0'+fraction/10%10), byte('0'+fraction%10))
	for dst[len(dst)-1] == '0' {
		dst = dst[:len(dst)-1]
	}
	return dst, true
}
