package influxql

import (
	"math"
	"strconv"
)

func appendInteger(dst []byte, v int64) []byte { return strconv.AppendInt(dst, v, 10) }

// appendNumber appends a number as encoding/json writes floats: 5 for 5.0. JSON has no
// infinities; they become null.
func appendNumber(dst []byte, v float64) []byte {
	if math.IsInf(v, 0) || v != v {
		return append(dst, "null"...)
	}
	if a := math.Abs(v); a != 0 && (a < 1e-6 || a >= 1e21) {
		dst = strconv.AppendFloat(dst, v, 'e', -1, 64)
		if n := len(dst); n >= 4 && dst[n-4] == 'e' && dst[n-3] == '-' && dst[n-2] == '0' { // e-09 to e-9
			dst[n-2] = dst[n-1]
			dst = dst[:n-1]
		}
		return dst
	}
	return strconv.AppendFloat(dst, v, 'f', -1, 64)
}
