package opentsdb

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
)

// t0 is the start of an hour, in seconds.
const t0 = 1_600_002_000

// dps writes points at seconds after t0 as the object of an answer.
func dps(secondsAndValues ...any) string {
	var parts []string
	for i := 0; i < len(secondsAndValues); i += 2 {
		parts = append(parts, fmt.Sprintf("%q:%v", fmt.Sprint(t0+secondsAndValues[i].(int)), secondsAndValues[i+1]))
	}
	return "{" + strings.Join(parts, ",") + "}"
}

// wantDPS asks for [t0, t0+length] and compares the points of the one result, whose numbers may have either form.
func (s *server) wantDPS(m string, length int, want string) {
	s.t.Helper()
	status, body := s.do("GET", fmt.Sprintf("/api/query?start=%d&end=%d&m=%s", t0, t0+length, m), "")
	var got []struct{ DPS map[string]any }
	var points map[string]any
	if err := json.Unmarshal([]byte(want), &points); err != nil {
		s.t.Fatal(err)
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil || status != 200 || len(got) != 1 || !maps.Equal(got[0].DPS, points) {
		s.t.Errorf("%s: %d %s\nwant %s", m, status, body, want)
	}
}

// TestDocumentedDownsampling has the tables of user_guide/query/downsampling.
func TestDocumentedDownsampling(t *testing.T) {
	s := newServer(t)
	s.put(scantest.Key("", "full", "n", "A"), t0, 5, t0+10, 5, t0+20, 10, t0+30, 15, t0+40, 20, t0+50, 5, t0+60, 1)
	s.put(scantest.Key("", "full", "n", "B"), t0, 10, t0+10, 5, t0+20, 20, t0+30, 15, t0+40, 10, t0+50, 0, t0+60, 5)
	s.wantDPS("sum:30s-sum:full", 60, dps(0, 55, 30, 65, 60, 6))
	s.wantDPS("sum:30s-sum:full{n=A}", 60, dps(0, 20, 30, 40, 60, 1))

	s.put(scantest.Key("", "gaps", "n", "A"), t0+30, 15, t0+50, 5)
	s.put(scantest.Key("", "gaps", "n", "B"), t0, 10, t0+20, 20, t0+60, 20)
	s.wantDPS("sum:10s-sum-nan:gaps", 60, dps(0, 10, 10, "null", 20, 20, 30, 15, 40, "null", 50, 5, 60, 20))
	s.wantDPS("sum:10s-sum-zero:gaps", 60, dps(0, 10, 10, 0, 20, 20, 30, 15, 40, 0, 50, 5, 60, 20))
	s.wantDPS("sum:10s-sum-scalar(100):gaps", 60, dps(0, 110, 10, 200, 20, 120, 30, 115, 40, 200, 50, 105, 60, 120))
	// Without a fill policy nothing comes at 10 and 40, and B is 20 from 20 to 60 by its line.
	s.wantDPS("sum:10s-sum:gaps", 60, dps(0, 10, 20, 20, 30, 35, 50, 25, 60, 20))

	// 1388550980000 is 04:36:20; by the hour it counts at 04:00, by 36 minutes at 04:12.
	s.put(scantest.Key("", "hour"), 1388550980, 7)
	s.want("GET", "/api/query?start=2014/01/01-04:00&end=2014/01/01-05:00&m=sum:1h-sum:hour", "", 200,
		`[{"metric":"hour","tags":{},"aggregateTags":[],"dps":{"1388548800":7.0}}]`)
	s.want("GET", "/api/query?start=2014/01/01-04:00&end=2014/01/01-05:00&m=sum:36m-sum:hour", "", 200,
		`[{"metric":"hour","tags":{},"aggregateTags":[],"dps":{"1388549520":7.0}}]`)
}

// TestDocumentedInterpolation has the two series of user_guide/query/aggregators
// that are offset by ten seconds; the results follow from the formula there (the
// page's own results do not).
func TestDocumentedInterpolation(t *testing.T) {
	s := newServer(t)
	s.put(scantest.Key("", "m", "n", "A"), t0+10, 5, t0+30, 15, t0+50, 5)
	s.put(scantest.Key("", "m", "n", "B"), t0, 10, t0+20, 20, t0+40, 10, t0+60, 20)
	// A by its lines: -, 5, 10, 15, 10, 5, -; B: 10, 15, 20, 15, 10, 15, 20.
	for aggregator, want := range map[string][]any{
		"sum":       {10, 20, 30, 30, 20, 20, 20},
		"avg":       {10, 10, 15, 15, 10, 10, 20},
		"min":       {10, 5, 10, 15, 10, 5, 20},
		"max":       {10, 15, 20, 15, 10, 15, 20},
		"mult":      {10, 75, 200, 225, 100, 75, 20},
		"diff":      {0, 10, 10, 0, 0, 10, 0},
		"dev":       {0, 5, 5, 0, 0, 5, 0},
		"median":    {10, 15, 20, 15, 10, 15, 20},
		"pfsum":     {10, 15, 25, 35, 25, 15, 20}, // the other one's previous value
		"zimsum":    {10, 5, 20, 15, 10, 5, 20},   // 0 for the other one
		"mimmin":    {10, 5, 20, 15, 10, 5, 20},   // nothing for the other one
		"mimmax":    {10, 5, 20, 15, 10, 5, 20},
		"squareSum": {100, 25, 400, 225, 100, 25, 400},
		"count":     {1, 2, 2, 2, 2, 2, 1}, // a missing one counts, as OpenTSDB warns
		"first":     {10, 5, 0, 15, 0, 5, 20},
		"last":      {10, 0, 20, 0, 10, 0, 20},
		"p50":       {10, 10, 15, 15, 10, 10, 20},
		"p999":      {10, 15, 20, 15, 10, 15, 20},
		"ep75r7":    {10, 12.5, 17.5, 15, 10, 12.5, 20},
		"ep50r3":    {10, 5, 10, 15, 10, 5, 20},
	} {
		var points []any
		for i, v := range want {
			points = append(points, 10*i, v)
		}
		s.wantDPS(aggregator+":m", 60, dps(points...))
	}
}

// TestLinesCrossTheRange: a line at the range's ends comes from points beyond
// them, as far as they are in the same hour as the range.
func TestLinesCrossTheRange(t *testing.T) {
	s := newServer(t)
	s.put(scantest.Key("", "m", "n", "A"), t0-3590, 0, t0-10, 100, t0+50, 160, t0+3590, 300, t0+3610, 1000)
	s.put(scantest.Key("", "m", "n", "B"), t0, 1, t0+30, 2, t0+100, 3)
	s.wantDPS("sum:m", 100, dps(0, 1, 30, 2, 50, 160+2+2/7.0, 100, 3+160+140/3540.0*50))
	// The point at t0-10 is in the hour before, so A begins at 50.
}

func TestRates(t *testing.T) {
	s := newServer(t)
	s.put(scantest.Key("", "m"), t0, 100, t0+10, 200, t0+20, 50, t0+40, 90)
	s.wantDPS("sum:rate:m", 60, dps(10, 10, 20, -15, 40, 2))
	s.wantDPS("sum:rate{counter,1000}:m", 60, dps(10, 10, 20, 85, 40, 2)) // (1000-200+50)/10
	s.wantDPS("sum:rate{counter,1000,50}:m", 60, dps(10, 10, 20, 0, 40, 2))
	s.wantDPS("sum:rate{counter,1000,90}:m", 60, dps(10, 10, 20, 85, 40, 2))
	s.wantDPS("sum:rate{dropcounter}:m", 60, dps(10, 10, 40, 2))
	s.wantDPS("sum:rate{counter,,1}:m", 60, dps(10, 10, 20, 0, 40, 2)) // the default is 2^63-1
	// The rate is taken of the windows.
	s.wantDPS("sum:20s-sum:rate:m", 60, dps(20, -12.5, 40, 2))
	s.wantDPS("sum:20s-sum-zero:rate:m", 60, dps(20, -12.5, 40, 2, 60, -4.5))
	// A sample before the range, in the same hour, gives the first rate.
	s.put(scantest.Key("", "before"), t0+1000, 1, t0+1010, 2, t0+1020, 4)
	s.want("GET", fmt.Sprintf("/api/query?start=%d&end=%d&m=sum:rate:before", t0+1005, t0+1100), "", 200,
		fmt.Sprintf(`[{"metric":"before","tags":{},"aggregateTags":[],"dps":{"%d":0.1,"%d":0.2}}]`, t0+1010, t0+1020))
	// Between its points a series keeps its last rate; before its first it has none.
	s.put(scantest.Key("", "two", "n", "A"), t0, 0, t0+10, 10, t0+30, 50)
	s.put(scantest.Key("", "two", "n", "B"), t0+5, 0, t0+15, 50, t0+25, 150)
	s.wantDPS("sum:rate:two", 60, dps(10, 1, 15, 6, 25, 11, 30, 2))
}

func TestAll(t *testing.T) {
	s := newServer(t)
	s.put(scantest.Key("", "m", "n", "A"), t0-1, 50, t0, 1, t0+10, 2, t0+60, 100)
	s.put(scantest.Key("", "m", "n", "B"), t0+30, 4)
	s.wantDPS("sum:0all-sum:m", 60, dps(0, 7)) // the sample at the end is not in it
	s.wantDPS("sum:all-count:m", 61, dps(0, 4))
	s.wantDPS("max:0all-dev:m", 60, dps(0, 0.5))
	s.wantDPS("avg:0all-avg-zero:m", 60, dps(0, 2.75))
}

func TestWindowsAreWhole(t *testing.T) {
	s := newServer(t)
	s.put(scantest.Key("", "m"), t0, 1, t0+10, 1, t0+59, 1, t0+60, 1, t0+119, 1, t0+120, 1)
	for _, function := range []string{"sum", "squareSum"} { // computed by the scan, and here
		// From 10 on the window of 0 is not whole: it is left out. The one of 60 is, beyond the end.
		s.want("GET", fmt.Sprintf("/api/query?start=%d&end=%d&m=sum:1m-%s:m", t0+10, t0+70, function), "", 200,
			fmt.Sprintf(`[{"metric":"m","tags":{},"aggregateTags":[],"dps":{"%d":2.0}}]`, t0+60))
		s.want("GET", fmt.Sprintf("/api/query?start=%d&end=%d&m=sum:1m-%s:m", t0+10, t0+50, function), "", 200, `[]`)
	}
}

func TestSeconds(t *testing.T) {
	s := newServer(t)
	s.put(scantest.Key("", "m"), t0, 1, t0+0.25, 2, t0+0.999, 3, t0+1, 4, t0+2.5, 5)
	s.wantDPS("sum:m", 60, dps(0, 3, 1, 4, 2, 5))
	s.want("GET", fmt.Sprintf("/api/query?start=%d&arrays&m=none:m", t0), "", 200,
		fmt.Sprintf(`[{"metric":"m","tags":{},"aggregateTags":[],"dps":[[%d,3],[%d,4],[%d,5]]}]`, t0, t0+1, t0+2))
	s.want("GET", fmt.Sprintf("/api/query?start=%d&arrays&ms&m=none:m", t0), "", 200,
		fmt.Sprintf(`[{"metric":"m","tags":{},"aggregateTags":[],"dps":[[%d000,1],[%d250,2],[%d999,3],[%d000,4],[%d500,5]]}]`, t0, t0, t0, t0+1, t0+2))
}

func TestTags(t *testing.T) {
	s := newServer(t)
	for _, tags := range [][]string{
		{"host", "web01", "dc", "lga", "env", "p"}, {"host", "web02", "dc", "lga", "env", "p"}, {"host", "web01", "dc", "sjc", "env", "p", "rack", "7"},
	} {
		s.put(scantest.Key("", "m", tags...), t0, 1)
	}
	points := dps(0, 3)
	const form = `[{"metric":"m","tags":%s,"aggregateTags":%s,"dps":%s}]`
	// A tag that one member alone has counts as common.
	s.want("GET", "/api/query?start=1&m=sum:m", "", 200, fmt.Sprintf(form, `{"env":"p","rack":"7"}`, `["dc","host"]`, points))
	for m, want := range map[string]string{
		"sum:m{host=web01}":                            `{"env":"p","host":"web01","rack":"7"} ["dc"] 2`,
		"sum:m{host=*}":                                `{"env":"p","host":"web01","rack":"7"} ["dc"] 2; {"dc":"lga","env":"p","host":"web02"} [] 1`,
		"sum:m{}{host=*}":                              `{"env":"p","rack":"7"} ["dc","host"] 3`,
		"sum:m{dc=*}{host=*}":                          `{"dc":"lga","env":"p"} ["host"] 2; {"dc":"sjc","env":"p","host":"web01","rack":"7"} [] 1`,
		"sum:m{host=web01|web02}":                      `{"env":"p","host":"web01","rack":"7"} ["dc"] 2; {"dc":"lga","env":"p","host":"web02"} [] 1`,
		"sum:m{dc=*,host=*}":                           `{"dc":"lga","env":"p","host":"web01"} [] 1; {"dc":"lga","env":"p","host":"web02"} [] 1; {"dc":"sjc","env":"p","host":"web01","rack":"7"} [] 1`,
		"none:m{dc=lga}":                               `{"dc":"lga","env":"p","host":"web01"} [] 1; {"dc":"lga","env":"p","host":"web02"} [] 1`,
		"sum:m{host=WEB*}":                             `{"env":"p","host":"web01","rack":"7"} ["dc"] 2; {"dc":"lga","env":"p","host":"web02"} [] 1`,
		"sum:m{}{host=wildcard(WEB*)}":                 ``,
		"sum:m{}{host=wildcard(*b*2)}":                 `{"dc":"lga","env":"p","host":"web02"} [] 1`,
		"sum:m{}{host=iwildcard(*EB*1)}":               `{"env":"p","host":"web01","rack":"7"} ["dc"] 2`,
		"sum:m{}{host=regexp(b.1)}":                    `{"env":"p","host":"web01","rack":"7"} ["dc"] 2`,
		"sum:m{}{host=regexp(^b.1)}":                   ``,
		"sum:m{}{host=regexp(^w.{2,3}0[0-9]{1,2}$)}":   `{"env":"p","rack":"7"} ["dc","host"] 3`,
		"sum:m{}{host=regexp(^x|2$)}":                  `{"dc":"lga","env":"p","host":"web02"} [] 1`,
		"sum:m{}{host=literal_or(web02|nope)}":         `{"dc":"lga","env":"p","host":"web02"} [] 1`,
		"sum:m{}{host=iliteral_or(WEB02|nope)}":        `{"dc":"lga","env":"p","host":"web02"} [] 1`,
		"sum:m{}{host=not_literal_or(web01|WEB02)}":    `{"dc":"lga","env":"p","host":"web02"} [] 1`,
		"sum:m{}{host=not_iliteral_or(WEB01|x)}":       `{"dc":"lga","env":"p","host":"web02"} [] 1`,
		"sum:m{}{rack=not_key()}":                      `{"dc":"lga","env":"p"} ["host"] 2`,
		"sum:m{}{rack=not_literal_or(9)}":              `{"dc":"sjc","env":"p","host":"web01","rack":"7"} [] 1`, // the tag has to be there
		"sum:explicit_tags:m{host=*,dc=*,env=*}":       `{"dc":"lga","env":"p","host":"web01"} [] 1; {"dc":"lga","env":"p","host":"web02"} [] 1`,
		"sum:explicit_tags:m{host=*}":                  ``,
		"sum:m{host=literal_or(web01),dc=regexp(sj.)}": `{"dc":"sjc","env":"p","host":"web01","rack":"7"} [] 1`,
	} {
		var parts []string
		for part := range strings.SplitSeq(want, "; ") {
			if fields := strings.Split(part, " "); len(fields) == 3 {
				parts = append(parts, fmt.Sprintf(`{"metric":"m","tags":%s,"aggregateTags":%s,"dps":%s}`, fields[0], fields[1], dps(0, fields[2])))
			}
		}
		s.want("GET", "/api/query?start=1&m="+m, "", 200, "["+strings.Join(parts, ",")+"]")
	}
}

func TestTopAndBottom(t *testing.T) {
	s := newServer(t)
	for name, values := range map[string][4]float64{"a": {99, 1, 2, 3}, "b": {0, 9, 1, 1}, "c": {0, 5, 5, 5}, "d": {0, 0, 0, math.NaN()}} {
		for i, v := range values {
			s.put(scantest.Key("", "m", "n", name), float64(t0+10*i), v)
		}
	}
	for m, want := range map[string]string{"top1:m": "b", "top3:m": "bca", "bottom1:m": "d", "bottom3:m": "dab", "top9:m": "bcad"} {
		_, body := s.do("GET", fmt.Sprintf("/api/query?start=%d&m=%s", t0, m), "")
		got := ""
		for _, part := range strings.Split(body, `"n":"`)[1:] {
			got += part[:1]
		}
		if got != want {
			t.Errorf("%s: series %q, want %q: %s", m, got, want, body)
		}
	}
}

// TestPercentiles has the numbers of OpenTSDB's own TestAggregators.testPercentiles.
func TestPercentiles(t *testing.T) {
	values := make([]float64, 1000)
	for i := range values {
		values[i] = float64((i*7919)%1000 + 1) // 1 to 1000 in some order
	}
	for digits, want := range map[string]float64{"50": 500, "75": 750, "90": 900, "95": 950, "99": 990, "999": 999} {
		for _, name := range []string{"p" + digits, "ep" + digits + "r3", "ep" + digits + "r7"} {
			a, ok := findAggregator(name)
			if !ok {
				t.Fatalf("no %s", name)
			}
			if got := math.Floor(a.reduce(values)); got != want {
				t.Errorf("%s: %v, want %v", name, got, want)
			}
		}
	}
}

// TestNamesAreFound checks that every name of the list is a function.
func TestNamesAreFound(t *testing.T) {
	for _, name := range aggregatorNames {
		if a, ok := findAggregator(name); !ok || a.selection == selectMerged && a.reduce == nil {
			t.Errorf("%s: %+v, %v", name, a, ok)
		}
	}
}

// TestOrderDoesNotMatter: the result has the same bits however the source
// spreads the series over its visitors.
func TestOrderDoesNotMatter(t *testing.T) {
	var answers []string
	for parallel := 1; parallel <= 5; parallel++ {
		s := newServer(t, func(o *Options) { o.Limits.Parallel = parallel })
		for i := range 50 {
			zero := math.Copysign(0, float64(i%2)-0.5) // of both signs
			s.put(scantest.Key("", "m", "n", fmt.Sprint(i), "g", fmt.Sprint(i%3)), t0+500, zero)
			for j := range 20 {
				s.put(scantest.Key("", "m", "n", fmt.Sprint(i), "g", fmt.Sprint(i%3)), float64(t0+7*j+i%4), 1/float64(1+i*j))
			}
		}
		_, body := s.do("GET", "/api/query?start=1&m=sum:m{g=*}&m=avg:m&m=zimsum:5s-sum:m&m=pfsum:m&m=min:m&m=mimmax:m{n=*}&m=count:m&m=p90:m&m=median:m&m=dev:10s-avg:rate:m&m=first:m", "")
		answers = append(answers, body)
	}
	for i, body := range answers {
		if body != answers[0] {
			t.Errorf("with %d visitors: %s\nwith one: %s", i+1, body, answers[0])
		}
	}
}
