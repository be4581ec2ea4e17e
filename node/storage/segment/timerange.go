package segment

import "math"

// TimeRange is a closed range of time in milliseconds.
type TimeRange struct{ FromMs, ToMs int64 }

// AllTime returns the range of all times.
func AllTime() TimeRange { return TimeRange{FromMs: math.MinInt64, ToMs: math.MaxInt64} }

// NoTime returns a range that has no time.
func NoTime() TimeRange { return TimeRange{FromMs: math.MaxInt64, ToMs: math.MinInt64} }

// Has reports whether a time lies in the range.
func (r TimeRange) Has(timeMs int64) bool { return timeMs >= r.FromMs && timeMs <= r.ToMs }
