package influxdiff

import (
	"fmt"
	"math/rand/v2"
	"sort"
	"strconv"
	"strings"
)

// point is one line of line protocol.
type point struct {
	measurement string
	tags        map[string]string
	fields      map[string]float64
	timeMs      int64
}

func (p *point) line() string {
	var b strings.Builder
	b.WriteString(p.measurement)
	for _, k := range sorted(p.tags) {
		fmt.Fprintf(&b, ",%s=%s", k, p.tags[k])
	}
	for i, k := range sorted(p.fields) {
		separator := ","
		if i == 0 {
			separator = " "
		}
		b.WriteString(separator + k + "=" + strconv.FormatFloat(p.fields[k], 'f', -1, 64))
	}
	return b.String() + " " + strconv.FormatInt(p.timeMs, 10)
}

func sorted[V any](m map[string]V) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	return keys
}

// startMs is 2023-01-01T00:00:00Z, the time of the first points.
const startMs = 1_672_531_200_000

// hourMs bounds the time of all points.
const hourMs = 3_600_000

// Days before clocks are changed in Europe: 2023-03-25 and 2023-10-28, at midnight of UTC.
const (
	springMs = 1_679_702_400_000
	autumnMs = 1_698_451_200_000
	dayMs    = 24 * hourMs
)

// makePoints returns the points of the tests. In apart no two series have points of the same
// time, so that every order of rows has a reason; in together all do.
func makePoints(r *rand.Rand) []point {
	var all []point
	values := []float64{-2, -0.5, 0, 0.25, 1, 1.5, 2, 3, 7, 8.25, 10, 64}
	add := func(measurement string, series int, tags map[string]string, apart bool) {
		at := int64(startMs)
		if apart {
			at += int64(series) * 13
		}
		for range 40 {
			step := int64(60_000)
			if apart {
				step = 1000 * (20 + r.Int64N(200))
			}
			at += step
			if at >= startMs+hourMs {
				break
			}
			fields := map[string]float64{}
			for _, name := range []string{"f", "g", "value"} {
				if r.IntN(4) > 0 {
					fields[name] = values[r.IntN(len(values))]
				}
			}
			if len(fields) > 0 {
				all = append(all, point{measurement, tags, fields, at})
			}
		}
	}
	series := 0
	for _, host := range []string{"a", "b", "c"} {
		for _, dc := range []string{"x", "y", ""} {
			tags := map[string]string{"host": host}
			if dc != "" {
				tags["dc"] = dc
			}
			add("apart", series, tags, true)
			add("together", series, tags, false)
			series++
		}
	}
	for _, from := range []int64{springMs, autumnMs} {
		for at := from; at < from+3*dayMs; at += hourMs / 2 {
			all = append(all, point{"clocks", nil, map[string]float64{"f": float64(r.IntN(100))}, at})
		}
	}
	add("apart2", series, map[string]string{"rack": "r1"}, true)
	return all
}
