package promql

import (
	"fmt"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/prometheus/storage"
)

// TestSpansOfAllTime: the steps of a range that is longer than a Duration are counted, too.
func TestSpansOfAllTime(t *testing.T) {
	h := newHandler(labOptions(t))
	for _, span := range [][2]string{{"-9e15", "9e15"}, {"-6.9e15", "2.3e15"}, {"-9e15", "-8.99e15"}, {"9.1e15", "9.15e15"}} {
		for _, expression := range []string{"up", "up offset -5m", "rate(up[5m])", "count(up)", "1"} {
			a := get(h, fmt.Sprintf("query_range?start=%s&end=%s&step=200000000&query=%s", span[0], span[1], url.QueryEscape(expression)))
			if a.status != 400 || !strings.Contains(a.body, "11,000 points") {
				t.Errorf("%s over %v: %d %s", expression, span, a.status, a.body)
			}
		}
	}
	if a := get(h, "query_range?query=up&start=0&end=9.3e12&step=9e9"); a.status != 200 {
		t.Error(a.status, a.body)
	}
	// The length is that of nanoseconds still, where there are so many.
	end := time.Unix(0, 0).Add(11_000 * 1_900 * time.Microsecond)
	if steps := (span{start: time.Unix(0, 0), end: end, step: 1_900 * time.Microsecond}).stepsMore(); steps != 11_000 {
		t.Error(steps)
	}
}

// TestGridThatCannotBeCounted is none.
func TestGridThatCannotBeCounted(t *testing.T) {
	p := plan{lookbackMs: 1, gridKnown: true}
	hints := storage.SelectHints{Start: -6e18, End: 6e18, Step: 1}
	if g, ok := p.grid(&hints); ok {
		t.Errorf("%+v", g)
	}
	hints.Start = math.MinInt64 / 4
	if _, ok := p.grid(&hints); !ok {
		t.Error("a grid that can be counted")
	}
}
