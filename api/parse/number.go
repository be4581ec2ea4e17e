package parse

import (
	"errors"
	"math"
	"strconv"

	"github.com/tickmesh/tickmesh/api/series"
)

var (
	errNumberSyntax = errors.New("invalid syntax")
	errNumberRange  = errors.New("value out of range")
)

// numberOf reads a decimal number in any form: sign, digits with or without a
// point, exponent. The float64 of the result has the bits that
// strconv.ParseFloat returns for the text. Numbers without an exponent whose
// digits fit keep them: "20.10" is 2010·10^-2. Words (NaN, Inf), hexadecimal
// and underscores are errNumberSyntax; beyond the largest float64 is
// errNumberRange.
func numberOf(text []byte) (series.Number, error) {
	if n, ok := plainDecimal(text); ok {
		return n, nil
	}
	if !decimalSyntax(text) {
		return series.Number{}, errNumberSyntax
	}
	v, err := strconv.ParseFloat(string(text), 64)
	if err != nil {
		return series.Number{}, errNumberRange
	}
	return series.DecimalOf(v, 0), nil
}

// plainDecimal reads what can keep its digits.
func plainDecimal(text []byte) (series.Number, bool) {
	i, negative := 0, false
	if len(text) > 0 && (text[0] == '-' || text[0] == '+') {
		i, negative = 1, text[0] == '-'
	}
	var mantissa int64
	digits, scale, point := 0, 0, false
	for ; i < len(text); i++ {
		c := text[i]
		switch {
		case c >= '0' && c <= '9':
			mantissa = mantissa*10 + int64(c-'0')
			if mantissa > series.MantissaMax {
				return series.Number{}, false
			}
			digits++
			if point {
				scale++
			}
		case c == '.' && !point:
			point = true
		default:
			return series.Number{}, false
		}
	}
	if digits == 0 || scale > series.ScaleMax {
		return series.Number{}, false
	}
	if negative {
		if mantissa == 0 {
			return series.FloatNumber(math.Copysign(0, -1)), true
		}
		mantissa = -mantissa
	}
	return series.Number{Mantissa: mantissa, Scale: uint8(scale)}, true
}

// decimalSyntax reports whether text is [+-] digits [. digits] [e [+-] digits],
// with a digit on one side of the point at least.
func decimalSyntax(text []byte) bool {
	i := skipSign(text, 0)
	whole := skipDigits(text, i)
	digits := whole - i
	i = whole
	if i < len(text) && text[i] == '.' {
		end := skipDigits(text, i+1)
		digits += end - i - 1
		i = end
	}
	if digits == 0 {
		return false
	}
	if i < len(text) && (text[i] == 'e' || text[i] == 'E') {
		start := skipSign(text, i+1)
		i = skipDigits(text, start)
		if i == start {
			return false
		}
	}
	return i == len(text)
}

func skipSign(text []byte, i int) int {
	if i < len(text) && (text[i] == '-' || text[i] == '+') {
		i++
	}
	return i
}

func skipDigits(text []byte, i int) int {
	for i < len(text) && text[i] >= '0' && text[i] <= '9' {
		i++
	}
	return i
}

// integerNumber carries an integer as float64 sees it.
func integerNumber(v int64) series.Number {
	if v >= -series.MantissaMax && v <= series.MantissaMax {
		return series.Number{Mantissa: v}
	}
	return series.FloatNumber(float64(v))
}

// unsignedNumber carries an unsigned integer as float64 sees it.
func unsignedNumber(v uint64) series.Number {
	if v <= series.MantissaMax {
		return series.Number{Mantissa: int64(v)}
	}
	return series.FloatNumber(float64(v))
}
