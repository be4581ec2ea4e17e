package load

import (
	"math"
	"math/rand/v2"
	"testing"
	"time"

	ql "github.com/influxdata/influxql"
)

// TestWindows: a window holds its time, is as long as it should be, and the next one
// begins where it ends; also at both ends of time.
func TestWindows(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 1))
	for range 20_000 {
		v := Interval{DurationNs: 1 + r.Int64N(1<<uint(1+r.IntN(60)))}
		v.OffsetNs = r.Int64N(v.DurationNs)
		at := r.Int64N(1<<62) - 1<<61
		start, end := v.Window(at)
		if start > at || end <= at || end-start != v.DurationNs || (start-v.OffsetNs)%v.DurationNs != 0 {
			t.Fatalf("%+v: the window of %d is %d to %d", v, at, start, end)
		}
		if next, _ := v.Next(start, 0, false); next != end {
			t.Fatalf("%+v: %d is next to %d", v, next, start)
		}
		if next, _ := v.Next(end, 0, true); next != start {
			t.Fatalf("%+v: %d is before %d", v, next, end)
		}
	}
	v := Interval{DurationNs: int64(time.Hour)}
	for _, at := range []int64{ql.MinTime, ql.MinTime + 1, ql.MaxTime - 1, ql.MaxTime} {
		if start, end := v.Window(at); start > at || end < at {
			t.Errorf("the window of %d is %d to %d", at, start, end)
		}
	}
}

// TestWindowsOfZones: windows of local time meet, and hold their times, where clocks are
// changed too.
func TestWindowsOfZones(t *testing.T) {
	r := rand.New(rand.NewPCG(2, 2))
	for _, name := range []string{"Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Asia/Kathmandu"} {
		zone, err := time.LoadLocation(name)
		if err != nil {
			t.Skip(err)
		}
		for range 3000 {
			v := Interval{DurationNs: int64([]time.Duration{time.Hour, 6 * time.Hour, 24 * time.Hour, 7 * 24 * time.Hour}[r.IntN(4)]), Location: zone}
			at := time.Date(2023, 1, 1, 0, 0, 0, 0, time.UTC).Add(time.Duration(r.Int64N(int64(365 * 24 * time.Hour)))).UnixNano()
			start, end := v.Window(at)
			if start > at || end <= at {
				t.Fatalf("%s: %v is not in its window, %v to %v", name, time.Unix(0, at).In(zone), time.Unix(0, start).In(zone), time.Unix(0, end).In(zone))
			}
			if v.DurationNs == int64(24*time.Hour) && (time.Unix(0, start).In(zone).Hour() != 0 || time.Unix(0, end).In(zone).Hour() != 0) {
				t.Fatalf("%s: a day from %v to %v", name, time.Unix(0, start).In(zone), time.Unix(0, end).In(zone))
			}
		}
	}
}

func TestMsRange(t *testing.T) {
	for _, c := range [][4]int64{
		{0, 0, 0, 0}, {1, 1_000_000, 1, 1}, {1, 999_999, 1, 0}, {-1, 1, 0, 0}, {-1_000_001, -1_000_000, -1, -1}, {-999_999, -1, 0, -1},
		{ql.MinTime, ql.MaxTime, math.MinInt64/1_000_000 + 1, math.MaxInt64/1_000_000 - 1},
	} {
		if from, to := MsRange(c[0], c[1]); from != c[2] || to != c[3] {
			t.Errorf("%d to %d ns: %d to %d ms", c[0], c[1], from, to)
		}
	}
}
