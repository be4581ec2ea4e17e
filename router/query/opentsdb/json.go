package opentsdb

import (
	"math"
	"strconv"
	"unicode/utf8"
)

// appendFloat appends the shortest decimal that reads back as v, without a
// point when v is a whole number. What JSON has no number for is null, or with
// asString the text that OpenTSDB's JSON library writes.
func appendFloat(dst []byte, v float64, asString bool) []byte {
	const wholeMax = 1e15
	if whole := int64(v); v > -wholeMax && v < wholeMax && float64(whole) == v && (whole != 0 || !math.Signbit(v)) {
		return strconv.AppendInt(dst, whole, 10)
	}
	if v != v || math.IsInf(v, 0) {
		switch {
		case !asString:
			return append(dst, "null"...)
		case v > 0:
			return append(dst, `"Infinity"`...)
		case v < 0:
			return append(dst, `"-Infinity"`...)
		}
		return append(dst, `"NaN"`...)
	}
	if dst, ok := appendDecimal(dst, v); ok {
		return dst
	}
	format := byte('f')
	if size := math.Abs(v); size != 0 && (size < 1e-6 || size >= 1e21) {
		format = 'e'
	}
	return strconv.AppendFloat(dst, v, format, -1, 64)
}

// appendDecimal appends v when it is a decimal of at most six places and 15
// digits. Two such decimals never share a float64, so this one is the shortest
// that reads back as v, and found without searching for it.
func appendDecimal(dst []byte, v float64) ([]byte, bool) {
	const places, unit, sizeMax = 6, 1e6, 1e9
	if !(v > -sizeMax && v < sizeMax) {
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
	dst = strconv.AppendUint(dst, n/unit, 10)
	fraction := n % unit
	if fraction == 0 {
		return dst, true
	}
	var digits [places + 1]byte
	digits[0] = '.'
	last := 0
	for i := places; i > 0; i-- {
		digits[i] = byte('0' + fraction%10)
		if last == 0 && fraction%10 != 0 {
			last = i
		}
		fraction /= 10
	}
	return append(dst, digits[:last+1]...), true
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
