package continuous

import "time"

// schedule is when a query runs, and over which windows. Its methods take and return times in its location.
type schedule struct {
	interval time.Duration  // of GROUP BY time
	offset   time.Duration  // of GROUP BY time
	every    time.Duration  // RESAMPLE EVERY: the time from run to run
	reach    time.Duration  // RESAMPLE FOR: how far back windows are written again
	location *time.Location // of tz()
}

// setDefaults sets what the statement says nothing of, as InfluxDB does.
func (s *schedule) setDefaults() {
	if s.every == 0 {
		s.every = s.interval
	}
	if s.reach == 0 {
		s.reach = max(s.interval, s.every)
	}
	if s.location == nil {
		s.location = time.UTC
	}
}

// ran returns the time that a run at now counts as: the last one at which it was due.
func (s *schedule) ran(now time.Time) time.Time {
	return truncate(now.In(s.location).Add(-s.offset), s.every).Add(s.offset)
}

// next returns when a query is due that has run at a time. A day with a change of the zone's offset is longer or shorter.
func (s *schedule) next(now time.Time) time.Time {
	ran := s.ran(now)
	next := ran.Add(s.every)
	if change := zoneOffset(ran.Add(-1)) - zoneOffset(next.Add(-1)); change.Abs() < s.every {
		next = next.Add(change)
	}
	if !next.After(now) { // clocks are changed about now, and EVERY is no part of a day
		next = next.Add(s.every)
	}
	return next
}

// windows returns the start of the first window and the end of the last one of a run at now that was due at a
// time before. There may be none: then from is not before to.
func (s *schedule) windows(due, now time.Time) (from, to time.Time) {
	due, now = due.In(s.location), now.In(s.location)
	from = s.start(due.Add(s.interval - s.reach - 1))
	// InfluxDB leaves windows out where EVERY is not a multiple of the interval.
	if before := s.end(s.ran(due.Add(-1))); before.Before(from) {
		from = before
	}
	return from, s.end(now)
}

// end returns the end of the last window of a run.
func (s *schedule) end(now time.Time) time.Time {
	every := min(s.every, s.interval)
	return s.start(now.Add(s.interval - every))
}

// start returns the start of the window of a time.
func (s *schedule) start(t time.Time) time.Time {
	return truncate(t.In(s.location).Add(-s.offset), s.interval).Add(s.offset)
}

// truncate returns the last multiple of d since 1970 by the clocks of the time's location.
func truncate(t time.Time, d time.Duration) time.Time {
	offset := zoneOffset(t)
	past := time.Duration((t.UnixNano() + int64(offset)) % int64(d))
	if past < 0 {
		past += d
	}
	start := t.Add(-past)
	if change := offset - zoneOffset(start); change.Abs() < d {
		start = start.Add(change)
	}
	return start
}

// zoneOffset returns how much clocks are ahead of UTC.
func zoneOffset(t time.Time) time.Duration {
	_, seconds := t.Zone()
	return time.Duration(seconds) * time.Second
}
