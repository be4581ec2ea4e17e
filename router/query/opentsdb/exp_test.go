package opentsdb

import (
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/ledger"
)

// expStart is the time of OpenTSDB's own tests of expressions, whose data, requests and
// results are repeated here (TestQueryExecutor, TestExpressionIterator,
// BaseTimeSyncedIteratorTest).
const expStart = 1431561600

// putMinutes writes a point a minute; NaN is none.
func (s *server) putMinutes(metric, d string, values ...float64) {
	s.t.Helper()
	for i, v := range values {
		if v == v {
			s.put(scantest.Key("", metric, "D", d, "E", "E"), expStart+60*float64(i), v)
		}
	}
}

// oneExtra is BaseTimeSyncedIteratorTest.oneExtraSameE.
func oneExtra(t testing.TB) *server {
	s := newServer(t)
	s.putMinutes("A", "D", 1, 2, 3)
	s.putMinutes("A", "F", 4, 5, 6)
	s.putMinutes("B", "D", 11, 12, 13)
	s.putMinutes("B", "F", 14, 15, 16)
	s.putMinutes("B", "G", 17, 18, 19)
	return s
}

// withGaps is BaseTimeSyncedIteratorTest.threeSameEGaps.
func withGaps(t testing.TB) *server {
	s := newServer(t)
	none := math.NaN()
	s.putMinutes("A", "D", 1, none, 3)
	s.putMinutes("A", "F", 4, 5)
	s.putMinutes("A", "G", none, 8, 9)
	s.putMinutes("B", "D", none, none, 13)
	s.putMinutes("B", "F", none, 15)
	s.putMinutes("B", "G", none, none, 19)
	return s
}

const (
	expFiltered = `"filters":[{"id":"f1","tags":[{"type":"wildcard","tagk":"D","filter":"*","groupBy":true}]}],` +
		`"metrics":[{"id":"a","metric":"A","filter":"f1"},{"id":"b","metric":"B","filter":"f1"}],`
	expTimes        = `"time":{"start":"1431561600","aggregator":"sum"},`
	expIntersection = `,"join":{"operator":"intersection"}`
)

// rows gives what an answer's outputs hold: the rows and the common tags of each.
func expRows(t *testing.T, body string) string {
	t.Helper()
	var answer struct {
		Outputs []struct {
			ID   string
			DPs  [][]any
			Meta []struct {
				Metrics    []string
				CommonTags map[string]string
				Aggregated []string `json:"aggregatedTags"`
			}
			DPsMeta map[string]int64
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	var text strings.Builder
	for _, o := range answer.Outputs {
		fmt.Fprintf(&text, "%s:", o.ID)
		for _, row := range o.DPs {
			fmt.Fprintf(&text, " %v", (row[0].(float64)/1000-expStart)/60)
			for _, v := range row[1:] {
				fmt.Fprintf(&text, ",%v", v)
			}
		}
		for _, m := range o.Meta[min(1, len(o.Meta)):] {
			fmt.Fprintf(&text, " %s%v%s", strings.Join(m.Metrics, "+"), slices.Sorted(maps.Values(m.CommonTags)), strings.Join(m.Aggregated, "/"))
		}
		if n := o.DPsMeta["setCount"]; n != int64(len(o.DPs)) || n > 0 && o.DPsMeta["lastTimestamp"] != int64(o.DPs[n-1][0].(float64)) {
			t.Errorf("meta %v of %d rows", o.DPsMeta, len(o.DPs))
		}
		text.WriteString("; ")
	}
	return strings.TrimSuffix(text.String(), "; ")
}

func TestExpressionsOfOpenTSDB(t *testing.T) {
	const rest = `"expressions":[%s],"outputs":[%s]`
	expression := func(id, expr, join string) string {
		return fmt.Sprintf(`{"id":%q,"expr":%q%s}`, id, expr, join)
	}
	const tags = " A+B[D E] A+B[E F]"
	for _, test := range []struct {
		name                     string
		server                   func(testing.TB) *server
		expressions, outputs     string
		want                     string
		times, metrics, expected string
	}{
		{name: "oneExpressionWithOutputAlias", server: oneExtra, expressions: expression("e", "a + b", expIntersection), outputs: `{"id":"e","alias":"A plus B"}`,
			want: "e: 0,12,18 1,14,20 2,16,22" + tags},
		{name: "oneExpressionOutputsMetrics", server: oneExtra, expressions: expression("e", "a + b", expIntersection), outputs: `{"id":"a"},{"id":"b"}`,
			want: "a: 0,1,4 1,2,5 2,3,6 A[D E] A[E F]; b: 0,11,14,17 1,12,15,18 2,13,16,19 B[D E] B[E F] B[E G]"},
		{name: "oneExpressionDefaultFill", server: withGaps, expressions: expression("e", "a + b", expIntersection),
			want: "e: 0,1,4,0 1,0,20,8 2,16,0,28" + tags + " A+B[E G]"},
		{name: "twoExpressionsDefaultOutput", server: oneExtra, expressions: expression("e", "a + b", expIntersection) + "," + expression("e2", "a * b", expIntersection),
			want: "e: 0,12,18 1,14,20 2,16,22" + tags + "; e2: 0,11,56 1,24,75 2,39,96" + tags},
		{name: "nested", server: oneExtra, expressions: expression("e4", "e2 + e3", "") + "," + expression("e", "a + b", expIntersection) + "," + expression("e2", "e * 2", "") + "," + expression("e3", "e * 2", ""),
			outputs: `{"id":"e4"}`, want: "e4: 0,48,72 1,56,80 2,64,88" + tags},
		{name: "aDivideByZeroWithTwoSeries", server: oneExtra, expressions: expression("e", "a / 0", ""), want: "e: 0,0,0 1,0,0 2,0,0 A[D E] A[E F]"},
		{name: "union fills a series that one has not", server: oneExtra, expressions: expression("e", "b - a", ""),
			want: "e: 0,10,10,17 1,10,10,18 2,10,10,19" + tags + " B[E G]"},
		{name: "aPlusBMissingPointsFillInfectiousNaN", server: withGaps, expressions: expression("e", "a + b", expIntersection),
			metrics: `"fillPolicy":{"policy":"nan"},`, want: "e: 0,<nil>,<nil>,<nil> 1,<nil>,20,<nil> 2,16,<nil>,28" + tags + " A+B[E G]"},
		{name: "aPlusBMissingPointsFillOne", server: withGaps, expressions: expression("e", "a + b", expIntersection),
			metrics: `"fillPolicy":{"policy":"scalar","value":"1"},`, want: "e: 0,2,5,2 1,2,20,9 2,16,2,28" + tags + " A+B[E G]"},
		{name: "downsampler fills", server: withGaps, expressions: expression("e", "a + b", expIntersection),
			times: `,"downsampler":{"interval":"1m","aggregator":"sum","fillPolicy":{"policy":"scalar","value":1}},"end":"1431561720"`,
			want:  "e: 0,2,5,2 1,2,20,9 2,16,2,28" + tags + " A+B[E G]"},
		{name: "rate comes first", server: oneExtra, expressions: expression("e", "a * 60", ""), times: `,"rate":true`, want: "e: 1,1,1 2,1,1 A[D E] A[E F]"},
		{name: "condition", server: oneExtra, expressions: expression("e", "(a > 2 && a < 6) ? b : -1", expIntersection), want: "e: 0,-1,14 1,-1,15 2,13,-1" + tags},
		{name: "fill of an expression", server: withGaps, expressions: expression("e", "a + b", expIntersection+`,"fillPolicy":{"policy":"scalar","value":-5}`) + "," + expression("e2", "e", ""),
			metrics: `"fillPolicy":{"policy":"nan"},`, outputs: `{"id":"e2"}`, want: "e2: 0,-5,-5,-5 1,-5,20,-5 2,16,-5,28" + tags + " A+B[E G]"},
	} {
		t.Run(test.name, func(t *testing.T) {
			s := test.server(t)
			body := "{" + strings.Replace(expTimes, `"sum"`, `"sum"`+test.times, 1) + strings.ReplaceAll(expFiltered, `"filter":"f1"`, test.metrics+`"filter":"f1"`) +
				fmt.Sprintf(rest, test.expressions, test.outputs) + "}"
			status, answer := s.do("POST", "/api/query/exp", body)
			if status != 200 {
				t.Fatalf("%d %s\n%s", status, answer, body)
			}
			if got := expRows(t, answer); got != test.want {
				t.Errorf("\ngot  %s\nwant %s", got, test.want)
			}
		})
	}
}

// TestExpressionWithoutFilter: TestQueryExecutor.oneExpressionNoFilter.
func TestExpressionWithoutFilter(t *testing.T) {
	_, answer := oneExtra(t).do("POST", "/api/query/exp", `{`+expTimes+`"metrics":[{"id":"a","metric":"A"},{"id":"b","metric":"B"}],"expressions":[{"id":"e","expr":"a + b"}]}`)
	if got, want := expRows(t, answer), "e: 0,47 1,52 2,57 A+B[E]D"; got != want {
		t.Errorf("%s, want %s", got, want)
	}
}

// TestExpressionAnswer compares a whole answer with the example of OpenTSDB's
// documentation (api_http/query/exp), save for the numbers.
func TestExpressionAnswer(t *testing.T) {
	s := oneExtra(t)
	s.want("POST", "/api/query/exp", `{"name":"q1","time":{"start":"1431561600","end":1431561660,"aggregator":"sum"},`+expFiltered+
		`"expressions":[{"id":"e","expr":"a / (b - 12)","join":{"operator":"intersection","useQueryTags":true,"includeAggTags":false}}],"outputs":[{"id":"e","alias":"Mega"}]}`, 200,
		`{"outputs":[{"id":"e","alias":"Mega","dps":[[1431561600000,-1,2],[1431561660000,0,1.6666666666666667]],`+
			`"dpsMeta":{"firstTimestamp":1431561600000,"lastTimestamp":1431561660000,"setCount":2,"series":2},`+
			`"meta":[{"index":0,"metrics":["timestamp"]},{"index":1,"metrics":["A","B"],"commonTags":{"D":"D","E":"E"},"aggregatedTags":[]},`+
			`{"index":2,"metrics":["A","B"],"commonTags":{"D":"F","E":"E"},"aggregatedTags":[]}]}],`+
			`"query":{"name":"q1","time":{"start":"1431561600","end":"1431561660","timezone":null,"downsampler":null,"aggregator":"sum","rate":false},`+
			`"filters":[{"id":"f1","tags":[{"tagk":"D","filter":"*","group_by":true,"type":"wildcard"}],"explicitTags":false}],`+
			`"metrics":[{"id":"a","metric":"A","filter":"f1","aggregator":null,"fillPolicy":null,"timeOffset":null},`+
			`{"id":"b","metric":"B","filter":"f1","aggregator":null,"fillPolicy":null,"timeOffset":null}],`+
			`"expressions":[{"id":"e","expr":"a / (b - 12)","join":{"operator":"intersection","useQueryTags":true,"includeAggTags":false},"fillPolicy":null}],`+
			`"outputs":[{"id":"e","alias":"Mega"}]}}`)
}

func TestExpressionErrors(t *testing.T) {
	s := oneExtra(t)
	const metrics = `"metrics":[{"id":"a","metric":"A"},{"id":"b","metric":"B"}],`
	for body, message := range map[string]string{
		``:                               `Missing request content`,
		`{}`:                             `missing time`,
		`{` + expTimes + `"metrics":[]}`: `missing or empty metrics`,
		`{"time":{"start":1},` + metrics + `"x":1}`:                                                                                                                `Missing or empty aggregator`,
		`{"time":{"aggregator":"sum"},` + metrics + `"x":1}`:                                                                                                       `Missing start time`,
		`{"time":{"start":1,"aggregator":"total"},` + metrics + `"x":1}`:                                                                                           `No such aggregation function: total`,
		`{` + expTimes + `"metrics":[{"id":"a.b","metric":"A"}]}`:                                                                                                  `Invalid id (\"a.b\"): illegal character: .`,
		`{` + expTimes + `"metrics":[{"id":"1","metric":"A"}]}`:                                                                                                    `The ID cannot be an integer`,
		`{` + expTimes + `"metrics":[{"id":"","metric":"A"}]}`:                                                                                                     `The ID cannot be null or empty`,
		`{` + expTimes + `"metrics":[{"id":"a","metric":"A"},{"id":"a","metric":"B"}]}`:                                                                            `duplicated metric id: a`,
		`{` + expTimes + `"metrics":[{"id":"a","metric":""}]}`:                                                                                                     `missing or empty metric`,
		`{` + expTimes + `"metrics":[{"id":"a","metric":"A","filter":"f"}]}`:                                                                                       `unrecognized filter id f in metric a`,
		`{` + expTimes + `"metrics":[{"id":"a","metric":"A","timeOffset":"1d-ago"}]}`:                                                                              `The timeOffset of a metric is not implemented, neither here nor in OpenTSDB, which ignores it`,
		`{` + expTimes + `"metrics":[{"id":"a","metric":"A","fillPolicy":{"policy":"some"}}]}`:                                                                     `Unrecognized fill policy: some`,
		`{` + expTimes + `"metrics":[{"id":"a","metric":"A","fillPolicy":{"policy":"zero","value":3}}]}`:                                                           `The value for ZERO must be 0`,
		`{` + expTimes + `"metrics":[{"id":"a","metric":"A","fillPolicy":{"policy":"nan","value":3}}]}`:                                                            `The value for NONE, NAN and NULL must be NaN`,
		`{` + expTimes + `"metrics":[{"id":"a","metric":"nope"}]}`:                                                                                                 `No such name for 'metrics': 'nope'`,
		`{` + expTimes + metrics + `"filters":[{"id":"f"},{"id":"f"}]}`:                                                                                            `duplicated filter id: f`,
		`{` + expTimes + metrics + `"expressions":[{"id":"e","expr":"a + c"}]}`:                                                                                    `Expression [a + c] was missing input c`,
		`{` + expTimes + metrics + `"expressions":[{"id":"a","expr":"b"}]}`:                                                                                        `Duplicated variable or expression id: a`,
		`{` + expTimes + metrics + `"expressions":[{"id":"e","expr":""}]}`:                                                                                         `missing or empty expr`,
		`{` + expTimes + metrics + `"expressions":[{"id":"e","expr":"e + 1"}]}`:                                                                                    `Self referencing expression found: e`,
		`{` + expTimes + metrics + `"expressions":[{"id":"e","expr":"f"},{"id":"f","expr":"g"},{"id":"g","expr":"e"}]}`:                                            `Circular reference found: g`,
		`{` + expTimes + metrics + `"expressions":[{"id":"e","expr":"1 + 1"}]}`:                                                                                    `The expression didn't appear to have any variables: 1 + 1`,
		`{` + expTimes + metrics + `"expressions":[{"id":"e","expr":"a","join":{"operator":"cross"}}]}`:                                                            `Unrecognized set operator: cross`,
		`{` + expTimes + metrics + `"outputs":[{"id":"x"}]}`:                                                                                                       `The output x is neither a metric nor an expression`,
		`{"time":{"start":1431561600,"aggregator":"none"},` + metrics + `"expressions":[{"id":"e","expr":"a+b","join":{"operator":"union","useQueryTags":true}}]}`: `Several series of a would be joined as one: group by more tags, or leave out useQueryTags`,
	} {
		status, answer := s.do("POST", "/api/query/exp", body)
		if status != 400 || !strings.Contains(answer, `"message":"`+message+`"`) {
			t.Errorf("%s\ngot  %d %s\nwant %s", body, status, answer, message)
		}
	}
	s.putMinutes("C", "Z", 1)
	status, answer := s.do("POST", "/api/query/exp", `{`+expTimes+strings.Replace(expFiltered, `"metric":"B"`, `"metric":"C"`, 1)+`"expressions":[{"id":"e","expr":"a+b"`+expIntersection+`}]}`)
	if status != 400 || !strings.Contains(answer, "No intersections found of a, b") {
		t.Errorf("%d %s", status, answer)
	}
	s.want("GET", "/api/query/exp", "", 405, `{"error":{"code":405,"message":"Method not allowed","details":"The HTTP method [GET] is not permitted for this endpoint"}}`)
}

// TestExpressionLimits: memory and points are bounded as those of any query.
func TestExpressionLimits(t *testing.T) {
	for what, change := range map[string]func(*Options){
		"bytes": bounded(ledger.Limits{BytesMax: 20_000}), "points": func(o *Options) { o.Limits.PointsMax = 99 },
	} {
		s := newServer(t, change)
		for i := range 10 {
			s.putSamples(scantest.Key("", "m", "n", string(rune('a'+i))), ramp(100))
		}
		status, body := s.do("POST", "/api/query/exp", `{"time":{"start":"0","aggregator":"none"},"metrics":[{"id":"m","metric":"m"}],"expressions":[{"id":"e","expr":"m * m"}]}`)
		if status != 413 || !strings.Contains(body, what+": narrow") {
			t.Errorf("%s: %d %.200s", what, status, body)
		}
	}
}

// TestExpressionsAgainstOracle computes random expressions over random series with maps.
func TestExpressionsAgainstOracle(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newServer(quiet{})
		variables := []string{"a", "b", "c"}
		fills := map[string]float64{}
		data := map[string]map[string]map[int64]float64{}
		metrics := make([]string, len(variables))
		for i, v := range variables {
			fills[v] = float64(rapid.IntRange(-1, 1).Draw(t, "fill"))
			metrics[i] = fmt.Sprintf(`{"id":%q,"metric":%q,"filter":"f","fillPolicy":{"value":%v}}`, v, v, fills[v])
			data[v] = map[string]map[int64]float64{}
			for _, host := range []string{"x", "y", "z"} {
				points := rapid.MapOfN(rapid.Int64Range(0, 5), rapid.Float64Range(-3, 3), 0, 4).Draw(t, "points")
				for at, value := range points {
					if err := s.memory.Put(scantest.Key("", v, "h", host), series.Sample{TimeMs: at * 1000, Value: value}); err != nil {
						t.Fatal(err)
					}
				}
				if len(points) > 0 {
					data[v][host] = points
				}
			}
			if len(data[v]) == 0 {
				t.Skip("a metric without points is an error")
			}
		}
		drawn, inner := drawFormula(t, 3)
		text, compute := "a + "+drawn, func(of func(string) float64) float64 { return of("a") + inner(of) }
		intersection := rapid.Bool().Draw(t, "intersection")
		operator := map[bool]string{true: "intersection", false: "union"}[intersection]
		status, answer := s.do("POST", "/api/query/exp", fmt.Sprintf(`{"time":{"start":"0","end":"100","aggregator":"sum"},`+
			`"filters":[{"id":"f","tags":[{"type":"wildcard","tagk":"h","filter":"*","groupBy":true}]}],"metrics":[%s],`+
			`"expressions":[{"id":"e","expr":%q,"join":{"operator":%q}}]}`, strings.Join(metrics, ","), text, operator))
		used := slices.DeleteFunc(slices.Clone(variables), func(v string) bool { return !strings.Contains(text, v) })
		hosts, times := map[string]bool{}, map[int64]bool{}
		for _, host := range []string{"x", "y", "z"} {
			having := 0
			for _, v := range used {
				if data[v][host] != nil {
					having++
				}
			}
			if having > 0 && !intersection || having == len(used) {
				hosts[host] = true
				for _, v := range used {
					for at := range data[v][host] {
						times[at] = true
					}
				}
			}
		}
		if len(hosts) == 0 {
			if status != 400 {
				t.Fatalf("%d %s", status, answer)
			}
			return
		}
		var got struct{ Outputs []struct{ DPs [][]*float64 } }
		if err := json.Unmarshal([]byte(answer), &got); err != nil || status != 200 {
			t.Fatalf("%d %s: %v", status, answer, err)
		}
		row := 0
		for _, at := range slices.Sorted(maps.Keys(times)) {
			for column, host := range slices.Sorted(maps.Keys(hosts)) {
				want := compute(func(v string) float64 {
					if value, ok := data[v][host][at]; ok {
						return value
					}
					return fills[v]
				})
				cell := got.Outputs[0].DPs[row][1+column]
				if isNumber := !math.IsNaN(want) && !math.IsInf(want, 0); (cell != nil) != isNumber || isNumber && *cell != want {
					t.Fatalf("%s at %d of %s: %v, want %v", text, at, host, cell, want)
				}
			}
			row++
		}
		if row != len(got.Outputs[0].DPs) {
			t.Fatalf("%d rows, want %d", len(got.Outputs[0].DPs), row)
		}
	})
}

// quiet is a testing.TB for servers inside of rapid.
type quiet struct{ testing.TB }

func (quiet) Helper() {}

// drawFormula draws an expression and, apart from the package, what it means.
func drawFormula(t *rapid.T, depth int) (string, func(of func(string) float64) float64) {
	if depth == 0 || rapid.IntRange(0, 5).Draw(t, "leaf") == 0 {
		if depth < 3 && rapid.IntRange(0, 3).Draw(t, "number") == 0 {
			n := rapid.IntRange(0, 3).Draw(t, "n")
			return fmt.Sprintf("%d.0", n), func(func(string) float64) float64 { return float64(n) }
		}
		v := rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "variable")
		return v, func(of func(string) float64) float64 { return of(v) }
	}
	left, x := drawFormula(t, depth-1)
	right, y := drawFormula(t, depth-1)
	is := func(b bool) float64 {
		if b {
			return 1
		}
		return 0
	}
	type meaning = func(x, y float64) float64
	all := map[string]meaning{
		"+": func(x, y float64) float64 { return x + y }, "-": func(x, y float64) float64 { return x - y }, "*": func(x, y float64) float64 { return x * y },
		"/": func(x, y float64) float64 {
			if y == 0 {
				return 0
			}
			return x / y
		},
		"%": func(x, y float64) float64 {
			if y == 0 {
				return 0
			}
			return math.Mod(x, y)
		},
		"<": func(x, y float64) float64 { return is(x < y) }, "ge": func(x, y float64) float64 { return is(x >= y) },
		"&&": func(x, y float64) float64 { return is(x != 0 && y != 0) }, "or": func(x, y float64) float64 { return is(x != 0 || y != 0) },
	}
	symbol := rapid.SampledFrom(slices.Sorted(maps.Keys(all))).Draw(t, "operator")
	if symbol == "/" || symbol == "%" { // a division of truths is one of whole numbers
		left = "(" + left + " + a - a)"
		inner := x
		x = func(of func(string) float64) float64 { return inner(of) + of("a") - of("a") }
	}
	return "(" + left + " " + symbol + " " + right + ")", func(of func(string) float64) float64 { return all[symbol](x(of), y(of)) }
}

// TestFormula checks what the oracle does not draw: precedence, literals, and what JEXL
// does with NaN and with whole numbers.
func TestFormula(t *testing.T) {
	nan := math.NaN()
	for text, want := range map[string]float64{
		"a + 2 * 3": 16, "(a + 2) * 3": 36, "a - 1 - 2": 7, "-a + 1": -9, "--a": 10, "a * -1": -10, "!a": 0, "not (a > 10)": 1,
		"a % 4": 2, "a mod 4": 2, "a div 4": 2.5, "a * (1 / 2)": 0, "a * (1.0 / 2)": 5, "a * (7 % 4)": 30, "a * (-7 / 2)": -30, "a + 1e1": 20, "a + .5": 10.5, "a+1L+1.5f+2d": 14.5,
		"a == 10": 1, "a != 10": 0, "a eq 10": 1, "a ne 10": 0, "a lt 11": 1, "a le 10": 1, "a gt 10": 0, "a >= 10": 1,
		"(a > 1) == 5": 1, "a > 1 == true": 1, "(a > 1) + 1": 2, "a > 1 ? 2 : 3": 2, "a > 10 ? 2 : a > 5 ? 4 : 5": 4, "(a - 10) ?: 7": 7, "a ?: 7": 10,
		"a > 1 && n == n": 1, "n < -1000": 1, "n > 1": 0, "n == a": 0, "n && true": 0, "n || a": 1, "n ? 1 : 2": 2, "a + n": nan, "n / 0": 0, "true ? a : 0": 10, "false || a > 3": 1,
	} {
		f, err := parseFormula(text)
		if err != nil {
			t.Errorf("%q: %v", text, err)
			continue
		}
		e := newEvaluation(f)
		for i, name := range f.variables {
			for at := range e.variables[i] {
				e.variables[i][at] = map[string]float64{"a": 10, "n": nan}[name]
			}
		}
		for _, got := range e.compute(3) {
			if got != want && got == got || (got != got) != (want != want) {
				t.Errorf("%q: %v, want %v", text, got, want)
			}
		}
	}
	for _, text := range []string{
		" a / ", "", "a +", "(a", "a)", "a b", "a = 1", "a & b", "a | b", "a.b", "size(a)", "a =~ b", "1 2", "0x10 + a", "010 + a", "1e + a", "a ? 1", "a == 1 == 1", "a < 1 < 2",
		"null", "a; b", "a ++ b", "[a]", "a[0]", "'x' + a", strings.Repeat("(", 300) + "a", strings.Repeat("-", 300) + "a", strings.Repeat("a+", 9000) + "a", "a + \xff", "eq",
	} {
		if f, err := parseFormula(text); err == nil {
			t.Errorf("%.40q: %+v, want an error", text, f.root)
		}
	}
	if f, err := parseFormula(strings.Repeat("a+", 8000) + "a"); err != nil || newEvaluation(f).compute(1)[0] != 0 {
		t.Errorf("a long sum: %v", err)
	}
	elvis := strings.Repeat("(a ?: ", 30) + "a" + strings.Repeat(")", 30)
	if f, err := parseFormula(elvis); err != nil || f.registers > 50 {
		t.Errorf("nested ?: %v", err)
	}
}
