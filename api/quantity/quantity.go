package quantity

import (
	"errors"
	"strconv"
	"strings"
	"time"
)

// Errors of texts; they say what is expected.
var (
	ErrBytes = errors.New("expected a size such as 65536, 64KiB or 1.5GB")
	ErrSpan  = errors.New("expected a length of time with its unit, such as 30s, 36h, 90d, 2w or 1y")
)

// BytesMax is the largest size; it leaves room to add two.
const BytesMax = 1 << 62

// Unit is a suffix of sizes.
type Unit struct {
	Suffix string
	Bytes  float64
}

// Units returns the suffixes of sizes. The powers of 1024 come first, the smallest first.
func Units() []Unit {
	return []Unit{
		{"KiB", 1 << 10}, {"MiB", 1 << 20}, {"GiB", 1 << 30}, {"TiB", 1 << 40},
		{"kB", 1e3}, {"KB", 1e3}, {"MB", 1e6}, {"GB", 1e9}, {"TB", 1e12}, {"B", 1},
	}
}

// Bytes reads a number of bytes: 65536, 64KiB, 1.5GiB, 200MB. Errors: ErrBytes.
func Bytes(text string) (int64, error) {
	number, unit := text, 1.0
	for _, u := range Units() {
		if strings.HasSuffix(text, u.Suffix) {
			number, unit = strings.TrimSuffix(text, u.Suffix), u.Bytes
			break
		}
	}
	number = strings.TrimSpace(number)
	if whole, err := strconv.ParseInt(number, 10, 64); err == nil && unit == 1 {
		if whole < 0 || whole > BytesMax || number[0] == '+' {
			return 0, ErrBytes
		}
		return whole, nil // exact, where a float64 is not
	}
	if strings.Trim(number, "0123456789.") != "" { // no exponents, hex, Inf, NaN
		return 0, ErrBytes
	}
	v, err := strconv.ParseFloat(number, 64)
	if err != nil || v*unit > BytesMax {
		return 0, ErrBytes
	}
	return int64(v * unit), nil
}

// SpanDaysMax is the most days that a span may have; it keeps one within time.Duration.
const SpanDaysMax = 100_000

// Span reads a length of time, 0 or more. It knows days, weeks and years of 365 days
// besides Go's own units: 0, 90d, 2w, 1y, 36h, 1m30s. Errors: ErrSpan.
func Span(text string) (time.Duration, error) {
	if n := len(text) - 1; n > 0 {
		if days := daysOf(text[n]); days != 0 {
			v, err := strconv.ParseUint(text[:n], 10, 64)
			if err != nil || v > SpanDaysMax/days {
				return 0, ErrSpan
			}
			return time.Duration(v*days) * 24 * time.Hour, nil
		}
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, ErrSpan
	}
	return d, nil
}

// daysOf returns the days of a unit that time.ParseDuration does not know; 0: it is no
// such unit.
func daysOf(unit byte) uint64 {
	switch unit {
	case 'd':
		return 1
	case 'w':
		return 7
	case 'y':
		return 365
	default:
		return 0
	}
}
