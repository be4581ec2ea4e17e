package influxql

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
	"github.com/tickmesh/tickmesh/router/query/admission"
	"github.com/tickmesh/tickmesh/router/query/influxql/load"
)

// manySamples returns a measurement with n samples, five seconds apart, in some series.
func manySamples(t *testing.T, n, seriesCount int) *scantest.Memory {
	t.Helper()
	m := scantest.NewMemory()
	for i := range seriesCount {
		samples := make([]series.Sample, 0, n/seriesCount)
		for k := i; k < n; k += seriesCount {
			samples = append(samples, series.Sample{TimeMs: oracleStartMs + int64(k)*5_000, Value: float64(k)})
		}
		if err := m.Put(scantest.Key("db0", "big", "host", fmt.Sprint(i)), samples...); err != nil {
			t.Fatal(err)
		}
	}
	return m
}

// TestAnswerLongerThanMemory: rows that are one stream are read in ranges that fit.
func TestAnswerLongerThanMemory(t *testing.T) {
	const n = 20_000
	m := manySamples(t, n, 4)
	l := admission.New(admission.Options{Limits: admission.Limits{BytesMax: 100_000}})
	h := New(Options{Source: l.Source(m), Admission: l, Clock: func() time.Time { return time.UnixMilli(oracleStartMs + 5_000*n) }})
	for _, order := range []string{"", " ORDER BY time DESC"} {
		for _, where := range []string{"", fmt.Sprintf(" WHERE time >= %dms", oracleStartMs), fmt.Sprintf(" WHERE time < %dms", oracleStartMs+5_000*n)} {
			_, body := get(t, h, "SELECT value FROM big"+where+order, "epoch", "ms")
			got := lines(t, body, nil)
			if order != "" {
				slices.Reverse(got)
			}
			if len(got) != n || got[0] != fmt.Sprintf(" %d 0.000000", int64(oracleStartMs)) || !slices.IsSorted(got) {
				t.Errorf("%s%s: %d rows", where, order, len(got))
			}
		}
	}
	if _, body := get(t, h, "SELECT value FROM big GROUP BY host"); !strings.Contains(body, "the query needs more than 100000 bytes") {
		t.Errorf("groups have to be held: %.200s", body)
	}
	if _, body := get(t, h, "SELECT median(value) FROM big"); !strings.Contains(body, "the query needs more than 100000 bytes") {
		t.Errorf("all values have to be held: %.200s", body)
	}
	if _, body := get(t, h, "SELECT value FROM big GROUP BY host LIMIT 2", "epoch", "ms"); len(lines(t, body, []string{"host"})) != 8 {
		t.Errorf("a LIMIT needs little: %.200s", body)
	}
	if _, body := get(t, h, "SELECT value FROM big GROUP BY host ORDER BY time DESC LIMIT 2", "epoch", "ms"); len(lines(t, body, []string{"host"})) != 8 {
		t.Errorf("a LIMIT needs little: %.200s", body)
	}
	if _, body := get(t, h, "SELECT mean(value) FROM big GROUP BY host"); strings.Contains(body, "error") {
		t.Errorf("windows need little: %.200s", body)
	}
}

// TestRanges: ranges are next to each other and cover the span.
func TestRanges(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 5))
	instants := []int64{-1 << 62, -1, 0, 1, oracleStartMs * load.NsPerMs, 1 << 62}
	for range 2000 {
		at := func() int64 { return instants[r.IntN(len(instants))] + r.Int64N(1<<uint(1+r.IntN(60))) }
		s := &selection{execution: &execution{now: time.Unix(0, oracleStartMs*load.NsPerMs)}}
		s.ascending = r.IntN(2) == 0
		s.From, s.To = at(), at()
		if r.IntN(3) == 0 {
			s.From = -9223372036854775806
		}
		if r.IntN(3) == 0 {
			s.To = 9223372036854775806
		}
		if s.From > s.To {
			continue
		}
		all := s.ranges()
		if !s.ascending {
			slices.Reverse(all)
		}
		from := s.From
		for i, within := range all {
			if within.From != from || within.To < within.From || i == len(all)-1 && within.To != s.To || len(all) > 40 {
				t.Fatalf("%d to %d: %v", s.From, s.To, all)
			}
			from = within.To + 1
		}
	}
}

// TestParallelVisitors: answers are the same, to the last bit, however many visitors read.
func TestParallelVisitors(t *testing.T) {
	samples, windows := readyChunks(200, 60, true), readyChunks(200, 60, false)
	for i := range samples.chunks { // sums of these differ by their order
		for n := range samples.chunks[i].Values {
			samples.chunks[i].Values[n] /= 7
			windows.chunks[i].Sum[n] /= 7
		}
	}
	for query, source := range map[string]*readySource{
		"SELECT value, region FROM cpu": samples, "SELECT stddev(value) FROM cpu GROUP BY time(1m)": samples, "SELECT value FROM cpu WHERE value > 50 AND region != 'eu-3' GROUP BY region": samples,
		"SELECT first(value) FROM cpu": samples, "SELECT mean(value) FROM cpu WHERE time >= 1600002000s AND time < 1600005600s GROUP BY time(1m), region": windows,
	} {
		if source == samples && strings.Contains(query, "time(1m)") {
			query += " LIMIT 5"
		}
		var first string
		for _, parallel := range []int{1, 4} {
			status, body := get(t, New(Options{Source: source, Limits: Limits{Parallel: parallel}, Clock: func() time.Time { return time.UnixMilli(benchStartMs + 3_600_000) }}), query, "db", "")
			if status != 200 || strings.Contains(body, "error") || !strings.Contains(body, `"values"`) {
				t.Fatalf("%s: %d %.300s", query, status, body)
			}
			if first == "" {
				first = body
			}
			if body != first {
				t.Errorf("%s: %d visitors answer\n%.300s\none answers\n%.300s", query, parallel, body, first)
			}
		}
	}
}
