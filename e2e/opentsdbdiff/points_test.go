package opentsdbdiff

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strconv"
	"strings"
)

// startS is 2023-11-14T22:13:20Z, the time of the first points: the hour ends 2800 s later.
const startS = 1_700_000_000

// spanS bounds the times of points, after startS: they are in three of OpenTSDB's rows, which are hours.
const spanS = 6000

// point is what both servers are told. Value is the text of a number: OpenTSDB keeps 3 as an integer and
// 3.0 as a double.
type point struct {
	metric string
	timeMs int64
	value  string
	tags   map[string]string
}

// time returns the time as it is written: in seconds where these are whole.
func (p *point) time() int64 {
	if p.timeMs%1000 == 0 {
		return p.timeMs / 1000
	}
	return p.timeMs
}

// line returns the point as a line of put.
func (p *point) line() string {
	var b strings.Builder
	fmt.Fprintf(&b, "put %s %d %s", p.metric, p.time(), p.value)
	for _, k := range sortedKeys(p.tags) {
		fmt.Fprintf(&b, " %s=%s", k, p.tags[k])
	}
	return b.String()
}

// MarshalJSON writes the point as /api/put takes it.
func (p *point) MarshalJSON() ([]byte, error) {
	return json.Marshal(map[string]any{"metric": p.metric, "timestamp": p.time(), "value": json.RawMessage(p.value), "tags": p.tags})
}

// makePoints returns the points of the tests:
//
//	whole    integers, at the same times in all series
//	dbl      doubles, some of them whole, each series at times of its own
//	gaps     doubles with hours in between
//	fine     doubles, in milliseconds
//	counter  integers that grow, and fall once
//	mixed    integers and doubles in one series
func makePoints(r *rand.Rand) []point {
	var all []point
	add := func(metric string, timeMs int64, value string, tags map[string]string) {
		all = append(all, point{metric, timeMs, value, tags})
	}
	double := func() string {
		return strconv.FormatFloat(float64(r.IntN(200)-60)/4, 'f', 2, 64)
	}
	for i, tags := range []map[string]string{
		{"host": "a", "dc": "x"}, {"host": "b", "dc": "x"}, {"host": "c", "dc": "y"}, {"host": "B2", "dc": "y", "rack": "r1"},
	} {
		for s := int64(0); s < spanS; s += 600 {
			add("whole", (startS+s)*1000, strconv.Itoa(r.IntN(50)), tags)
		}
		for s := int64(r.IntN(200)); s < spanS; s += 100 + r.Int64N(700) {
			add("dbl", (startS+s)*1000, double(), tags)
		}
		total := int64(i)
		for s := int64(0); s < spanS; s += 500 {
			if total += r.Int64N(400); s == 3000 {
				total = r.Int64N(20)
			}
			add("counter", (startS+s)*1000, strconv.FormatInt(total, 10), tags)
		}
		for ms := int64(r.IntN(900)); ms < 12_000; ms += 300 + r.Int64N(1500) {
			add("fine", startS*1000+ms, double(), tags)
		}
	}
	for _, s := range []int64{10, 25, 5200, 5210} {
		add("gaps", (startS+s)*1000, double(), map[string]string{"host": "a"})
	}
	for i, value := range []string{"1", "2.5", "3.0", "4", "-7.25"} {
		add("mixed", (startS+int64(i)*60)*1000, value, map[string]string{"host": "a"})
	}
	return all
}
