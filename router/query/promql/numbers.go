package promql

import (
	"math"
	"strconv"
)

// pointWriter writes points. Times of one answer have most of their digits in common.
type pointWriter struct {
	high int64  // ten thousands of seconds of the last time
	text []byte // their digits
}

// appendPoint writes [time,"value"].
func (w *pointWriter) appendPoint(b []byte, timeMs int64, value float64) []byte {
	b = append(b, '[')
	if high := timeMs / 1e7; high > 0 {
		if high != w.high {
			w.high, w.text = high, strconv.AppendInt(w.text[:0], high, 10)
		}
		b = append(b, w.text...)
		low := timeMs % 1e7
		b = append4(b, low/1000)
		b = appendFraction(b, low%1000)
	} else {
		b = appendTime(b, timeMs)
	}
	b = appendFloat(append(b, ',', '"'), value)
	return append(b, '"', ']')
}

// append4 writes four digits.
func append4(b []byte, n int64) []byte {
	return append(b, byte('0'+n/1000), byte('0'+n/100%10), byte('0'+n/10%10), byte('0'+n%10))
}

// appendFraction writes the milliseconds of a time, if there are any.
func appendFraction(b []byte, ms int64) []byte {
	if ms == 0 {
		return b
	}
	return append(b, '.', byte('0'+ms/100), byte('0'+ms/10%10), byte('0'+ms%10))
}

// appendWhole writes a number, which mostly is small.
func appendWhole(b []byte, n int64) []byte {
	switch {
	case n < 0 || n >= 1e4:
		return strconv.AppendInt(b, n, 10)
	case n < 10:
		return append(b, byte('0'+n))
	case n < 100:
		return append(b, byte('0'+n/10), byte('0'+n%10))
	case n < 1000:
		return append(b, byte('0'+n/100), byte('0'+n/10%10), byte('0'+n%10))
	}
	return append4(b, n)
}

// appendTime writes seconds with the milliseconds that there are.
func appendTime(b []byte, timeMs int64) []byte {
	if timeMs < 0 {
		b = append(b, '-')
		timeMs = -timeMs
	}
	return appendFraction(strconv.AppendInt(b, timeMs/1000, 10), timeMs%1000)
}

// appendFloat writes a value as Prometheus does: shortest, with an exponent only where
// ECMAScript has one.
func appendFloat(b []byte, v float64) []byte {
	if v == math.Trunc(v) && math.Abs(v) < 1<<53 && (v != 0 || !math.Signbit(v)) {
		return appendWhole(b, int64(v)) // the same text, faster
	}
	const shift = 1e4 // most values have few decimals, and then these are the shortest text
	if m := v * shift; math.Abs(m) < 1e15 {
		whole := int64(m + math.Copysign(0.5, m))
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
	b = append(appendWhole(b, tenThousandths/1e4), '.')
	b = append4(b, tenThousandths%1e4)
	for b[len(b)-1] == '0' {
		b = b[:len(b)-1]
	}
	return b
}
