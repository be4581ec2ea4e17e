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
	if n := len(c.Metadata("many", "", 0)); n != catalogDatabaseMax || c.Metadata("many", "m1", 0)[0].Type != "counter" {
		t.Error(n)
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
	const greedy = 2 * catalogBytesMax / catalogDatabaseBytesMax
	for i := range greedy {
		keep(fmt.Sprint("greedy", i), catalogDatabaseMax+1)
	}
	keep("modest", 1000)
	if n := len(c.Metadata("modest", "", 0)); n != 1000 {
		t.Errorf("%d of 1000 metrics are kept", n)
	}
	wantBounded(t, &c)
	if c.bytes < catalogBytesMax-1000 {
		t.Errorf("%d bytes, and there is more", c.bytes)
	}
}

// wantBounded counts what is kept anew.
func wantBounded(t *testing.T, c *Catalog) {
	t.Helper()
	all := 0
	for database, d := range c.known {
		bytes := 0
		for _, m := range d.metrics {
			bytes += m.bytes()
		}
		if all += bytes; bytes != d.bytes || bytes > catalogDatabaseBytesMax || len(d.metrics) > catalogDatabaseMax {
			t.Errorf("%s has %d metrics of %d bytes, counted are %d", database, len(d.metrics), bytes, d.bytes)
		}
	}
	if all != c.bytes || all > catalogBytesMax {
		t.Errorf("%d bytes, counted are %d", all, c.bytes)
	}
}
