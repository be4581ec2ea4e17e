package opentsdb

import (
	"fmt"
	"math"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/ledger"
)

// TestGraphFunctions asks for each function of ExpressionFactory.java.
func TestGraphFunctions(t *testing.T) {
	s := newServer(t)
	s.put(scantest.Key("", "m", "host", "a"), 60, 1, 120, -2, 180, 3, 240, 4)
	s.put(scantest.Key("", "m", "host", "b"), 60, 10, 120, 20, 180, 2, 240, -1)
	s.put(scantest.Key("", "n", "host", "a"), 60, 2, 120, 4, 180, 0, 240, 8)
	s.put(scantest.Key("", "n", "host", "c"), 60, 5)
	const hostA, hostB, hostC = `"tags":{"host":"a"},"aggregateTags":[],"dps":{`, `"tags":{"host":"b"},"aggregateTags":[],"dps":{`, `"tags":{"host":"c"},"aggregateTags":[],"dps":{`
	for expression, want := range map[string]string{
		"scale(sum:m{host=a},1024)":             `[{"metric":"m",` + hostA + `"60":1024,"120":-2048,"180":3072,"240":4096}}]`,
		"scale( sum:m{host=a} , -.5 )":          `[{"metric":"m",` + hostA + `"60":-0.5,"120":1,"180":-1.5,"240":-2}}]`,
		"absolute(sum:m{host=a})":               `[{"metric":"m",` + hostA + `"60":1,"120":2,"180":3,"240":4}}]`,
		"firstDiff(sum:m{host=a})":              `[{"metric":"m",` + hostA + `"60":0,"120":-3,"180":5,"240":1}}]`,
		"movingAverage(sum:m{host=a},1)":        `[{"metric":"m",` + hostA + `"60":1,"120":-2,"180":3,"240":4}}]`,
		"movingAverage(sum:m{host=a},2)":        `[{"metric":"m",` + hostA + `"60":0,"120":-0.5,"180":0.5,"240":3.5}}]`,
		"movingAverage(sum:m{host=a},5)":        `[{"metric":"m",` + hostA + `"60":0,"120":0,"180":0,"240":0}}]`,
		"movingAverage(sum:m{host=a},'1min')":   `[{"metric":"m",` + hostA + `"60":0,"120":-2,"180":3,"240":4}}]`,
		"movingAverage(sum:m{host=a},'2m')":     `[{"metric":"m",` + hostA + `"60":0,"120":0,"180":0.5,"240":3.5}}]`,
		"highestMax(sum:m{host=*},1)":           `[{"metric":"m",` + hostB + `"60":10,"120":20,"180":2,"240":-1}}]`,
		"highestCurrent(sum:m{host=*},1)":       `[{"metric":"m",` + hostA + `"60":1,"120":-2,"180":3,"240":4}}]`,
		"highestCurrent(sum:m{host=*},9)":       `[{"metric":"m",` + hostA + `"60":1,"120":-2,"180":3,"240":4}},{"metric":"m",` + hostB + `"60":10,"120":20,"180":2,"240":-1}}]`,
		"timeShift(sum:m{host=a},'1min')":       `[{"metric":"m",` + hostA + `"120":1,"180":-2,"240":3,"300":4}}]`,
		"shift(sum:m{host=a},'3 min')":          `[{"metric":"m",` + hostA + `"240":1,"300":-2}}]`,
		"alias(sum:m{host=a},host @host, load)": `[{"metric":"host a,load","tags":{},"aggregateTags":[],"dps":{"60":1,"120":-2,"180":3,"240":4}}]`,
		"sumSeries(sum:m{host=*},sum:n{host=*})": `[{"metric":"m",` + hostA + `"60":3,"120":2,"180":3,"240":12}},{"metric":"m",` + hostB + `"60":10,"120":20,"180":2,"240":-1}},` +
			`{"metric":"n",` + hostC + `"60":5,"120":0,"180":0,"240":0}}]`,
		"diffSeries(sum:m{host=a},sum:n{host=a},sum:m{host=a})":                       `[{"metric":"m",` + hostA + `"60":-2,"120":-4,"180":0,"240":-8}}]`,
		"multiply(sum:m{host=a},sum:n{host=a})":                                       `[{"metric":"m",` + hostA + `"60":2,"120":-8,"180":0,"240":32}}]`,
		"divideSeries(sum:m{host=a},sum:n{host=a})":                                   `[{"metric":"m",` + hostA + `"60":0.5,"120":-0.5,"180":0,"240":0.5}}]`,
		"scale(difference(absolute(max:2m-max:m{host=wildcard(*)}),sum:n{host=a}),2)": `[{"metric":"m",` + hostA + `"0":2,"60":-4,"120":-2,"180":0,"240":-8}},{"metric":"m",` + hostB + `"0":20,"60":0,"120":40,"180":0,"240":2}}]`,
		"sum(sum:rate{counter,100}:m{host=a},sum:n{}{host=literal_or(a)})":            `[{"metric":"m",` + hostA + `"60":2,"120":5.616666666666667,"180":0.08333333333333333,"240":8.016666666666667}}]`,
	} {
		s.want("GET", "/api/query/gexp?start=0&end=300&exp="+expression, "", 200, want)
	}
	// Several expressions, arrays, milliseconds; a range that starts later; tsuids of what was computed from one series.
	s.want("GET", "/api/query/gexp?start=100&end=200&arrays&ms&exp=scale(sum:m{host=a},2)&exp=scale(sum:n{host=a},3)", "", 200,
		`[{"metric":"m","tags":{"host":"a"},"aggregateTags":[],"dps":[[120000,-4],[180000,6]]},{"metric":"n","tags":{"host":"a"},"aggregateTags":[],"dps":[[120000,12],[180000,0]]}]`)
	s.want("GET", "/api/query/gexp?start=0&end=60&show_tsuids&exp=scale(sum:n{host=c},3)&exp=sum(sum:n{host=c},sum:n{host=c})", "", 200,
		`[{"metric":"n","tags":{"host":"c"},"aggregateTags":[],"tsuids":["00016E04686F73740163"],"dps":{"60":15}},{"metric":"n","tags":{"host":"c"},"aggregateTags":[],"tsuids":[],"dps":{"60":10}}]`)
}

func TestGraphErrors(t *testing.T) {
	s := newServer(t)
	s.put(scantest.Key("", "m"), 1, 1)
	for expression, message := range map[string]string{
		"":                  "Failed to parse : it is no call of a function",
		"sum:m":             "Failed to parse sum:m: it is no call of a function",
		"scale(sum:m,2":     "Failed to parse scale(sum:m,2: it is no call of a function",
		"scale(sum:m)":      "Missing the scaling factor of scale",
		"scale(2)":          "The function scale needs a sub query or another function: aggregator:metric",
		"scale(sum:m,x)":    "Unparseable scale factor value: x",
		"scale(sum:m,1e5)":  "Unparseable scale factor value: 1e5",
		"scale(sum:m,,2)":   "Failed to parse scale(sum:m,,2): Parameter cannot be null or empty",
		"scale(total:m,2)":  "No such aggregation function: total",
		"scale(sum:nope,2)": "No such name for 'metrics': 'nope'",
		"nope(sum:m)":       "Function nope has not been implemented",
		"sum(sum:m)":        "Must have 2 to 26 series, got 1 instead",
		"sum(" + strings.Repeat("sum:m,", 26) + "sum:m)":                    "Must have 2 to 26 series, got 27 instead",
		"movingAverage(sum:m,0)":                                            "Moving average window must be an integer greater than zero",
		"movingAverage(sum:m,'5 years')":                                    "Unknown time unit of '5 years'",
		"movingAverage(sum:m,'0m')":                                         "Invalid amount of time: '0m'",
		"movingAverage(sum:m,5m)":                                           "Invalid amount of time: 5m. It has to be quoted, like '10min'",
		"highestMax(sum:m,0)":                                               "Top n value must be greater than zero: 0",
		"highestMax(sum:m,many)":                                            "Unparseable top n value: many",
		"timeShift(sum:m,10min)":                                            "Invalid amount of time: 10min. It has to be quoted, like '10min'",
		"timeShift(sum:m,'99999999999week')":                                "Invalid amount of time: '99999999999week'",
		strings.Repeat("absolute(", 40) + "sum:m" + strings.Repeat(")", 40): "An expression is nested deeper than 32 levels",
	} {
		s.want("GET", "/api/query/gexp?start=0&exp="+expression, "", 400, fmt.Sprintf(`{"error":{"code":400,"message":%q}}`, message))
	}
	s.want("GET", "/api/query/gexp?start=0&m=sum:m", "", 400, `{"error":{"code":400,"message":"Missing parameter","details":"The \"exp\" query parameter is missing"}}`)
	s.want("POST", "/api/query/gexp", "{}", 405, `{"error":{"code":405,"message":"Method not allowed","details":"The HTTP method [POST] is not permitted for this endpoint"}}`)
}

func TestGraphMemory(t *testing.T) {
	s := newServer(t, bounded(ledger.Limits{BytesMax: 100_000}))
	s.putSamples(scantest.Key("", "m"), ramp(1000))
	for expression, status := range map[string]int{"absolute(sum:m)": 200, "absolute(absolute(absolute(absolute(sum:m))))": 413} {
		if got, body := s.do("GET", "/api/query/gexp?start=0&exp="+expression, ""); got != status {
			t.Errorf("%s: %d %.200s", expression, got, body)
		}
	}
}

// TestMovingAverage compares with sums that are made anew at each point, newest first, as
// MovingAverage.java does.
func TestMovingAverage(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(0, 40).Draw(t, "points")
		times, values := make([]int64, n), make([]float64, n)
		at := int64(0)
		for i := range n {
			at += rapid.Int64Range(1, 5).Draw(t, "gap")
			times[i], values[i] = at, float64(rapid.IntRange(-5, 5).Draw(t, "value"))
			if rapid.IntRange(0, 4).Draw(t, "nan") == 0 {
				values[i] = math.NaN()
			}
		}
		width := rapid.Int64Range(1, 15).Draw(t, "width")
		for _, ofTime := range []bool{false, true} {
			got := make([]float64, n)
			if ofTime {
				movingAverageOfTime(times, values, got, width)
			} else {
				movingAverageOfPoints(values, got, int(width))
			}
			for i := range n {
				sum, count, met := 0.0, int64(0), false
				for j := i; j >= 0 && !met; j-- {
					if ofTime && times[i]-times[j] >= width {
						met = true
						break
					}
					if !math.IsNaN(values[j]) {
						sum += values[j]
						count++
					}
					met = !ofTime && count == width
				}
				want := 0.0
				if met && count > 0 {
					want = sum / float64(count)
				}
				if got[i] != want { // small whole numbers: sums are exact in any order
					t.Fatalf("of time %v, width %d, point %d of %v at %v: %v, want %v", ofTime, width, i, values, times, got[i], want)
				}
			}
		}
	})
}

// TestHighestIsStable: NaN comes last, equal ranks keep their order, and series of
// negative values count as what they are.
func TestHighestIsStable(t *testing.T) {
	s := newServer(t)
	for i, v := range []float64{-3, math.NaN(), -1, -1, -2} {
		if err := s.memory.Put(scantest.Key("", "m", "n", fmt.Sprint(i)), series.Sample{TimeMs: 1000, Value: v}); err != nil {
			t.Fatal(err)
		}
	}
	_, body := s.do("GET", "/api/query/gexp?start=0&exp=alias(highestMax(sum:m{n=*},5),@n)", "")
	var order []string
	for part := range strings.SplitSeq(body, `"metric":"`) {
		order = append(order, part[:1])
	}
	if got := strings.Join(order[1:], ""); got != "23401" {
		t.Errorf("%s: %s", got, body)
	}
}
