package segment

// Rollup is the aggregate of the samples of one hour or day of a series, NaN
// samples left out. The sum of an hour is that of its samples as float64, added to 0
// in order of time; that of a day is the sum of those of its hours, in the same way. So
// has whoever adds up samples the same bits. In segments without Meta.ScanSums it is
// exact where all samples are decimals, and may differ from these in its last bits.
type Rollup struct {
	StartMs       int64
	Count         int64
	Min, Max, Sum float64
	Digest        uint64 // of DayDigests, which tell no other aggregate but Count
	Hidden        int64  // see scan.AggregateHidden; set by no segment
	Ends                 // of days of segments with Meta.DayRollups, and what Reader.HourEnds sets; else zero
}

// Ends are the first and the last value of a rollup with their times, and those of the first one
// of its least and of its greatest values.
type Ends struct {
	First, Last                   float64
	FirstMs, LastMs, MinMs, MaxMs int64
}

// Merge adds the samples of other to the rollup, but for Ends.
func (r *Rollup) Merge(other *Rollup) {
	if other.Count == 0 {
		return
	}
	if r.Count == 0 {
		start := r.StartMs
		*r = *other
		r.StartMs = start
		return
	}
	r.Count += other.Count
	r.Sum += other.Sum
	if other.Min < r.Min {
		r.Min = other.Min
	}
	if other.Max > r.Max {
		r.Max = other.Max
	}
}

// HasDays reports whether rollups of days are kept: a narrower partition has hours only.
func (p Partition) HasDays() bool { return p.EndMs-p.StartMs >= DayMs }
