package mqtt

import (
	"math"
	"math/big"
	"strconv"
	"strings"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
)

// valueBytesMax bounds a payload that is one number.
const valueBytesMax = 256

// numberOfText returns what a text stands for: a decimal number, or true, false, on and off.
func numberOfText(text string) (float64, bool) {
	switch strings.ToLower(text) {
	case "true", "on":
		return 1, true
	case "false", "off":
		return 0, true
	}
	if strings.Trim(text, "0123456789+-.eE") != "" { // no words, hexadecimal digits and underscores
		return 0, false
	}
	v, err := strconv.ParseFloat(text, 64)
	return v, err == nil && !math.IsInf(v, 0)
}

// timeUnit is what times in payloads count; unitText are texts of RFC 3339.
type timeUnit uint8

const (
	unitNone timeUnit = iota
	unitNs
	unitUs
	unitMs
	unitS
	unitText
)

var timeUnits = map[string]timeUnit{"ns": unitNs, "us": unitUs, "ms": unitMs, "s": unitS, "rfc3339": unitText} //nolint:gochecknoglobals // a constant table

// perMs are how many of a unit a millisecond has.
var perMs = map[timeUnit]float64{unitNs: 1e6, unitUs: 1e3, unitMs: 1, unitS: 1e-3} //nolint:gochecknoglobals // a constant table

// timeOfText returns the milliseconds of a time, rounded down. It is not ok for what is none of the unit, or which
// no query reaches.
func timeOfText(text string, unit timeUnit) (ms int64, ok bool) {
	switch {
	case unit == unitText:
		t, err := time.Parse(time.RFC3339Nano, text)
		if err != nil {
			return 0, false
		}
		ms = t.UnixMilli()
	default:
		if ms, ok = wholeMs(text, unit); !ok {
			ms, ok = brokenMs(text, unit)
		}
		if !ok {
			return 0, false
		}
	}
	return ms, ms >= scan.TimeMsMin && ms <= scan.TimeMsMax
}

// exactBytesMax bounds the texts of numbers that are read to their last digit.
const exactBytesMax = 64

// brokenMs is timeOfText for numbers with a fraction or an exponent. A float64 is too coarse: as one, 1700000000.123 s is
// less than 1700000000123 ms.
func brokenMs(text string, unit timeUnit) (int64, bool) {
	v, ok := numberOfText(text)
	ms := math.Floor(v / perMs[unit])
	if !ok || math.Abs(ms) >= 1<<53 || strings.Trim(text, "0123456789+-.eE") != "" {
		return 0, false
	}
	if v == 0 || len(text) > exactBytesMax { // of 0 the exponent may be such that the exact number takes much
		return int64(ms), true
	}
	exact, ok := new(big.Rat).SetString(text)
	if !ok {
		return int64(ms), true
	}
	if unit == unitS {
		exact.Mul(exact, big.NewRat(1000, 1))
	} else {
		exact.Quo(exact, big.NewRat(int64(perMs[unit]), 1))
	}
	return new(big.Int).Div(exact.Num(), exact.Denom()).Int64(), true // Euclid's: rounded down
}

// wholeMs is timeOfText for whole numbers, of which no digit is lost.
func wholeMs(text string, unit timeUnit) (int64, bool) {
	v, err := strconv.ParseInt(text, 10, 64)
	switch {
	case err != nil:
		return 0, false
	case unit == unitS:
		return v * 1000, v > -1e15 && v < 1e15
	}
	per := int64(perMs[unit])
	ms := v / per
	if v%per < 0 {
		ms--
	}
	return ms, true
}
