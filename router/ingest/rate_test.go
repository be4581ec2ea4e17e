package ingest

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/tickmesh/tickmesh/api/series"
)

// Too many new series this second is no reason to throw a batch away, which clients
// do on any 4xx: what can be written is, and the client is asked to come back. It is told which bound refused them.
func TestSeriesRateIs503(t *testing.T) {
	line := "m value=1 1700000000000000000\nnew value=1 1700000000000000000\n"
	put := "put m 1700000000 1\nput new 1700000000 1\n"
	for target, body := range map[string]string{
		"/write": line, "/api/v2/write?bucket=": line, "/api/write": line, "/api/put": put, "/api/put?summary": put, "/api/put?details": put,
		"/api/v1/write": block(series1([]string{"__name__", "m"}, sample{1, 1700000000000}), series1([]string{"__name__", "new"}, sample{1, 1700000000000})),
	} {
		r := start(t, nil)
		r.refuseNew(refusingAs("new", fmt.Errorf("%w: 17", series.ErrSeriesRate)))
		response, text := r.post(t, request(target, body))
		if response.StatusCode != 503 || response.Header.Get("Retry-After") == "" || !strings.Contains(text, "a second: 17: 1 points wait") || strings.Contains(text, "partial write") {
			t.Errorf("%s: %d %s", target, response.StatusCode, text)
		}
		equalLines(t, "stored", r.stored(), []string{"m{} 1700000000000 1"})
		if accepted, refused := r.metric(t, "tickmesh_ingest_points_total", "outcome=accepted"), r.metric(t, "tickmesh_ingest_points_total", "outcome=refused"); accepted != 1 || refused != 1 {
			t.Errorf("%s: %v accepted, %v refused; want 1, 1", target, accepted, refused)
		}
		r.refuseNew(nil)
		if response, text = r.post(t, request(target, body)); response.StatusCode/100 != 2 {
			t.Errorf("%s again: %d %s", target, response.StatusCode, text)
		}
		equalLines(t, "stored", r.stored(), []string{"m{} 1700000000000 1", "new{} 1700000000000 1"})
	}
}

// TCP has nobody to ask again: it waits and tries until its time is up.
func TestSeriesRateSlowsTCP(t *testing.T) {
	refusals := 3
	var r *running
	refuse := refusingAs("new", series.ErrSeriesRate)
	r = start(t, func(o *Options) { o.TCP.RetryDelayMin = time.Millisecond })
	r.refuseNew(func(key series.Key) error {
		if refuse(key) == nil || refusals == 0 {
			return nil
		}
		refusals--
		return series.ErrSeriesRate
	})
	if out := exchange(t, r.Addresses().Put, "put m 1700000000 1\nput new 1700000000 1\nversion\n"); out != versionAnswer {
		t.Errorf("answer %q", out)
	}
	equalLines(t, "stored", r.stored(), []string{"m{} 1700000000000 1", "new{} 1700000000000 1"})
	if got := r.metric(t, "tickmesh_ingest_points_total", "outcome=accepted"); got != 2 {
		t.Errorf("%v accepted, want 2", got)
	}

	r = start(t, func(o *Options) { o.TCP.RetryDelayMin = time.Millisecond; o.TCP.RetryTimeout = 5 * time.Millisecond })
	r.refuseNew(refuse)
	want := "put: Please throttle writes: " + series.ErrSeriesRate.Error() + " (line 'put new 1700000000 1')\n" + versionAnswer
	if out := exchange(t, r.Addresses().Put, "put m 1700000000 1\nput new 1700000000 1\nversion\n"); out != want {
		t.Errorf("answer %q, want %q", out, want)
	}
	for outcome, want := range map[string]float64{"accepted": 1, "refused": 1, "failed": 0} {
		if got := r.metric(t, "tickmesh_ingest_points_total", "outcome="+outcome); got != want {
			t.Errorf("%s: %v, want %v", outcome, got, want)
		}
	}
	if got := r.metric(t, "tickmesh_ingest_dropped_total", "cause=write"); got != 1 {
		t.Errorf("%v dropped, want 1", got)
	}
}
