package metadata

import (
	"fmt"
	"strings"
	"sync"
	"testing"
)

// TestCatalog: the latest counts, by database; it is bounded.
func TestCatalog(t *testing.T) {
	var c Catalog
	keep := func(database, metric, kind, help, unit string) {
		c.KeepMetadata([]byte(database), []byte(metric), kind, []byte(help), []byte(unit))
	}
	keep("", "up", "gauge", "old", "")
	keep("", "up", "gauge", "new", "s")
	keep("", "requests_total", "counter", strings.Repeat("x", 2000), "")
	keep("", "latin", "counter", "caf\xe9", "")
	keep("", "wrong\xff", "counter", "", "")
	keep("other", "else", "unknown", "", "")
	for database, want := range map[string][]Description{
		"": {{"latin", "counter", "caf", ""}, {"requests_total", "counter", strings.Repeat("x", textBytesMax), ""}, {"up", "gauge", "new", "s"}}, "other": {{"else", "unknown", "", ""}}, "none": nil,
	} {
		if got := c.Metadata(database, "", 0); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%q: %v, want %v", database, got, want)
		}
	}
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range databaseMetricsMax {
				keep("many", fmt.Sprintf("m%d", i*2+worker%2), "gauge", "", "")
				c.Metadata("many", "m1", 0)
			}
		})
	}
	group.Wait()
	keep("many", "m1", "counter", "", "")
	if n := len(c.Metadata("many", "", 0)); n != databaseMetricsMax || c.Metadata("many", "m1", 0)[0].Type != "counter" {
		t.Error(n)
	}
	keep("", strings.Repeat("y", 2000), "gauge", "", "")
	if len(c.Metadata("", "", 0)) != 3 {
		t.Error("a long name is kept")
	}
	wantBounded(t, &c)
}

// TestCatalogIsFair: databases that fill the catalogue leave others their share.
func TestCatalogIsFair(t *testing.T) {
	var c Catalog
	keep := func(database string, metrics int) {
		for i := range metrics {
			c.KeepMetadata([]byte(database), fmt.Appendf(nil, "m%d", i), "gauge", nil, nil)
		}
	}
	const greedy = 2 * bytesMax / databaseBytesMax
	for i := range greedy {
		keep(fmt.Sprint("greedy", i), databaseMetricsMax+1)
	}
	keep("modest", 1000)
	if n := len(c.Metadata("modest", "", 0)); n != 1000 {
		t.Errorf("%d of 1000 metrics are kept", n)
	}
	wantBounded(t, &c)
	if c.bytes < bytesMax-1000 {
		t.Errorf("%d bytes, and there is more", c.bytes)
	}
}

// wantBounded counts what is kept anew.
func wantBounded(t *testing.T, c *Catalog) {
	t.Helper()
	c.mu.RLock()
	defer c.mu.RUnlock()
	all := 0
	for database, d := range c.known {
		bytes := 0
		for _, m := range d.metrics {
			bytes += m.bytes()
		}
		if all += bytes; bytes != d.bytes || bytes > databaseBytesMax || len(d.metrics) > databaseMetricsMax {
			t.Errorf("%s has %d metrics of %d bytes, counted are %d", database, len(d.metrics), bytes, d.bytes)
		}
	}
	if all != c.bytes || all > bytesMax {
		t.Errorf("%d bytes, counted are %d", all, c.bytes)
	}
}
