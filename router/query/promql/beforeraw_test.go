package promql

import (
	"math"
	"net/url"
	"strings"
	"testing"
)

// TestBeforeRaw: an answer that was made of hours before raw says so, once, and others do not.
func TestBeforeRaw(t *testing.T) {
	o := labOptions(t)
	const rawFromMs = labMs - 150_000
	o.RawFrom = func(database, metric string) int64 {
		if database == "" && (metric == "up" || metric == "requests_total") {
			return rawFromMs
		}
		return math.MinInt64
	}
	h := New(o)
	const between = "&start=1749999760&end=1750000000&step=60"
	for _, c := range []struct {
		target string
		warned bool
	}{
		{"query?query=up", true}, // its lookback of five minutes
		{"query?query=up&lookback_delta=1m", false},
		{"query?query=up&lookback_delta=1m&db=other", false},
		{"query?query=nothing", false},
		{"query?query=lonely", false},
		{"query_range?query=up" + between, true},
		{"query_range?query=lonely" + between, false},
		{"query_range?query=up&lookback_delta=30s&start=1749999940&end=1750000000&step=60", false},
		{"query_range?query=sum(up)" + between, true},
		{"query_range?query=quantile(0.5,up)" + between, true},
		{"query_range?query=sum(up)%2Bsum(rate(requests_total[2m]))" + between, true},
		{"query_range?query=rate(requests_total[2m])&start=1749999940&end=1750000000&step=60", true},
		{"query_range?query=sum(rate(requests_total[2m]))&start=1749999940&end=1750000000&step=60", true},
		{"query_range?query=rate(requests_total[1m])&start=1749999940&end=1750000000&step=60", false},
		{"query?query=" + url.QueryEscape(`max_over_time(up[1m:30s] offset 3m)`), true},
		{"query?query=" + url.QueryEscape(`{job="node"}`), true},
		{"query?query=" + url.QueryEscape(`{__name__=~"lone.*|odd"}`), false},
	} {
		answer := get(h, c.target)
		want := 0
		if c.warned {
			want = 1
		}
		if got := strings.Count(answer.body, "before the raw of the databases file"); got != want || answer.status != 200 {
			t.Errorf("%s: %d warnings, want %d: %d %s", c.target, got, want, answer.status, answer.body)
		}
		if strings.Contains(answer.body, `"warnings"`) != c.warned {
			t.Errorf("%s: %s", c.target, answer.body)
		}
	}
}
