package storage

import (
	"context"
	"fmt"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
)

// BenchmarkLiveAmongDead asks for the last five minutes, in which ten series have samples, of
// a metric that has had many others: all of them two months ago.
func BenchmarkLiveAmongDead(b *testing.B) {
	const (
		live   = 10
		nowMs  = int64(1_750_000_000_000)
		deadMs = nowMs - 60*24*3600_000
		fromMs = nowMs - 5*60_000
	)
	key := func(pod string, i int) series.Key {
		return series.AppendKey(nil, nil, []byte("req"), []series.Tag{
			{Name: []byte("app"), Value: fmt.Appendf(nil, "a%d", i%10)}, {Name: []byte("pod"), Value: fmt.Appendf(nil, "%s-%d", pod, i)},
		})
	}
	for _, dead := range []int{0, 1 << 20} {
		e := newBenchEngine(b)
		for i := range dead {
			e.put(key("dead", i), deadMs, int64(i))
		}
		e.applyAll()
		e.flushAll()
		for at := fromMs; at < nowMs; at += 10_000 {
			for i := range live {
				e.put(key("live", i), at, at/1000)
			}
			e.applyAll()
		}
		ctx := context.Background()
		scanned := func(matchers ...scan.Matcher) func() (int, error) {
			return func() (count int, err error) {
				err = e.Scan(ctx, &scan.Request{
					Selector: scan.Selector{Metric: "req", Matchers: matchers}, FromMs: fromMs, ToMs: nowMs, Limits: scan.Limits{SeriesMax: 1000},
				}, func(int, *scan.Chunk) error { count++; return nil })
				return count, err
			}
		}
		for _, c := range []struct {
			name string
			want int
			read func() (int, error)
		}{
			{"scan", live, scanned()},
			{"scan one app", 1, scanned(scan.Matcher{Name: "app", Kind: scan.MatchEqual, Values: []string{"a3"}})},
			{"scan by expression", live, scanned(scan.Matcher{Name: "pod", Kind: scan.MatchRegexp, Values: []string{"[dl].*-[0-9]+"}})},
			{"last", live, func() (count int, err error) {
				err = e.Last(ctx, &scan.Selector{Metric: "req"}, fromMs, scan.Limits{SeriesMax: 1000}, func(scan.Point) error { count++; return nil })
				return count, err
			}},
			{"series", live, func() (int, error) {
				total, err := e.SeriesBetween(ctx, &scan.Selector{Metric: "req"}, fromMs, nowMs, 0, func(series.Key) error { return nil })
				return int(total), err
			}},
			{"values", live, func() (int, error) {
				values, err := scan.Between(e.Engine, fromMs, nowMs).TagValues(ctx, "", "req", "pod", "", 0)
				return len(values), err
			}},
		} {
			b.Run(fmt.Sprintf("%s/dead=%d", c.name, dead), func(b *testing.B) {
				for b.Loop() {
					if got, err := c.read(); err != nil || got != c.want {
						b.Fatal(got, c.want, err)
					}
				}
			})
		}
	}
}
