package promql

import (
	"strconv"

	"github.com/tickmesh/tickmesh/router/query/decimal"
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
	b = decimal.Append(append(b, ',', '"'), value)
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

// appendTime writes seconds with the milliseconds that there are.
func appendTime(b []byte, timeMs int64) []byte {
	if timeMs < 0 {
		b = append(b, '-')
		timeMs = -timeMs
	}
	return appendFraction(strconv.AppendInt(b, timeMs/1000, 10), timeMs%1000)
}
