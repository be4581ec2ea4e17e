package promql

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestCatalog: the latest counts, by database; it is bounded.
func TestCatalog(t *testing.T) {
	o := labOptions(t)
	var c Catalog
	o.Metadata = &c
	h := New(o)
	keep := func(database, metric, kind, help, unit string) {
		c.KeepMetadata([]byte(database), []byte(metric), kind, []byte(help), []byte(unit))
	}
	keep("", "up", "gauge", "old", "")
	keep("", "up", "gauge", "Whether \"it\" is up.", "")
	keep("", "requests_total", "counter", strings.Repeat("x", 2000), "requests")
	keep("other", "else", "unknown", "", "")
	for _, x := range []struct{ target, want string }{
		{"metadata?metric=up", `{"up":[{"type":"gauge","unit":"","help":"Whether \"it\" is up."}]}`},
		{"metadata?limit=1", `{"requests_total":[{"type":"counter","unit":"requests","help":"` + strings.Repeat("x", catalogTextBytesMax) + `"}]}`},
		{"metadata?limit=0", `{}`},
		{"metadata?db=other", `{"else":[{"type":"unknown","unit":"","help":""}]}`},
		{"metadata?metric=else", `{}`},
	} {
		if got := get(h, x.target); got.body != success(x.want) {
			t.Errorf("%s: %s", x.target, got.body)
		}
	}
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range catalogDatabaseMax {
				keep("many", fmt.Sprintf("m%d", i*2+worker%2), "gauge", "", "")
				c.Metadata("many", "m1", 0)
			}
		})
	}
	group.Wait()
	keep("many", "m1", "counter", "", "")
	if n := len(c.Metadata("many", "", 0)); n != catalogDatabaseMax || c.metrics != n+3 || c.Metadata("many", "m1", 0)[0].Type != "counter" {
		t.Error(n, c.metrics)
	}
	keep("", strings.Repeat("y", 2000), "gauge", "", "")
	if len(c.Metadata("", "", 0)) != 2 {
		t.Error("a long name is kept")
	}
}

// TestCatalogIsFair: databases that fill the catalogue leave others their share.
func TestCatalogIsFair(t *testing.T) {
	var c Catalog
	keep := func(database string, metrics int) {
		for i := range metrics {
			c.KeepMetadata([]byte(database), fmt.Appendf(nil, "m%d", i), "gauge", nil, nil)
		}
	}
	const greedy = 2 * catalogMetricsMax / catalogDatabaseMax
	for i := range greedy {
		keep(fmt.Sprint("greedy", i), catalogDatabaseMax+1)
	}
	keep("modest", 1000)
	if n := len(c.Metadata("modest", "", 0)); n != 1000 || c.metrics != catalogMetricsMax {
		t.Errorf("%d of 1000 metrics are kept, %d in all", n, c.metrics)
	}
	total := 0
	for database, of := range c.known {
		if total += len(of); len(of) > catalogDatabaseMax {
			t.Errorf("%s has %d", database, len(of))
		}
	}
	if total != c.metrics {
		t.Errorf("%d metrics are kept, counted are %d", total, c.metrics)
	}
}
