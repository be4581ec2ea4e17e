package promql

import (
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/tickmesh/tickmesh/api/guard"
)

// TestExperimental: what Prometheus has behind flags is taken with Options.Experimental alone. Answers were worked out by hand.
func TestExperimental(t *testing.T) {
	o := labOptions(t)
	plain := New(o)
	o.Experimental = true
	taking := New(o)
	vector := func(metric, v string) string {
		return success(`{"resultType":"vector","result":[{"metric":{` + metric + `},"value":[1750000000,"` + v + `"]}]}`)
	}
	for text, want := range map[string]string{
		`mad_over_time(requests_total{code="500"}[5m])`:                      vector(`"code":"500","job":"api"`, "6"),
		`ts_of_max_over_time(requests_total{code="200"}[10m])`:               vector(`"code":"200","job":"api"`, "1749999880"),
		`sum_over_time(requests_total{code="500"}[1m+1m])`:                   vector(`"code":"500","job":"api"`, "42"),
		`sum_over_time(requests_total{code="500"}[(2m-1m):30s*2])`:           vector(`"code":"500","job":"api"`, "18"), // at 1749999960
		`requests_total{code="500"} offset (30s*4)`:                          vector(`"__name__":"requests_total","code":"500","job":"api"`, "12"),
		`increase(requests_total{code="500"}[90s] anchored)`:                 "",
		`increase(requests_total{code="500"}[2m] smoothed)`:                  "",
		`count(limitk(1, requests_total))`:                                   vector("", "1"),
		`sum(requests_total{code="200"} + on(nosuch) fill(1) absent_metric)`: vector("", "91"),
	} {
		target := "query?query=" + url.QueryEscape(text)
		if got := get(plain, target); got.status != http.StatusBadRequest {
			t.Errorf("%s, by default: %d %s", text, got.status, got.body)
		}
		if got := get(taking, target); got.status != http.StatusOK || want != "" && got.body != want {
			t.Errorf("%s:\n got %d %s\nwant %s", text, got.status, got.body, want)
		}
	}
}

// TestExperimentalBounds: durations that are expressions cannot get round the bounds of subqueries, and count as operators.
func TestExperimentalBounds(t *testing.T) {
	o := labOptions(t)
	o.Experimental = true
	h := New(o)
	for _, text := range []string{
		"sum_over_time(up[400d+0s:1s])", "sum_over_time(up[1d:1ms*1])", "sum_over_time(up[step()*4000000:1s])", "max_over_time(sum_over_time(up[1d:1ms*1])[1d:1h])",
	} {
		if got := get(h, "query_range?start=1749999000&end=1750000000&step=60&query="+url.QueryEscape(text)); got.status != http.StatusUnprocessableEntity || !strings.Contains(got.body, "a subquery has") {
			t.Errorf("%s: %d %s", text, got.status, got.body)
		}
	}
	long := "sum_over_time(up[1m" + strings.Repeat("+1m", guard.OperatorsMax+1) + "])"
	if got := get(h, "query?query="+url.QueryEscape(long)); got.status != http.StatusBadRequest || !strings.Contains(got.body, guard.ErrTooLarge.Error()) {
		t.Errorf("%d %.200s", got.status, got.body)
	}
}
