package promql

import (
	"bytes"
	"fmt"
	"math"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"net/url"
	"testing"
	"time"

	"github.com/klauspost/compress/snappy"
	"github.com/prometheus/prometheus/prompb"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

const (
	pairStepMs = 15_000
	pairMs     = 1_750_000_005_000 // a multiple of pairStepMs
)

// fillPair puts the samples that two Prometheus have of some counters: both scrape every 15 s, one 3 s after the begin of an
// interval and the other one 10 s after it, and each was down for a while. Only, if it is not nil, has those that
// count: the second one's, and where it was down the first one's.
func fillPair(t *testing.T, both, only *scantest.Memory) {
	t.Helper()
	random := rand.New(rand.NewPCG(1, 2))
	for i := range 6 {
		key := scantest.Key("", "requests_total", "instance", fmt.Sprint("i", i))
		value := 0.0
		for n := range 200 {
			begin := int64(pairMs + n*pairStepMs)
			first := series.Sample{TimeMs: begin + 3000, Value: value}
			value += float64(random.IntN(50))
			second := series.Sample{TimeMs: begin + 10_000, Value: value}
			value += float64(random.IntN(50))
			switch {
			case n == 150 && i == 0: // the target is gone, and comes back
				first.Value, second.Value = math.Float64frombits(scan.StaleBits), math.Float64frombits(scan.StaleBits)
			case n%41 == 40:
				value = 0 // a restart
			}
			counts := second
			if n >= 60 && n < 90 {
				counts = first
			} else {
				putSample(t, both, key, second)
			}
			if n < 20 || n >= 30 {
				putSample(t, both, key, first)
			}
			if n < 20 || n >= 30 || counts == second {
				putSample(t, only, key, counts)
			}
		}
	}
}

func putSample(t *testing.T, m *scantest.Memory, key series.Key, s series.Sample) {
	t.Helper()
	if err := m.Put(key, s); err != nil {
		t.Fatal(err)
	}
}

// TestDeduplicate: two that scrape the same, with intervals, are answered as one is without.
func TestDeduplicate(t *testing.T) {
	both, only := scantest.NewMemory(), scantest.NewMemory()
	fillPair(t, both, only)
	deduplicated, one, doubled := New(Options{Source: both, DeduplicateInterval: pairStepMs * time.Millisecond}), New(Options{Source: only}), New(Options{Source: both})
	span := url.Values{"start": {fmt.Sprint(pairMs / 1000)}, "end": {fmt.Sprint(pairMs/1000 + 200*15)}, "step": {"30"}}
	differing := 0
	for _, query := range []string{
		"requests_total", "rate(requests_total[5m])", "sum(increase(requests_total[2m]))", "count_over_time(requests_total[1m])", "max(requests_total)",
		"count(requests_total)", "count(rate(requests_total[1m]))", "quantile_over_time(0.5, requests_total[2m])", "max_over_time(rate(requests_total[1m])[3m:30s])",
		"requests_total offset 45s", "avg_over_time(requests_total[90s]) - requests_total", `changes({__name__=~"requests_.+"}[2m])`,
	} {
		span.Set("query", query)
		got, want := get(deduplicated, "query_range?"+span.Encode()), get(one, "query_range?"+span.Encode())
		if got.status != http.StatusOK || got.body != want.body {
			t.Errorf("%s: %d %.300s, want %.300s", query, got.status, got.body, want.body)
		}
		if get(doubled, "query_range?"+span.Encode()).body != want.body {
			differing++
		}
		for n := 1; n < 200; n += 7 { // the ends of intervals
			at := url.Values{"query": {query}, "time": {fmt.Sprint(pairMs/1000 + 15*n)}}
			if got, want := get(deduplicated, "query?"+at.Encode()), get(one, "query?"+at.Encode()); got.status != http.StatusOK || got.body != want.body {
				t.Errorf("%s at %d: %d %.300s, want %.300s", query, n, got.status, got.body, want.body)
			}
		}
	}
	if differing < 4 {
		t.Errorf("only %d expressions tell that there are two", differing)
	}
	request, err := (&prompb.ReadRequest{Queries: []*prompb.Query{{
		StartTimestampMs: pairMs, EndTimestampMs: pairMs + 200*pairStepMs, Matchers: []*prompb.LabelMatcher{{Name: "__name__", Value: "requests_total"}},
	}}}).Marshal()
	if err != nil {
		t.Fatal(err)
	}
	read := func(h http.Handler) []byte {
		r := httptest.NewRequest(http.MethodPost, pathPrefix+"read", bytes.NewReader(snappy.Encode(nil, request)))
		r.Header.Set("Content-Encoding", "snappy")
		return []byte(do(h, r).body)
	}
	if got, want := read(deduplicated), read(one); len(got) == 0 || !bytes.Equal(got, want) || bytes.Equal(read(doubled), want) {
		t.Errorf("remote read: %d bytes, want %d", len(got), len(want))
	}
	if got, want := get(deduplicated, "export?match[]=requests_total"), get(doubled, "export?match[]=requests_total"); got.body != want.body {
		t.Error("an export is not what was written")
	}
}
