package influxql

import (
	"math"
	"time"

	ql "github.com/influxdata/influxql"
)

// interval is how GROUP BY time(duration, offset) cuts time. The zero duration: not at all.
type interval struct {
	durationNs, offsetNs int64
	location             *time.Location // nil: UTC
}

// zone returns the offset of local time in nanoseconds.
func (v *interval) zone(ns int64) int64 {
	if v.location == nil {
		return 0
	}
	_, seconds := time.Unix(0, ns).In(v.location).Zone()
	return int64(seconds) * int64(time.Second)
}

// window returns the window [start, end) that a time falls into. Windows are multiples of
// the duration of local time, moved by the offset; where clocks are changed, the window
// that holds the change is longer or shorter, unless the change is as long as a window.
func (v *interval) window(ns int64) (start, end int64) {
	t := ns - v.offsetNs
	zone := v.zone(t)
	into := (t + zone) % v.durationNs
	if into < 0 {
		into += v.durationNs
	}
	start = ql.MinTime
	if ql.MinTime+into < t {
		start = t - into
	}
	start += v.offsetNs
	if v.location != nil {
		if change := zone - v.zone(start); change != 0 && magnitude(change) < v.durationNs {
			start += change
		}
	}
	end = ql.MaxTime
	if left := v.durationNs - into; ql.MaxTime-left > t {
		end = t + left
	}
	if v.location != nil {
		after := v.zone(end)
		if change := zone - after; change != 0 && magnitude(change) < v.durationNs {
			// Time that is added goes to the window before the change; time that is
			// skipped is taken from it only when the change falls into it.
			if change > 0 || v.zone(end+change) == after {
				end += change
			}
		}
	}
	return start, end + v.offsetNs
}

// next returns the start of the window after (backwards: before) the one that starts at
// start, and the local offset there, as InfluxDB steps from one window to be filled to
// the next.
func (v *interval) next(start, zone int64, backwards bool) (at, zoneThere int64) {
	step := v.durationNs
	if backwards {
		step = -step
	}
	at = start + step
	if v.location == nil {
		return at, 0
	}
	if there := v.zone(at - 1); there != zone {
		if change := zone - there; magnitude(change) < v.durationNs {
			at += change
		}
		zone = there
	}
	return at, zone
}

// isPlain reports whether the windows are those of scan.Windows.
func (v *interval) isPlain() bool {
	const ms = int64(time.Millisecond)
	return v.location == nil && v.durationNs%ms == 0 && v.offsetNs%ms == 0
}

func magnitude(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}

// Times of InfluxQL are nanoseconds, those of the storage milliseconds.
const nsPerMs = int64(time.Millisecond)

// The milliseconds whose nanoseconds fit into 64 bits.
const (
	timeMsMin = math.MinInt64/nsPerMs + 1
	timeMsMax = math.MaxInt64/nsPerMs - 1
)

// msRange returns the milliseconds within [fromNs, toNs].
func msRange(fromNs, toNs int64) (fromMs, toMs int64) {
	fromMs, toMs = fromNs/nsPerMs, toNs/nsPerMs
	if fromMs*nsPerMs < fromNs {
		fromMs++
	}
	if toMs*nsPerMs > toNs {
		toMs--
	}
	return max(fromMs, timeMsMin), min(toMs, timeMsMax)
}
