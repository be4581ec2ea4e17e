package opentsdb

import (
	"math"
	"unicode/utf8"

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

// appendString appends a JSON string. Bytes that are not UTF-8 become U+FFFD.
func appendString[T ~string | ~[]byte](dst []byte, s T) []byte {
	const digits = "0123456789abcdef"
	dst = append(dst, '"')
	for i := 0; i < len(s); {
		c := s[i]
		if c < utf8.RuneSelf {
			i++
			switch {
			case c == '"' || c == '\\':
				dst = append(dst, '\\', c)
			case c == '\n':
				dst = append(dst, '\\', 'n')
			case c == '\r':
				dst = append(dst, '\\', 'r')
			case c == '\t':
				dst = append(dst, '\\', 't')
			case c < 0x20 || c == 0x7f || c == '<' || c == '>' || c == '&': // safe inside of HTML and scripts
				dst = append(dst, '\\', 'u', '0', '0', digits[c>>4], digits[c&15])
			default:
				dst = append(dst, c)
			}
			continue
		}
		r, size := utf8.DecodeRuneInString(string(s[i:min(len(s), i+utf8.UTFMax)]))
		switch {
		case r == utf8.RuneError && size == 1:
			dst = append(dst, `\ufffd`...)
		case r == '\u2028' || r == '\u2029': // line ends in scripts
			dst = append(dst, `\u202`...)
			dst = append(dst, digits[r&15])
		default:
			dst = append(dst, s[i:i+size]...)
		}
		i += size
	}
	return append(dst, '"')
}

// appendField appends "name": with a comma before it unless it opens an object.
func appendField(dst []byte, name string) []byte {
	if n := len(dst); n > 0 && dst[n-1] != '{' {
		dst = append(dst, ',')
	}
	return append(appendString(dst, name), ':')
}

// appendStrings appends a JSON array of strings.
func appendStrings[T ~string | ~[]byte](dst []byte, list []T) []byte {
	dst = append(dst, '[')
	for i, s := range list {
		if i > 0 {
			dst = append(dst, ',')
		}
		dst = appendString(dst, s)
	}
	return append(dst, ']')
}
