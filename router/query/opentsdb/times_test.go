package opentsdb

import (
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestParseTime(t *testing.T) {
	denver, err := time.LoadLocation("America/Denver")
	if err != nil {
		t.Fatal(err)
	}
	nowMs := now.UnixMilli()
	for text, want := range map[string]int64{
		"now": nowMs, "NOW": nowMs, "1h-ago": nowMs - 3_600_000, "15m-ago": nowMs - 900_000, "30s-AGO": nowMs - 30_000, "250ms-ago": nowMs - 250,
		"2d-ago": nowMs - 2*86_400_000, "1w-ago": nowMs - 7*86_400_000, "1n-ago": nowMs - 30*86_400_000, "1y-ago": nowMs - 365*86_400_000,
		"0": 0, "1": 1000, "1355961600": 1355961600_000, "1355961603418": 1355961603418, "1355961603.4": 1355961603400, "1355961603.418": 1355961603418,
		"12345678901": 12345678901, "1355961600ms": 1355961600, "5ms": 5,
		"2014/01/01": 1388559600_000, "2014/01/01-04:30": 1388559600_000 + 4.5*3_600_000, "2014/01/01 04:30:01": 1388559600_000 + 4.5*3_600_000 + 1000,
		"2014/07/01-00:00:00": 1404194400_000,
	} {
		if got, err := parseTime(text, now, denver); err != nil || got != want {
			t.Errorf("%q: %d, %v; want %d", text, got, err, want)
		}
	}
	for _, text := range []string{"", "-5", "1.5", "1355961603.4189", "h-ago", "1x-ago", "0s-ago", "-1h-ago", "2014/13/01", "2014/1/1", "2014/01/01T04:30",
		"12:30", "99999999999999999999", "9223372036854775807", "1h", "1e3", "99999999999y-ago", "ms", "1355961603.4ms"} {
		if got, err := parseTime(text, now, denver); err == nil {
			t.Errorf("%q: %d, want an error", text, got)
		}
	}
}

// TestCalendar has dates that were looked up in a calendar.
func TestCalendar(t *testing.T) {
	for _, test := range []struct{ zone, interval, at, start, next string }{
		{"UTC", "1d", "2024-02-29T13:00:00Z", "2024-02-29T00:00:00Z", "2024-03-01T00:00:00Z"},
		{"America/New_York", "1d", "2024-03-10T12:00:00-04:00", "2024-03-10T00:00:00-05:00", "2024-03-11T00:00:00-04:00"}, // of 23 hours
		{"America/New_York", "1d", "2024-11-03T12:00:00-05:00", "2024-11-03T00:00:00-04:00", "2024-11-04T00:00:00-05:00"}, // of 25 hours
		{"America/New_York", "6h", "2024-03-10T05:30:00-04:00", "2024-03-10T00:00:00-05:00", "2024-03-10T07:00:00-04:00"},
		{"America/New_York", "6h", "2024-03-10T23:30:00-04:00", "2024-03-10T19:00:00-04:00", "2024-03-11T00:00:00-04:00"},
		{"Asia/Kolkata", "1h", "2024-05-05T10:59:59+05:30", "2024-05-05T10:00:00+05:30", "2024-05-05T11:00:00+05:30"},
		{"Asia/Kolkata", "15m", "2024-05-05T10:59:59+05:30", "2024-05-05T10:45:00+05:30", "2024-05-05T11:00:00+05:30"},
		{"UTC", "1w", "2024-05-08T10:00:00Z", "2024-05-05T00:00:00Z", "2024-05-12T00:00:00Z"}, // Sunday to Sunday
		{"UTC", "1w", "1969-12-31T10:00:00Z", "1969-12-28T00:00:00Z", "1970-01-04T00:00:00Z"},
		{"UTC", "1n", "2024-02-29T10:00:00Z", "2024-02-01T00:00:00Z", "2024-03-01T00:00:00Z"},
		{"Europe/Berlin", "3n", "2024-03-31T23:30:00+02:00", "2024-01-01T00:00:00+01:00", "2024-04-01T00:00:00+02:00"},
		{"UTC", "1y", "2024-02-29T10:00:00Z", "2024-01-01T00:00:00Z", "2025-01-01T00:00:00Z"},
		{"UTC", "5y", "2024-02-29T10:00:00Z", "2024-01-01T00:00:00Z", "2029-01-01T00:00:00Z"},
		{"UTC", "30s", "2024-02-29T10:00:59.999Z", "2024-02-29T10:00:30Z", "2024-02-29T10:01:00Z"},
		{"UTC", "250ms", "2024-02-29T10:00:59.999Z", "2024-02-29T10:00:59.750Z", "2024-02-29T10:01:00Z"},
		{"America/Sao_Paulo", "1d", "2018-11-04T12:00:00-02:00", "2018-11-04T01:00:00-02:00", "2018-11-05T00:00:00-02:00"}, // no midnight
		{"America/Sao_Paulo", "1d", "2018-11-03T12:00:00-03:00", "2018-11-03T00:00:00-03:00", "2018-11-04T01:00:00-02:00"},
		{"Pacific/Apia", "1d", "2011-12-29T12:00:00-10:00", "2011-12-29T00:00:00-10:00", "2011-12-31T00:00:00+14:00"}, // without the 30th
		{"Pacific/Apia", "1d", "2011-12-31T12:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-01T00:00:00+14:00"},
		{"Pacific/Apia", "2d", "2011-12-31T12:00:00+14:00", "2011-12-31T00:00:00+14:00", "2012-01-02T00:00:00+14:00"},
		// Clocks went back over midnight: the first midnight begins the day, for good.
		{"Asia/Gaza", "1n", "2004-10-01T00:30:00+03:00", "2004-10-01T00:00:00+03:00", "2004-11-01T00:00:00+02:00"},
		{"Asia/Gaza", "3h", "2004-10-01T00:30:00+02:00", "2004-10-01T00:00:00+03:00", "2004-10-01T02:00:00+02:00"},
		{"America/St_Johns", "1d", "2010-11-07T00:00:30-02:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
		{"America/St_Johns", "1d", "2010-11-06T23:30:00-03:30", "2010-11-07T00:00:00-02:30", "2010-11-08T00:00:00-03:30"},
	} {
		location, err := findLocation(test.zone)
		if err != nil {
			t.Fatal(err)
		}
		at, err := time.Parse(time.RFC3339Nano, test.at)
		if err != nil {
			t.Fatal(err)
		}
		d, err := parseDownsample(test.interval+"c-sum", false, location, at.UnixMilli())
		if err != nil {
			t.Fatal(err)
		}
		start := d.start(at.UnixMilli())
		next := d.next(start)
		show := func(ms int64) string {
			return time.UnixMilli(ms).In(location).Format("2006-01-02T15:04:05.999Z07:00")
		}
		want := func(text string) string {
			parsed, err := time.Parse(time.RFC3339Nano, text)
			if err != nil {
				t.Fatal(err)
			}
			return show(parsed.UnixMilli())
		}
		if show(start) != want(test.start) || show(next) != want(test.next) {
			t.Errorf("%s in %s: %s to %s, want %s to %s", test.at, test.interval, show(start), show(next), test.start, test.next)
		}
	}
}

// TestWindowsCoverTime: windows follow each other without a gap, and each holds
// its times, whatever the unit and the zone.
func TestWindowsCoverTime(t *testing.T) {
	zones := []string{"UTC", "America/New_York", "Asia/Kolkata", "Australia/Lord_Howe", "America/Sao_Paulo", "Pacific/Apia", "Europe/Dublin", "Africa/Cairo"}
	rapid.Check(t, func(t *rapid.T) {
		location, err := findLocation(rapid.SampledFrom(zones).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		c := &calendar{n: rapid.Int64Range(1, 40).Draw(t, "n"), unit: rapid.SampledFrom([]string{"s", "m", "h", "d", "w", "n", "y"}).Draw(t, "unit"), location: location,
			originMs: rapid.Int64Range(0, 2e12).Draw(t, "origin")}
		d := &downsample{calendar: c}
		if rapid.IntRange(0, 7).Draw(t, "fixed") == 0 {
			d = &downsample{widthMs: rapid.Int64Range(1, 1e10).Draw(t, "width")}
		}
		at := rapid.Int64Range(-2e12, 4e12).Draw(t, "at")
		if rapid.Bool().Draw(t, "near") {
			at = 1325239200_000 + rapid.Int64Range(-2e8, 2e8).Draw(t, "near Apia's missing day")
		}
		start := d.start(at)
		next := d.next(start)
		if start > at || next <= at {
			t.Fatalf("%d is not in [%d, %d)", at, start, next)
		}
		if d.start(start) != start || d.start(next-1) != start || d.start(next) != next {
			t.Fatalf("[%d, %d) starts at %d, %d, then %d", start, next, d.start(start), d.start(next-1), d.start(next))
		}
	})
}

// TestWindowsCoverEveryChangeOfClocks looks at the days around each change of
// clocks since 1970 in zones that change at odd times or skip a date.
func TestWindowsCoverEveryChangeOfClocks(t *testing.T) {
	for _, zone := range []string{"America/St_Johns", "Asia/Gaza", "America/Havana", "Pacific/Apia", "America/Sao_Paulo", "Australia/Lord_Howe"} {
		location, err := findLocation(zone)
		if err != nil {
			t.Fatal(err)
		}
		for _, c := range []calendar{{1, "d", location, 0}, {2, "d", location, 1e12}, {1, "w", location, 0}, {1, "n", location, 0}, {3, "h", location, 0}, {30, "m", location, 0}, {5, "h", location, 1e12}, {7, "m", location, 1e12}} {
			_, change := time.Unix(0, 0).In(location).ZoneBounds()
			for ; !change.IsZero() && change.Year() < 2040; _, change = change.ZoneBounds() {
				for apart := -25 * time.Hour; apart <= 25*time.Hour; apart += 53*time.Minute + 31*time.Second {
					at := change.Add(apart).UnixMilli()
					start, next := c.window(at)
					if start > at || next <= at || c.start(start) != start || c.start(next-1) != start || c.start(next) != next {
						t.Fatalf("%s in %d%s of %s: [%d, %d)", change.Add(apart), c.n, c.unit, zone, start, next)
					}
				}
			}
		}
	}
}

// TestCalendarOfOpenTSDB steps through windows from the place that
// DateTime.previousInterval steps from, one after the other.
func TestCalendarOfOpenTSDB(t *testing.T) {
	larger := map[string]int{"ms": 1000, "s": 60, "m": 60, "h": 24, "d": 1, "w": 1, "n": 12, "y": 1}
	rapid.Check(t, func(t *rapid.T) {
		location, err := findLocation(rapid.SampledFrom([]string{"UTC", "America/New_York", "Asia/Kolkata"}).Draw(t, "zone"))
		if err != nil {
			t.Fatal(err)
		}
		origin := time.UnixMilli(rapid.Int64Range(1e12, 2e12).Draw(t, "origin")).In(location)
		unit := rapid.SampledFrom([]string{"ms", "s", "m", "h", "d", "w", "n", "y"}).Draw(t, "unit")
		n := rapid.IntRange(1, 40).Draw(t, "n")
		if unit == "ms" {
			n *= 101 // or there are too many steps
		}
		year, month, day := origin.Date()
		hour, minute, _ := origin.Clock()
		var top time.Time
		step := func(t time.Time) time.Time { return t.AddDate(0, 0, n) }
		switch unit {
		case "ms":
			top, step = time.Date(year, month, day, hour, minute, 0, 0, location), func(t time.Time) time.Time { return t.Add(time.Duration(n) * time.Millisecond) }
		case "s":
			top, step = time.Date(year, month, day, hour, 0, 0, 0, location), func(t time.Time) time.Time { return t.Add(time.Duration(n) * time.Second) }
		case "m":
			top, step = time.Date(year, month, day, 0, 0, 0, 0, location), func(t time.Time) time.Time { return t.Add(time.Duration(n) * time.Minute) }
		case "h":
			top, step = time.Date(year, month, 1, 0, 0, 0, 0, location), func(t time.Time) time.Time { return t.Add(time.Duration(n) * time.Hour) }
		case "d":
			top = time.Date(year, time.January, 1, 0, 0, 0, 0, location)
		case "w":
			top, step = time.Date(year, month, day-int(origin.Weekday()), 0, 0, 0, 0, location), func(t time.Time) time.Time { return t.AddDate(0, 0, 7*n) }
		case "n":
			top, step = time.Date(year, time.January, 1, 0, 0, 0, 0, location), func(t time.Time) time.Time { return t.AddDate(0, n, 0) }
		case "y":
			top, step = time.Date(year, time.January, 1, 0, 0, 0, 0, location), func(t time.Time) time.Time { return t.AddDate(n, 0, 0) }
		}
		if larger[unit]%n == 0 && unit != "d" && unit != "w" && unit != "y" && unit != "n" && location != time.UTC {
			t.Skip("these begin anew at midnight, which TestCalendar looks at")
		}
		d := &downsample{calendar: &calendar{n: int64(n), unit: unit, location: location, originMs: origin.UnixMilli()}}
		at := origin.UnixMilli() + rapid.Int64Range(0, map[string]int64{"ms": 60_000, "s": hourMs, "m": dayMs, "h": 40 * dayMs}[unit]+1).Draw(t, "after")
		if unit == "d" || unit == "w" || unit == "n" || unit == "y" {
			at += rapid.Int64Range(0, 800*dayMs).Draw(t, "days after")
		}
		start, next := top, step(top)
		for next.UnixMilli() <= at {
			start, next = next, step(next)
		}
		if got := d.start(at); got != start.UnixMilli() || d.next(got) != next.UnixMilli() {
			t.Fatalf("%d%s from %s at %s: [%s, %s), want [%s, %s)", n, unit, origin, time.UnixMilli(at).In(location),
				time.UnixMilli(got).In(location), time.UnixMilli(d.next(got)).In(location), start, next)
		}
	})
}

func TestCalendarQuery(t *testing.T) {
	s := newServer(t)
	// Three local days in New York; the middle one has 23 hours.
	day := time.Date(2024, 3, 9, 0, 0, 0, 0, time.FixedZone("", -5*3600)).UnixMilli()
	for hour := range int64(71) {
		s.put([]byte{0, 1, 'm'}, float64(day/1000+hour*3600), 1)
	}
	const target = "/api/query?start=2024/03/09&end=2024/03/12&timezone=America/New_York&m=sum:1dc-"
	const want = `[{"metric":"m","tags":{},"aggregateTags":[],"dps":{"1709960400":24.0,"1710046800":23.0,"1710129600":24.0`
	s.want("GET", target+"sum:m", "", 200, want+`}}]`)
	s.want("GET", target+"sum-zero:m", "", 200, want+`,"1710216000":0.0}}]`)
	s.want("POST", "/api/query", `{"start":"2024/03/09","end":"2024/03/11-23:59","timezone":"America/New_York","useCalendar":true,"queries":[{"aggregator":"avg","metric":"m","downsample":"1d-count"}]}`, 200, want+`}}]`)
}

func TestParseDownsample(t *testing.T) {
	for _, text := range []string{"", "1m", "1m-", "-sum", "1m-sum--", "1m-sum-half", "m-sum", "0m-sum", "1x-sum", "1m-nope", "xall-sum", "1m-sum-scalar",
		"1m-sum-scalar(x)", "1m-sum-scalar(nan)x", "1m-top1", "1c-sum", "30001y-sum", "99999999999999999999s-sum"} {
		if d, err := parseDownsample(text, false, time.UTC, 0); err == nil {
			t.Errorf("%q: %+v, want an error", text, d)
		}
	}
	for text, want := range map[string]downsample{
		"1m-sum": {widthMs: 60_000}, "1m-sum-": {widthMs: 60_000}, "2h-avg-none": {widthMs: 7_200_000}, "500ms-max-zero": {widthMs: 500, fill: fillZero},
		"all-sum": {whole: true}, "0all-sum-nan": {whole: true, fill: fillNaN}, "1w-p99-NULL": {widthMs: 604_800_000, fill: fillNull},
		"10s-last-scalar(-2.5)": {widthMs: 10_000, fill: fillScalar, value: -2.5},
	} {
		d, err := parseDownsample(text, false, time.UTC, 0)
		if err != nil || d.widthMs != want.widthMs || d.whole != want.whole || d.fill != want.fill || want.value != 0 && d.value != want.value {
			t.Errorf("%q: %+v, %v", text, d, err)
		}
	}
}

func TestSplitOutside(t *testing.T) {
	for text, want := range map[string][]string{
		"a:b": {"a", "b"}, "sum:rate{counter,,1}:m{h=regexp(a:{1,2}b)}": {"sum", "rate{counter,,1}", "m{h=regexp(a:{1,2}b)}"}, "": {""}, ":": {"", ""},
	} {
		if got, err := splitOutside(text, ':'); err != nil || !slices.Equal(got, want) {
			t.Errorf("%q: %q, %v", text, got, err)
		}
	}
	for _, text := range []string{"a{", "a}", "(", "a:b)"} {
		if got, err := splitOutside(text, ':'); err == nil {
			t.Errorf("%q: %q, want an error", text, got)
		}
	}
}
