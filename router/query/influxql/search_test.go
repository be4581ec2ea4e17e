package influxql

import (
	"context"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// searchPoint is a value of one of a few hosts.
type searchPoint struct {
	host string
	ms   int64
	v    float64
}

// better reports whether b answers a function rather than a.
func (a searchPoint) better(function string, b searchPoint) bool {
	switch function {
	case "min":
		return b.v < a.v || b.v == a.v && b.ms < a.ms
	case "max":
		return b.v > a.v || b.v == a.v && b.ms < a.ms
	case "first":
		return b.ms < a.ms
	}
	return b.ms > a.ms
}

// slowSearch answers from all points.
func slowSearch(points []searchPoint, function string, fromMs, toMs int64, byHost bool) string {
	best, found := map[string]searchPoint{}, map[string]bool{}
	for _, p := range points {
		if p.ms < fromMs || p.ms > toMs || p.v != p.v {
			continue
		}
		key := p.host
		if !byHost {
			key = ""
		}
		if !found[key] || best[key].better(function, p) {
			best[key], found[key] = p, true
		}
	}
	var list []string
	for _, host := range []string{"", "a", "b", "c"} {
		if !found[host] {
			continue
		}
		tags := ""
		if byHost {
			tags = fmt.Sprintf(`"tags":{"host":%q},`, host)
		}
		list = append(list, fmt.Sprintf(`{"name":"m",%s"columns":["time",%q],"values":[[%d,%v]]}`, tags, function, best[host].ms, best[host].v))
	}
	if len(list) == 0 {
		return `{"results":[{"statement_id":0}]}`
	}
	return `{"results":[{"statement_id":0,"series":[` + strings.Join(list, ",") + `]}]}`
}

// bestOf returns the point that answers a function over all hosts; -1: there is none.
func bestOf(points []searchPoint, function string, fromMs, toMs int64) int {
	best := -1
	for i, p := range points {
		if p.ms >= fromMs && p.ms <= toMs && p.v == p.v && (best < 0 || points[best].better(function, p)) {
			best = i
		}
	}
	return best
}

// watchedSource counts samples that are read, and may do something before a scan of samples.
type watchedSource struct {
	*scantest.Memory
	samples atomic.Int64
	before  func()
}

func (s *watchedSource) Scan(ctx context.Context, r *scan.Request, visit scan.Visitor) error {
	if r.Windows == nil && s.before != nil {
		s.before()
		s.before = nil
	}
	return s.Memory.Scan(ctx, r, func(worker int, c *scan.Chunk) error {
		if r.Windows == nil {
			s.samples.Add(int64(len(c.Times)))
		}
		return visit(worker, c)
	})
}

// The time of a least, greatest, first or last value is the one that all samples tell, and few
// of them are read, but where the days have changed meanwhile.
func TestSearch(t *testing.T) {
	const dayMs = 24 * 3600_000
	for seed := range uint64(20) {
		r := rand.New(rand.NewPCG(seed, 3))
		s := &watchedSource{Memory: scantest.NewMemory()}
		var points []searchPoint
		put := func(p searchPoint) {
			if at := slices.IndexFunc(points, func(o searchPoint) bool { return o.host == p.host && o.ms == p.ms }); at >= 0 {
				points[at] = p
			} else {
				points = append(points, p)
			}
			key := series.AppendKey(nil, []byte("db0"), []byte("m"), []series.Tag{{Name: []byte("_field"), Value: []byte("f")}, {Name: []byte("host"), Value: []byte(p.host)}})
			if err := s.Put(key, series.Sample{TimeMs: p.ms, Value: p.v}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range int64(2000) { // of distinct times
			p := searchPoint{string(rune('a' + r.IntN(3))), oracleStartMs + i*dayMs/50 + r.Int64N(dayMs/50), float64(r.IntN(40) - 20)}
			if r.IntN(10) == 0 {
				p.v = math.NaN()
			}
			put(p)
		}
		h := New(Options{Source: s, Clock: testClock})
		for range 40 {
			function := []string{"min", "max", "first", "last"}[r.IntN(4)]
			fromMs := oracleStartMs + r.Int64N(45*dayMs) - 3*dayMs
			toMs := fromMs + r.Int64N(40*dayMs)
			query, byHost := fmt.Sprintf("SELECT %s(f) FROM m WHERE time >= %dms AND time <= %dms", function, fromMs, toMs), r.IntN(2) == 0
			if byHost {
				query += " GROUP BY host"
			}
			if r.IntN(8) == 0 { // something comes between the steps
				late := searchPoint{string(rune('a' + r.IntN(3))), fromMs + r.Int64N(toMs-fromMs+1), float64(r.IntN(200) - 100)}
				if best := bestOf(points, function, fromMs, toMs); best >= 0 && r.IntN(2) == 0 { // the answer is another one then
					late = searchPoint{points[best].host, points[best].ms, math.NaN()}
				}
				s.before = func() { put(late) }
			}
			between, before := s.before != nil, s.samples.Load()
			earlier := slowSearch(points, function, fromMs, toMs, byHost)
			_, got := get(t, h, query, "epoch", "ms")
			s.before = nil
			// What comes between may be told or not.
			if want := slowSearch(points, function, fromMs, toMs, byHost); got != want && got != earlier {
				t.Fatalf("seed %d, %s:\n%s\nwant\n%s", seed, query, got, want)
			}
			if read := s.samples.Load() - before; !between && toMs-fromMs > 10*dayMs && read > 12*60 {
				t.Errorf("seed %d, %s: %d samples were read", seed, query, read)
			}
		}
	}
}

// TestSearchWithinLimits: a query of as many series and samples as it may read is answered,
// though a search reads some of them more than once, or is given up.
func TestSearchWithinLimits(t *testing.T) {
	const days = 20
	for _, hosts := range []int64{1, 10, load.SearchSeriesMax, load.SearchSeriesMax + 1, 40} {
		m := scantest.NewMemory()
		for i := range hosts {
			key := series.AppendKey(nil, []byte("db0"), []byte("m"), []series.Tag{{Name: []byte("_field"), Value: []byte("f")}, {Name: []byte("host"), Value: fmt.Append(nil, i)}})
			for day := range int64(days) {
				if err := m.Put(key, series.Sample{TimeMs: oracleStartMs + day*load.SearchDayMs, Value: float64((day*7 + i*3) % days)}); err != nil {
					t.Fatal(err)
				}
			}
		}
		for _, function := range []string{"min", "max", "first", "last"} {
			query := fmt.Sprintf("SELECT %s(f) FROM m WHERE time >= %dms AND time <= %dms GROUP BY host", function, oracleStartMs, oracleStartMs+days*load.SearchDayMs)
			ask := func(limits admission.Limits) string {
				l := admission.New(admission.Options{Limits: limits})
				_, got := get(t, New(Options{Source: l.Source(m), Admission: l, Clock: testClock}), query)
				return got
			}
			want := ask(admission.Limits{})
			if got := ask(admission.Limits{SeriesMax: hosts, SamplesMax: hosts * days}); got != want {
				t.Errorf("%s of %d series: %s", function, hosts, got)
			}
			if hosts > 1 {
				if got := ask(admission.Limits{SeriesMax: hosts - 1}); !strings.Contains(got, "series") || got == want {
					t.Errorf("%s of %d series: %s", function, hosts, got)
				}
			}
		}
	}
}
