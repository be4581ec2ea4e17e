package load

import (
	"math"
	"time"

	ql "github.com/influxdata/influxql"
)

// Interval is how GROUP BY time(duration, offset) cuts time. The zero duration: not at all.
type Interval struct {
	DurationNs, OffsetNs int64
	Location             *time.Location // nil: UTC
}

// Zone returns the offset of local time in nanoseconds.
func (v *Interval) Zone(ns int64) int64 {
	if v.Location == nil {
		return 0
	}
	_, seconds := time.Unix(0, ns).In(v.Location).Zone()
	return int64(seconds) * int64(time.Second)
}

// Window returns the window [start, end) that a time falls into. Windows are multiples of
// the duration of local time, moved by the offset; where clocks are changed, the window
// that holds the change is longer or shorter, unless the change is as long as a window.
func (v *Interval) Window(ns int64) (start, end int64) {
	t := ns - v.OffsetNs
	zone := v.Zone(t)
	into := (t + zone) % v.DurationNs
	if into < 0 {
		into += v.DurationNs
	}
	start = ql.MinTime
	if ql.MinTime+into < t {
		start = t - into
	}
	start += v.OffsetNs
	if v.Location != nil {
		if change := zone - v.Zone(start); change != 0 && magnitude(change) < v.DurationNs {
			start += change
		}
	}
	end = ql.MaxTime
	if left := v.DurationNs - into; ql.MaxTime-left > t {
		end = t + left
	}
	if v.Location != nil {
		after := v.Zone(end)
		if change := zone - after; change != 0 && magnitude(change) < v.DurationNs {
			// Time that is added goes to the window before the change; time that is
			// skipped is taken from it only when the change falls into it.
			if change > 0 || v.Zone(end+change) == after {
				end += change
			}
		}
	}
	return start, end + v.OffsetNs
}

// Next returns the start of the window after (backwards: before) the one that starts at
// start, and the local offset there, as InfluxDB steps from one window to be filled to
// the next.
func (v *Interval) Next(start, zone int64, backwards bool) (at, zoneThere int64) {
	step := v.DurationNs
	if backwards {
		step = -step
	}
	at = start + step
	if v.Location == nil {
		return at, 0
	}
	if there := v.Zone(at - 1); there != zone {
		if change := zone - there; magnitude(change) < v.DurationNs {
			at += change
		}
		zone = there
	}
	return at, zone
}

// isPlain reports whether the windows are those of scan.Windows.
func (v *Interval) isPlain() bool {
	const ms = int64(time.Millisecond)
	return v.Location == nil && v.DurationNs%ms == 0 && v.OffsetNs%ms == 0
}

func magnitude(v int64) int64 {
	if v < 0 {
		return -v
	}
	return v
}

// Times of InfluxQL are nanoseconds, those of the storage milliseconds.
const NsPerMs = int64(time.Millisecond)

// The milliseconds whose nanoseconds fit into 64 bits.
const (
	timeMsMin = math.MinInt64/NsPerMs + 1
	timeMsMax = math.MaxInt64/NsPerMs - 1
)

// MsRange returns the milliseconds within [fromNs, toNs].
func MsRange(fromNs, toNs int64) (fromMs, toMs int64) {
	fromMs, toMs = fromNs/NsPerMs, toNs/NsPerMs
	if fromMs*NsPerMs < fromNs {
		fromMs++
	}
	if toMs*NsPerMs > toNs {
		toMs--
	}
	return max(fromMs, timeMsMin), min(toMs, timeMsMax)
}
