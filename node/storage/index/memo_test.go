package index

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"testing"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/node/storage/vfs"
)

// TestValuesAreRemembered asks for more expressions than are remembered, each twice, of two
// metrics and two tags with the same values.
func TestValuesAreRemembered(t *testing.T) {
	x, err := Open(Options{FS: vfs.NewMemFS(), Dir: "index"})
	if err != nil {
		t.Fatal(err)
	}
	defer x.Close()
	const hosts = 4*memoValuesMin + 10
	value := func(tag, i int) string { return fmt.Sprintf("v%d", (i*7+tag*3)%hosts) }
	metrics := []string{"m", "n"}
	next := series.ID(0)
	for _, metric := range metrics {
		for i := range hosts {
			key := series.AppendKey(nil, nil, []byte(metric), []series.Tag{
				{Name: []byte("a"), Value: []byte(value(0, i))}, {Name: []byte("b"), Value: []byte(value(1, i))},
				{Name: []byte("c"), Value: fmt.Append(nil, i%2)},
			})
			if _, err := x.Create(0, next, key, 680); err != nil {
				t.Fatal(err)
			}
			next++
		}
	}
	if err := settle(x); err != nil {
		t.Fatal(err)
	}
	for n := range memoEntriesMax + 8 { // all kinds of the first few
		expression := fmt.Sprintf("v[0-9]*%d[37]", n)
		anchored := regexp.MustCompile("^(?:" + expression + ")$")
		for range 2 {
			for m, metric := range metrics {
				for tag, name := range []string{"a", "b"} {
					for _, kind := range []scan.MatchKind{scan.MatchRegexp, scan.MatchNotRegexp} {
						if n > 2 && (m > 0 || tag > 0 || kind == scan.MatchNotRegexp) {
							continue
						}
						got, err := x.Select(context.Background(), &scan.Selector{Metric: metric, Matchers: []scan.Matcher{
							{Name: name, Kind: kind, Values: []string{expression}}, {Name: "c", Kind: scan.MatchEqual, Values: []string{"1"}},
						}}, AllDays(), 0, nil)
						if err != nil {
							t.Fatal(err)
						}
						var want []uint32
						for i := 1; i < hosts; i += 2 {
							if anchored.MatchString(value(tag, i)) == (kind == scan.MatchRegexp) {
								want = append(want, uint32(m*hosts+i))
							}
						}
						if !slices.Equal(got, want) {
							t.Fatalf("%s of %s of %s, kind %d: %d series, want %d", expression, name, metric, kind, len(got), len(want))
						}
					}
				}
			}
		}
	}
	remembered := 0
	for _, p := range *x.parts.parts.Load() {
		if len(p.memo.entries) > memoEntriesMax {
			t.Errorf("a part remembers %d expressions", len(p.memo.entries))
		}
		remembered += len(p.memo.entries)
	}
	if remembered == 0 {
		t.Error("nothing is remembered")
	}
}
