package promql

import (
	"net/http"
	"net/url"
	"testing"
	"time"
)

// TestRangeDefaults leaves out parameters of a range query, and compares with the answer to one that names them.
func TestRangeDefaults(t *testing.T) {
	o := labOptions(t)
	plain := New(o)
	o.MetricsQL = true
	taking := New(o)
	now := time.UnixMilli(labMs).UTC()
	full := url.Values{"query": {"up"}, "start": {now.Add(-5 * time.Minute).Format(time.RFC3339)}, "end": {now.Format(time.RFC3339)}, "step": {"300"}}
	for _, left := range [][]string{{}, {"step"}, {"start"}, {"end"}, {"start", "end"}, {"start", "end", "step"}} {
		form := url.Values{}
		for name, values := range full {
			form[name] = values
		}
		for _, name := range left {
			form.Del(name)
		}
		want := get(plain, "query_range?"+full.Encode())
		if got := get(taking, "query_range?"+form.Encode()); got.status != http.StatusOK || got.body != want.body {
			t.Errorf("without %v: %d %s, want %s", left, got.status, got.body, want.body)
		}
		if got := get(plain, "query_range?"+form.Encode()); (got.status == http.StatusOK) != (len(left) == 0) {
			t.Errorf("without %v, and without MetricsQL: %d %s", left, got.status, got.body)
		}
	}
	form := url.Values{"query": {"up"}, "start": {"1749999700"}, "end": {"1750000000"}, "step": {"60"}}
	if got, want := get(taking, "query_range?"+form.Encode()), get(plain, "query_range?"+form.Encode()); got.body != want.body {
		t.Errorf("%s, want %s", got.body, want.body)
	}
	for _, step := range []string{"0", "x", "-1"} {
		form.Set("step", step)
		if got := get(taking, "query_range?"+form.Encode()); got.status != http.StatusBadRequest {
			t.Errorf("step %s: %d %s", step, got.status, got.body)
		}
	}
}
