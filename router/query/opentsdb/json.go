package opentsdb

import (
	"bytes"
	"math"

	"github.com/tickmesh/tickmesh/api/jsontext"
	"github.com/tickmesh/tickmesh/router/query/decimal"
)

// appendFloat appends v, without a point when it is a whole number. What JSON has no number for
// is null, or with asString the text that OpenTSDB's JSON library writes.
func appendFloat(dst []byte, v float64, asString bool) []byte {
	switch {
	case v == v && !math.IsInf(v, 0):
		return decimal.Append(dst, v)
	case !asString:
		return append(dst, "null"...)
	case v > 0:
		return append(dst, `"Infinity"`...)
	case v < 0:
		return append(dst, `"-Infinity"`...)
	}
	return append(dst, `"NaN"`...)
}

// appendDouble appends v as appendFloat does, but whole numbers with a point, as Java writes doubles: what a client
// reads must not change its type with the value.
func appendDouble(dst []byte, v float64, asString bool) []byte {
	begin := len(dst)
	dst = appendFloat(dst, v, asString)
	if math.Trunc(v) == v && !math.IsInf(v, 0) && !bytes.ContainsAny(dst[begin:], ".e") {
		dst = append(dst, '.', '0')
	}
	return dst
}

// appendField appends "name": with a comma before it unless it opens an object.
func appendField(dst []byte, name string) []byte {
	if n := len(dst); n > 0 && dst[n-1] != '{' {
		dst = append(dst, ',')
	}
	return append(jsontext.AppendHTML(dst, name), ':')
}

// appendStrings appends a JSON array of strings.
func appendStrings[T ~string | ~[]byte](dst []byte, list []T) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = jsontext.AppendHTML(dst, s)
	}
	return append(dst, ']')
}
