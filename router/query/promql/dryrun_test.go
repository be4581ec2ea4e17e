package promql

import (
	"encoding/json"
	"fmt"
	"net/url"
	"slices"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/scan"
	"github.com/tickmesh/tickmesh/api/scan/scantest"
	"github.com/tickmesh/tickmesh/router/query/admission"
)

// explained is what a test reads of a plan.
type explained struct {
	Data struct {
		Evaluation string
		Databases  []string
		Reads      []struct {
			Database, Sends string
			From, To        *time.Time
			Steps           *struct{ Count int }
			Series          int64
		}
		Estimate  struct{ Series, Samples int64 }
		Admission struct{ Exceeds []string }
	}
}

// TestExplain: the plan of a query has the requests that the query makes, and asking for it reads nothing but counts.
func TestExplain(t *testing.T) {
	o := labOptions(t)
	watched := scantest.Watch(o.Source)
	o.Source = watched
	h := New(o)
	for text, evaluation := range map[string]string{
		"up": "direct", "sum by (job) (rate(requests_total[5m]))": "direct", "quantile_over_time(0.9, up[5m]) + 1": "engine",
		`{__name__=~"up|lonely"}`: "direct", "1": "engine", "rate(requests_total[5m]) / on(job) group_left sum by (job) (up)": "engine", "max_over_time(sum(up)[10m:1m])": "engine",
		"nosuch": "direct", "topk(1, up)": "engine", `absent(up{job="x"})`: "engine", "{__name__!=''}": "direct",
	} {
		for _, target := range []string{"query_range?start=1749999000&end=1750000000&step=60&query=", "query?time=1750000000&query="} {
			target += url.QueryEscape(text)
			if got := get(h, target); got.status != 200 {
				t.Fatal(text, got)
			}
			var want []string
			for _, r := range watched.Take() {
				want = append(want, requestText(&r))
			}
			answer := get(h, target+"&explain=true")
			var plan explained
			if err := json.Unmarshal([]byte(answer.body), &plan); answer.status != 200 || err != nil {
				t.Fatal(text, answer, err)
			}
			for _, r := range watched.Take() {
				if r.Windows == nil || r.Windows.Aggregates != scan.AggregateCount || !r.Exact {
					t.Errorf("%s: planning reads %+v", text, r)
				}
			}
			var got []string
			for _, r := range plan.Data.Reads {
				count := 0
				if r.Steps != nil {
					count = r.Steps.Count
				}
				got = append(got, fmt.Sprintf("%s %s %s %d", r.Database, timeText(r.From), timeText(r.To), count))
			}
			slices.Sort(want)
			slices.Sort(got)
			if !slices.Equal(got, want) || plan.Data.Evaluation != evaluation {
				t.Errorf("%s: %s\n got %q\nwant %q", target, plan.Data.Evaluation, got, want)
			}
		}
	}
}

func requestText(r *scan.Request) string {
	at := func(ms int64) *time.Time {
		if ms == scan.TimeMsMax || ms == scan.TimeMsMin {
			return nil
		}
		t := time.UnixMilli(ms)
		return &t
	}
	count := 0
	if r.Steps != nil {
		count = r.Steps.Count()
	}
	return fmt.Sprintf("default %s %s %d", timeText(at(r.FromMs)), timeText(at(r.ToMs)), count)
}

func timeText(at *time.Time) string {
	if at == nil {
		return "-"
	}
	return at.UTC().String()
}

// TestExplainErrors: what a query is refused for, its plan is refused for; a limit of what is read is told instead.
func TestExplainErrors(t *testing.T) {
	o := labOptions(t)
	o.Admission = admission.New(admission.Options{Limits: admission.Limits{SamplesMax: 100, SeriesMax: 1}})
	o.Source = o.Admission.Source(o.Source)
	h := New(o)
	for target, status := range map[string]int{"query?query=sum(": 400, "query?query=sum_over_time(up[400d:1s])": 422, "query_range?query=up": 400} {
		if got := get(h, target+"&explain=true"); got.status != status {
			t.Error(target, got)
		}
	}
	if got := get(h, "query?query=requests_total"); got.status != 422 {
		t.Error(got)
	}
	var plan explained
	if got := get(h, "query?query=requests_total&explain=true"); got.status != 200 || json.Unmarshal([]byte(got.body), &plan) != nil || !slices.Equal(plan.Data.Admission.Exceeds, []string{"series"}) {
		t.Error(got)
	}
}
