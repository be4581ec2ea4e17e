package promql

import (
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/router/metadata"
)

// TestMetadata: the latest counts, by database.
func TestMetadata(t *testing.T) {
	o := labOptions(t)
	var c metadata.Catalog
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
		{"metadata?limit=1", `{"requests_total":[{"type":"counter","unit":"requests","help":"` + strings.Repeat("x", 1024) + `"}]}`},
		{"metadata?limit=0", `{}`},
		{"metadata?db=other", `{"else":[{"type":"unknown","unit":"","help":""}]}`},
		{"metadata?metric=else", `{}`},
	} {
		if got := get(h, x.target); got.body != success(x.want) {
			t.Errorf("%s: %s", x.target, got.body)
		}
	}
}
