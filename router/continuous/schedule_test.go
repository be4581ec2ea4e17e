package continuous

import (
	"testing"
	"time"
	_ "time/tzdata"
)

// slowRuns walks every second of a time in which a process lives, as the documents of InfluxDB say what a query
// does: it runs at each multiple of every, and then writes each window that begins within reach before, and that is complete or,
// with an EVERY shorter than it, has begun. It returns by run which windows are written. There is no change of clocks in it.
func slowRuns(s schedule, from, to time.Time) map[time.Time][]time.Time {
	runs := map[time.Time][]time.Time{}
	for now := from; !now.After(to); now = now.Add(time.Second) {
		if now.Add(-s.offset).UnixNano()%int64(s.every) != 0 {
			continue
		}
		for start := now.Add(-s.reach - s.interval); !start.After(now); start = start.Add(time.Second) {
			if start.Add(-s.offset).UnixNano()%int64(s.interval) != 0 {
				continue
			}
			complete := !start.Add(s.interval).After(now)
			begun := s.every < s.interval && start.Before(now)
			within := start.Add(s.reach).After(now) || start.Add(s.reach).Equal(now)
			if s.every < s.interval && s.reach == s.interval {
				within = !start.Add(s.interval).Before(now)
			}
			if (complete || begun) && within {
				runs[now] = append(runs[now], start)
			}
		}
	}
	return runs
}

func TestWindows(t *testing.T) {
	begin := time.Date(2024, 2, 29, 23, 0, 0, 0, time.UTC)
	for name, s := range map[string]schedule{
		"GROUP BY time(1m)":                                  {interval: time.Minute},
		"GROUP BY time(1m, 10s)":                             {interval: time.Minute, offset: 10 * time.Second},
		"RESAMPLE EVERY 15s GROUP BY time(1m)":               {interval: time.Minute, every: 15 * time.Second},
		"RESAMPLE FOR 5m GROUP BY time(1m)":                  {interval: time.Minute, reach: 5 * time.Minute},
		"RESAMPLE EVERY 5m GROUP BY time(1m)":                {interval: time.Minute, every: 5 * time.Minute},
		"RESAMPLE EVERY 2m FOR 6m GROUP BY time(1m)":         {interval: time.Minute, every: 2 * time.Minute, reach: 6 * time.Minute},
		"RESAMPLE EVERY 2m FOR 6m GROUP BY time(1m, 20s)":    {interval: time.Minute, offset: 20 * time.Second, every: 2 * time.Minute, reach: 6 * time.Minute},
		"RESAMPLE EVERY 30s FOR 3m GROUP BY time(1m)":        {interval: time.Minute, every: 30 * time.Second, reach: 3 * time.Minute},
		"GROUP BY time(1h)":                                  {interval: time.Hour},
		"GROUP BY time(1h), RESAMPLE EVERY 30m":              {interval: time.Hour, every: 30 * time.Minute},
		"GROUP BY time(90s, 45s) RESAMPLE EVERY 90s FOR 90s": {interval: 90 * time.Second, offset: 45 * time.Second, every: 90 * time.Second, reach: 90 * time.Second},
	} {
		s.setDefaults()
		want := slowRuns(s, begin, begin.Add(3*time.Hour))
		ran := s.ran(begin.Add(-time.Second))
		count := 0
		for now := begin; !now.After(begin.Add(3 * time.Hour)); now = now.Add(time.Second) {
			next := s.next(ran)
			if now.Before(next) {
				if len(want[now]) > 0 {
					t.Errorf("%s: no run at %s, want %v", name, now, want[now])
				}
				continue
			}
			var got []time.Time
			from, to := s.windows(next, now)
			for ; from.Before(to); from = from.Add(s.interval) {
				got = append(got, from)
			}
			if len(got) != len(want[now]) || len(got) > 0 && (!got[0].Equal(want[now][0]) || !got[len(got)-1].Equal(want[now][len(got)-1])) {
				t.Fatalf("%s at %s: %v, want %v", name, now, got, want[now])
			}
			ran = s.ran(now)
			count++
		}
		if count == 0 {
			t.Errorf("%s never ran", name)
		}
	}
}

// TestDaysOfAZone: days begin at midnight there, also those of 23 and 25 hours.
func TestDaysOfAZone(t *testing.T) {
	berlin, err := time.LoadLocation("Europe/Berlin")
	if err != nil {
		t.Fatal(err)
	}
	s := schedule{interval: 24 * time.Hour, location: berlin}
	s.setDefaults()
	for _, change := range []time.Time{time.Date(2024, 3, 31, 0, 0, 0, 0, berlin), time.Date(2024, 10, 27, 0, 0, 0, 0, berlin)} {
		ran := s.ran(change.AddDate(0, 0, -2).Add(time.Minute))
		for day := -1; day < 4; day++ {
			want := time.Date(change.Year(), change.Month(), change.Day()+day, 0, 0, 0, 0, berlin)
			next := s.next(ran)
			if !next.Equal(want) {
				t.Fatalf("day %d: due at %s, want %s", day, next, want)
			}
			from, to := s.windows(next, next.Add(time.Second))
			if !to.Equal(want) || !from.Equal(want.AddDate(0, 0, -1)) {
				t.Fatalf("day %d: from %s to %s, want %s to %s", day, from, to, want.AddDate(0, 0, -1), want)
			}
			ran = s.ran(next.Add(time.Second))
		}
	}
}
