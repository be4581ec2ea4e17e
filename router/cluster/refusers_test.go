package cluster

import (
	"testing"
	"time"

	nodev1 "github.com/tickmesh/tickmesh/proto/tickmesh/node/v1"
)

// TestRefusersAreKept: a node that has refused writes counts as one that does for a while, also while it says nothing, and is forgotten then.
func TestRefusersAreKept(t *testing.T) {
	r, start := refusers{}, time.Now()
	well, refuses := &nodev1.ReportResponse{}, &nodev1.ReportResponse{Refusal: "no room"}
	for _, step := range []struct {
		after   time.Duration
		reports map[string]*nodev1.ReportResponse
		want    bool // of a
	}{
		{0, map[string]*nodev1.ReportResponse{"a": well, "b": well}, false},
		{time.Second, map[string]*nodev1.ReportResponse{"a": refuses, "b": well}, true},
		{2 * time.Second, map[string]*nodev1.ReportResponse{"a": well, "b": well}, true},
		{refusalKept, map[string]*nodev1.ReportResponse{"b": well}, true},
		{refusalKept + time.Second, map[string]*nodev1.ReportResponse{"a": well, "b": well}, false},
	} {
		r.note(step.reports, start.Add(step.after))
		if r.has("a") != step.want || r.has("b") {
			t.Errorf("after %v: %v", step.after, r)
		}
	}
	if len(r) > 0 {
		t.Errorf("%v is kept", r)
	}
}
