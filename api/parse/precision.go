package parse

import (
	"math"
	"strconv"
)

// Precision is the unit of a line protocol timestamp.
type Precision uint8

// The precisions. PrecisionGuess takes the unit from the magnitude of each
// timestamp, as TickTock's /api/write does: below 10^11 seconds, below 10^14
// milliseconds, below 10^17 microseconds, else nanoseconds.
const (
	PrecisionNs Precision = iota
	PrecisionUs
	PrecisionMs
	PrecisionS
	PrecisionM
	PrecisionH
	PrecisionGuess
)

// PrecisionOf reads the precision argument of InfluxDB's /write and
// /api/v2/write: n, ns, u, µ, us, ms, s, m, h; empty means nanoseconds.
func PrecisionOf(text string) (Precision, bool) {
	switch text {
	case "", "n", "ns":
		return PrecisionNs, true
	case "u", "µ", "us":
		return PrecisionUs, true
	case "ms":
		return PrecisionMs, true
	case "s":
		return PrecisionS, true
	case "m":
		return PrecisionM, true
	case "h":
		return PrecisionH, true
	}
	return 0, false
}

// InfluxDB takes times that fit 64 bits of nanoseconds, less two sentinels at
// the lower end and one at the upper (models/time.go of InfluxDB 1.8).
const (
	timeNsMin = math.MinInt64 + 2
	timeNsMax = math.MaxInt64 - 1
)

func errTimeRange() string {
	return "time outside range " + strconv.Itoa(timeNsMin) + " - " + strconv.Itoa(timeNsMax)
}

// timeMs returns the milliseconds of a timestamp, rounded down. It is not ok when
// the time is outside InfluxDB's range.
func (p Precision) timeMs(t int64) (ms int64, ok bool) {
	switch p {
	case PrecisionNs:
		return floorDivide(t, 1e6), t >= timeNsMin && t <= timeNsMax
	case PrecisionUs:
		return floorDivide(t, 1e3), t >= timeNsMin/1_000 && t <= timeNsMax/1_000
	case PrecisionMs:
		return t, t >= timeNsMin/1_000_000 && t <= timeNsMax/1_000_000
	case PrecisionS:
		return t * 1e3, t >= timeNsMin/1_000_000_000 && t <= timeNsMax/1_000_000_000
	case PrecisionM:
		return t * 60e3, t >= timeNsMin/60_000_000_000 && t <= timeNsMax/60_000_000_000
	case PrecisionH:
		return t * 3600e3, t >= timeNsMin/3600_000_000_000 && t <= timeNsMax/3600_000_000_000
	default:
		return guessPrecision(t).timeMs(t)
	}
}

func guessPrecision(t int64) Precision {
	switch {
	case t > -1e11 && t < 1e11:
		return PrecisionS
	case t > -1e14 && t < 1e14:
		return PrecisionMs
	case t > -1e17 && t < 1e17:
		return PrecisionUs
	default:
		return PrecisionNs
	}
}

// truncateMs rounds the server's time down to the unit, as InfluxDB does for
// points without a timestamp.
func (p Precision) truncateMs(ms int64) int64 {
	switch p {
	case PrecisionS:
		return floorDivide(ms, 1e3) * 1e3
	case PrecisionM:
		return floorDivide(ms, 60e3) * 60e3
	case PrecisionH:
		return floorDivide(ms, 3600e3) * 3600e3
	default:
		return ms
	}
}

func floorDivide(a, b int64) int64 {
	q := a / b
	if a%b < 0 {
		q--
	}
	return q
}
