package dryrun

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/api/series"
)

const dayOne = 20_000 * scan.DayMs // 2024-10-04

// regular returns series of one metric with a sample every everyMs, from dayOne on.
func regular(t testing.TB, seriesCount, samples int, everyMs int64) *scantest.Memory {
	m := scantest.NewMemory()
	for i := range seriesCount {
		for n := range samples {
			if err := m.Put(scantest.Key("db", "m", "host", fmt.Sprint(i)), series.Sample{TimeMs: dayOne + int64(n)*everyMs, Value: 1}); err != nil {
				t.Fatal(err)
			}
		}
	}
	return m
}

func selector() scan.Selector { return scan.Selector{Database: "db", Metric: "m"} }

// TestEstimate: of series that are alike, the estimate is what a scan finds.
func TestEstimate(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		every := rapid.Int64Range(1, 100).Draw(rt, "minutes") * 60_000
		m := regular(t, rapid.IntRange(1, 20).Draw(rt, "series"), rapid.IntRange(1, 60).Draw(rt, "samples"), every)
		request := scan.Request{Selector: selector()}
		request.FromMs = dayOne + rapid.Int64Range(-1000, 1000).Draw(rt, "from")*60_000
		request.ToMs = request.FromMs + rapid.Int64Range(0, 5000).Draw(rt, "length")*60_000
		switch rapid.IntRange(0, 2).Draw(rt, "kind") {
		case 1:
			request.Windows = &scan.Windows{WidthMs: rapid.Int64Range(1, 3000).Draw(rt, "width") * 60_000, Aggregates: scan.AggregateSum | scan.AggregateCount}
		case 2:
			request.Steps = &scan.Steps{FirstMs: request.FromMs, LastMs: request.ToMs, StepMs: 60_000, RangeMs: 60_000, Function: scan.StepSum}
			request.FromMs -= request.Steps.RangeMs - 1
		}
		found := map[string]bool{}
		samples, values := int64(0), int64(0)
		whole := request
		whole.Windows, whole.Steps = nil, nil
		for target, r := range map[*int64]*scan.Request{&samples: &whole, &values: &request} {
			if err := m.Scan(context.Background(), r, func(_ int, c *scan.Chunk) error {
				found[string(c.Key)] = true
				*target += int64(len(c.Times))
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		watched := scantest.Watch(m)
		r := NewRecorder(watched)
		if err := r.Scan(context.Background(), &request, func(int, *scan.Chunk) error { return errors.New("a sample was read") }); err != nil {
			t.Fatal(err)
		}
		plan, err := r.Plan(context.Background(), Query{}, scan.Limits{})
		if err != nil {
			t.Fatal(err)
		}
		if e := plan.Estimate; e.Samples != samples || e.Series < int64(len(found)) || e.Values < min(values, samples) || e.Values > samples { // nodes send samples where they are fewer
			t.Fatalf("%+v, where there are %d series, %d samples, %d values", e, len(found), samples, values)
		}
		for _, probe := range watched.Take() {
			if probe.Windows == nil || !probe.Exact {
				t.Fatalf("planning reads %+v", probe)
			}
		}
	})
}

// TestPlan: the JSON and the text of a plan.
func TestPlan(t *testing.T) {
	r := NewRecorder(regular(t, 10, 100, 60_000))
	ctx := context.Background()
	windows := &scan.Request{Selector: selector(), FromMs: dayOne, ToMs: dayOne + 3600_000 - 1, Windows: &scan.Windows{WidthMs: 600_000, Aggregates: scan.AggregateSum | scan.AggregateLast}}
	windows.Matchers = []scan.Matcher{{Name: "host", Kind: scan.MatchIn, Values: []string{"1", "2", "x"}}}
	if err := r.Scan(ctx, windows, nil); err != nil {
		t.Fatal(err)
	}
	s := selector()
	if err := r.Last(ctx, &s, scan.TimeMsMin, scan.Limits{}, nil); err != nil {
		t.Fatal(err)
	}
	plan, err := r.Plan(ctx, Query{Dialect: "d", Databases: []string{"db"}, Text: "q"}, scan.Limits{SamplesMax: 100, SeriesMax: 12})
	if err != nil {
		t.Fatal(err)
	}
	text, err := json.Marshal(plan)
	want := `{"dialect":"d","databases":["db"],"query":"q","reads":[` +
		`{"database":"db","selector":"m{host in (\"1\", \"2\", \"x\")}","from":"2024-10-04T00:00:00Z","to":"2024-10-04T00:59:59.999Z","sends":"windows","windows":{"width":"10m0s","aggregates":["sum","last"],"rollup":"none"},"series":2,"samples":120,"values":12,"bytes":288},` +
		`{"database":"db","selector":"m","sends":"newest samples","series":10,"samples":10,"values":10,"bytes":160}],` +
		`"estimate":{"series":12,"samples":130,"values":22,"bytes":448},"admission":{"seriesMax":12,"samplesMax":100,"bytesMax":0,"exceeds":["samples"]}}`
	if err != nil || string(text) != want {
		t.Errorf("%v\n got %s\nwant %s", err, text, want)
	}
	wantLines := []string{
		`READ: m{host in ("1", "2", "x")}`, "DATABASE: db", "TIME: 2024-10-04T00:00:00Z TO 2024-10-04T00:59:59.999Z", "SENDS: windows of 10m0s, sum, last (rollups: none)",
		"NUMBER OF SERIES: 2", "SAMPLES: 120", "VALUES: 12", "BYTES: 288", "",
		"READ: m", "DATABASE: db", "TIME: the first sample TO the last sample", "SENDS: newest samples", "NUMBER OF SERIES: 10", "SAMPLES: 10", "VALUES: 10", "BYTES: 160", "",
		"ALL SERIES: 12 of 12", "ALL SAMPLES: 130 of 100", "ALL BYTES: 448 of any number", "BEYOND THE LIMIT OF: samples",
	}
	if got := plan.Lines(); !slices.Equal(got, wantLines) {
		t.Errorf("\n got %s\nwant %s", strings.Join(got, "\n"), strings.Join(wantLines, "\n"))
	}
}

// TestManyReads: a plan is bounded.
func TestManyReads(t *testing.T) {
	r := NewRecorder(regular(t, 1, 1, 1))
	for range readsMax + 7 {
		if err := r.Scan(context.Background(), &scan.Request{Selector: selector(), ToMs: scan.TimeMsMax}, nil); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := r.Plan(context.Background(), Query{}, scan.Limits{})
	if err != nil || len(plan.Reads) != readsMax || plan.ReadsOmitted != 7 {
		t.Error(len(plan.Reads), plan.ReadsOmitted, err)
	}
}

// TestRollupOf: what may be read from rollups, by the rules of node/storage/read.
func TestRollupOf(t *testing.T) {
	for want, list := range map[string][]scan.Windows{
		"day":  {{WidthMs: scan.DayMs}, {WidthMs: 7 * scan.DayMs, OriginMs: scan.DayMs}, {WidthMs: 50 * scan.HourMs, Aggregates: scan.AggregateLast}},
		"hour": {{WidthMs: scan.HourMs}, {WidthMs: scan.DayMs, OriginMs: scan.HourMs}, {WidthMs: 2*scan.HourMs + 1}, {WidthMs: 50 * scan.HourMs, OriginMs: 1}},
		"none": {{WidthMs: scan.HourMs + 1}, {WidthMs: scan.HourMs, OriginMs: 1}, {WidthMs: 60_000}},
	} {
		for _, w := range list {
			if got := rollupOf(&w); got != want {
				t.Errorf("%+v: %s, want %s", w, got, want)
			}
		}
	}
}

// TestEnds: ends of all time, and years that RFC 3339 does not have, are left out.
func TestEnds(t *testing.T) {
	for _, ms := range []int64{scan.TimeMsMin, scan.TimeMsMax, scan.TimeMsMin + 1, 300_000 * 365 * scan.DayMs} {
		if got := timeOf(ms); got != nil {
			t.Error(ms, got)
		}
	}
	at := time.Date(1969, 12, 31, 23, 59, 59, 999e6, time.UTC)
	if got := timeOf(at.UnixMilli()); got == nil || got.String() != "1969-12-31T23:59:59.999Z" {
		t.Error(got)
	}
}

// limited refuses all scans but the first few.
type limited struct {
	scan.Source
	left int
}

func (l *limited) Scan(ctx context.Context, request *scan.Request, visit scan.Visitor) error {
	if l.left--; l.left < 0 {
		return &scan.LimitError{What: "series", Limit: 5}
	}
	return l.Source.Scan(ctx, request, visit)
}

// TestPlanBeyondLimits: what planning reads may use the query's limits up; the plan is there all the same, and says what the query exceeds.
func TestPlanBeyondLimits(t *testing.T) {
	r := NewRecorder(&limited{regular(t, 12, 10, 60_000), 5})
	for range 2 {
		if err := r.Scan(t.Context(), &scan.Request{Selector: selector(), FromMs: dayOne, ToMs: dayOne + scan.DayMs}, nil); err != nil {
			t.Fatal(err)
		}
	}
	plan, err := r.Plan(t.Context(), Query{}, scan.Limits{SeriesMax: 5})
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(plan.Admission.Exceeds, "series") || plan.Reads[1].Samples != plan.Reads[0].Samples {
		t.Errorf("%+v", plan)
	}
}

// TestOneStep: where there is one time, nothing is said to come every so often.
func TestOneStep(t *testing.T) {
	for lastMs, want := range map[int64]Steps{
		1_000:   {Function: "sum_over_time", Range: "1m0s", Count: 1},
		121_000: {Function: "sum_over_time", Range: "1m0s", Every: "1m0s", Count: 3},
	} {
		steps := scan.Steps{FirstMs: 1_000, LastMs: lastMs, StepMs: 60_000, RangeMs: 60_000, Function: scan.StepSum}
		if got := describe(&scan.Request{Steps: &steps}); *got.Steps != want {
			t.Errorf("%+v, want %+v", *got.Steps, want)
		}
	}
}
