package influxql

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sort"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

// row is a point with two fields, of which one may be missing (NaN).
type row struct {
	host, dc string
	ms       int64
	f, g     float64
}

const oracleStartMs = 946_684_800_000 // 2000-01-01T00:00:00Z

// makeRows returns points of distinct times.
func makeRows(r *rand.Rand) []row {
	var rows []row
	maybe := func() float64 {
		if r.IntN(4) == 0 {
			return math.NaN()
		}
		return float64(r.IntN(64)-20) / 4
	}
	for i := range 300 {
		p := row{host: string(rune('a' + r.IntN(4))), dc: []string{"", "x", "y"}[r.IntN(3)], ms: oracleStartMs + int64(i)*7_000 + r.Int64N(7_000), f: maybe(), g: maybe()}
		if p.f == p.f || p.g == p.g {
			rows = append(rows, p)
		}
	}
	return rows
}

func storeRows(t *testing.T, rows []row) *scantest.Memory {
	t.Helper()
	m := scantest.NewMemory()
	for _, p := range rows {
		for name, v := range map[string]float64{"f": p.f, "g": p.g} {
			if v != v {
				continue
			}
			tags := []series.Tag{{Name: []byte("_field"), Value: []byte(name)}, {Name: []byte("host"), Value: []byte(p.host)}}
			if p.dc != "" {
				tags = append(tags, series.Tag{Name: []byte("dc"), Value: []byte(p.dc)})
			}
			if err := m.Put(series.AppendKey(nil, []byte("db0"), []byte("m"), tags), series.Sample{TimeMs: p.ms, Value: v}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return m
}

// condition is one that both sides know: its text, and what it keeps.
type oracleCondition struct {
	text string
	keep func(p row) bool
}

var oracleConditions = []oracleCondition{
	{"", func(row) bool { return true }},
	{" AND host = 'a'", func(p row) bool { return p.host == "a" }},
	{" AND dc != 'x'", func(p row) bool { return p.dc != "x" }},
	{" AND dc =~ /x|y/", func(p row) bool { return p.dc != "" }},
	{" AND host !~ /^(a|b)$/", func(p row) bool { return p.host != "a" && p.host != "b" }},
	{" AND g > 1", func(p row) bool { return p.g > 1 }},
	{" AND (g <= 1 OR host = 'c')", func(p row) bool { return p.g <= 1 || p.host == "c" }},
	{" AND f + g < 3", func(p row) bool { return p.f+p.g < 3 }},
	{" AND (host = 'a' OR host = 'd' OR dc = 'y')", func(p row) bool { return p.host == "a" || p.host == "d" || p.dc == "y" }},
}

// oracleFunction returns the value of a function of the values of a window, in order of time.
func oracleFunction(name string, all []float64) float64 {
	ordered := slices.Sorted(slices.Values(all))
	n := len(all)
	var sum float64
	for _, v := range all {
		sum += v
	}
	switch name {
	case "count":
		return float64(n)
	case "sum":
		return sum
	case "mean":
		return sum / float64(n)
	case "min":
		return ordered[0]
	case "max":
		return ordered[n-1]
	case "spread":
		return ordered[n-1] - ordered[0]
	case "first":
		return all[0]
	case "last":
		return all[n-1]
	case "median":
		return (ordered[(n-1)/2] + ordered[n/2]) / 2
	}
	var squares float64 // stddev
	for _, v := range all {
		squares += (v - sum/float64(n)) * (v - sum/float64(n))
	}
	if n < 2 {
		return math.NaN()
	}
	return math.Sqrt(squares / float64(n-1))
}

// oracleQuery is a query of one function by windows and tags.
type oracleQuery struct {
	function, fill    string
	fromMs, toMs      int64 // toMs is not among them
	everyMs, offsetMs int64 // everyMs 0: no windows
	condition         oracleCondition
	by                []string
	descending        bool
	limit, offset     int
	transformed       bool // difference(function())
}

func (q *oracleQuery) text() string {
	call := q.function + "(f)"
	if q.transformed {
		call = "difference(" + call + ")"
	}
	s := fmt.Sprintf("SELECT %s AS v FROM m WHERE time >= %dms AND time < %dms%s", call, q.fromMs, q.toMs, q.condition.text)
	by := slices.Clone(q.by)
	if q.everyMs > 0 {
		by = append(by, fmt.Sprintf("time(%dms, %dms)", q.everyMs, q.offsetMs))
	}
	if len(by) > 0 {
		s += " GROUP BY " + strings.Join(by, ", ")
	}
	if q.everyMs > 0 {
		s += " fill(" + q.fill + ")"
	}
	if q.descending {
		s += " ORDER BY time DESC"
	}
	if q.limit > 0 {
		s += fmt.Sprintf(" LIMIT %d OFFSET %d", q.limit, q.offset)
	}
	return s
}

// answer returns the rows that a query has to answer, as lines "tags time value".
func (q *oracleQuery) answer(rows []row) []string {
	groups := map[string]map[int64][]float64{}
	window := func(ms int64) int64 {
		if q.everyMs == 0 {
			return q.fromMs
		}
		return q.offsetMs + int64(math.Floor(float64(ms-q.offsetMs)/float64(q.everyMs)))*q.everyMs
	}
	first := q.fromMs
	if q.transformed { // the window before is read too
		first -= q.everyMs
	}
	for _, p := range rows { // they are in order of time
		if p.ms < first || p.ms >= q.toMs || p.f != p.f || !q.condition.keep(p) {
			continue
		}
		key := ""
		for _, name := range q.by {
			key += map[string]string{"host": p.host, "dc": p.dc}[name] + "\x01"
		}
		if groups[key] == nil {
			groups[key] = map[int64][]float64{}
		}
		groups[key][window(p.ms)] = append(groups[key][window(p.ms)], p.f)
	}
	var lines []string
	for _, key := range sortedKeys(groups, q.descending) {
		var values []oracleValue
		if q.everyMs == 0 {
			values = []oracleValue{{q.fromMs, oracleFunction(q.function, groups[key][q.fromMs])}}
		} else {
			for at := window(first); at < q.toMs; at += q.everyMs {
				if all := groups[key][at]; len(all) > 0 {
					values = append(values, oracleValue{at, oracleFunction(q.function, all)})
				} else if q.fill == "0" || q.fill == "null" && q.function == "count" {
					values = append(values, oracleValue{at, 0})
				} else if q.fill == "null" {
					values = append(values, oracleValue{at, math.NaN()})
				}
			}
		}
		if q.descending {
			slices.Reverse(values)
		}
		if q.transformed {
			values = differences(values)
		}
		values = values[min(q.offset, len(values)):]
		if q.limit > 0 {
			values = values[:min(q.limit, len(values))]
		}
		for _, v := range values {
			lines = append(lines, fmt.Sprintf("%s %d %s", key, v.ms, number(v.v)))
		}
	}
	return lines
}

type oracleValue struct {
	ms int64
	v  float64
}

func differences(in []oracleValue) (out []oracleValue) {
	for i := 1; i < len(in); i++ {
		out = append(out, oracleValue{in[i].ms, in[i].v - in[i-1].v})
	}
	return out
}

func sortedKeys[V any](m map[string]V, descending bool) []string {
	keys := make([]string, 0, len(m))
	for k := range m {
		keys = append(keys, k)
	}
	sort.Strings(keys)
	if descending {
		slices.Reverse(keys)
	}
	return keys
}

func number(v float64) string {
	if v != v {
		return "null"
	}
	if math.Abs(v) < 1e-9 {
		v = 0
	}
	return fmt.Sprintf("%.6f", v)
}

// lines returns the rows of an answer in the same form.
func lines(t *testing.T, body string, by []string) []string {
	t.Helper()
	var answer struct {
		Results []struct {
			Error  string
			Series []struct {
				Tags   map[string]string
				Values [][]*float64
			}
		}
	}
	if err := json.Unmarshal([]byte(body), &answer); err != nil || answer.Results[0].Error != "" {
		t.Fatalf("%v: %s", err, body)
	}
	var all []string
	for _, s := range answer.Results[0].Series {
		key := ""
		for _, name := range by {
			key += s.Tags[name] + "\x01"
		}
		for _, row := range s.Values {
			v := math.NaN()
			if row[1] != nil {
				v = *row[1]
			}
			all = append(all, fmt.Sprintf("%s %d %s", key, int64(*row[0]), number(v)))
		}
	}
	return all
}

// TestOracle compares random queries with the obvious way to answer them.
func TestOracle(t *testing.T) {
	for seed := range uint64(4) {
		r := rand.New(rand.NewPCG(seed, 7))
		rows := makeRows(r)
		h := New(Options{Source: storeRows(t, rows), Clock: func() time.Time { return time.UnixMilli(oracleStartMs + 86_400_000) }})
		functions := []string{"count", "sum", "mean", "min", "max", "spread", "first", "last", "median", "stddev"}
		for range 150 {
			q := oracleQuery{
				function: functions[r.IntN(len(functions))], fill: []string{"none", "null", "0"}[r.IntN(3)],
				fromMs: oracleStartMs + r.Int64N(900_000), everyMs: []int64{0, 60_000, 90_000, 600_000, 1_234}[r.IntN(5)],
				condition: oracleConditions[r.IntN(len(oracleConditions))], by: [][]string{nil, {"host"}, {"dc"}, {"dc", "host"}}[r.IntN(4)],
				descending: r.IntN(3) == 0,
			}
			q.toMs = q.fromMs + 1 + r.Int64N(1_500_000)
			if q.everyMs > 0 {
				q.offsetMs = r.Int64N(q.everyMs)
				q.transformed = q.fill == "none" && !q.descending && q.function != "stddev" && r.IntN(4) == 0
			} else if q.function == "min" || q.function == "max" || q.function == "first" || q.function == "last" {
				q.function = "mean" // the others keep the time of their point
			}
			if r.IntN(3) == 0 {
				q.limit, q.offset = 1+r.IntN(5), r.IntN(3)
			}
			_, body := get(t, h, q.text(), "epoch", "ms")
			if got, want := lines(t, body, q.by), q.answer(rows); !slices.Equal(got, want) {
				t.Fatalf("%s\n got %q\nwant %q", q.text(), got, want)
			}
		}
	}
}

// TestOracleRaw compares rows as they are, of one series and by tags.
func TestOracleRaw(t *testing.T) {
	r := rand.New(rand.NewPCG(9, 9))
	rows := makeRows(r)
	h := New(Options{Source: storeRows(t, rows), Clock: func() time.Time { return time.UnixMilli(oracleStartMs + 86_400_000*int64(1+r.IntN(2000))) }})
	for range 200 {
		c := oracleConditions[r.IntN(len(oracleConditions))]
		from, to := oracleStartMs+r.Int64N(2_000_000), oracleStartMs+r.Int64N(2_500_000)
		query := fmt.Sprintf("SELECT f FROM m WHERE time >= %dms AND time < %dms%s", from, to, c.text)
		if r.IntN(3) == 0 {
			from, to = 0, math.MaxInt64
			query = "SELECT f FROM m WHERE time > 0" + c.text
		}
		var want []string
		for _, p := range rows {
			if p.ms >= from && p.ms < to && p.f == p.f && c.keep(p) {
				want = append(want, fmt.Sprintf(" %d %s", p.ms, number(p.f)))
			}
		}
		if r.IntN(2) == 0 {
			query += " ORDER BY time DESC"
			slices.Reverse(want)
		}
		if r.IntN(2) == 0 {
			limit, offset := 1+r.IntN(20), r.IntN(20)
			query += fmt.Sprintf(" LIMIT %d OFFSET %d", limit, offset)
			want = want[min(offset, len(want)):]
			want = want[:min(limit, len(want))]
		}
		_, body := get(t, h, query, "epoch", "ms")
		if got := lines(t, body, nil); !slices.Equal(got, want) {
			t.Fatalf("%s\n got %q\nwant %q", query, got, want)
		}
	}
}
